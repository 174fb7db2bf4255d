"""What an enabled stopwatch costs: against timing by hand, codetiming, and a training step.

    python benchmarks/stopwatch_overhead.py [--small]

The training step is forward, backward and update of a small convolutional net on the CPU, with ten
names measured in it. The last lines are JSON: the claims.
"""

from __future__ import annotations

import sys
import time
import timeit
from collections.abc import Callable

import torch
from _measure import print_claim, read_small_flag, take_turns
from codetiming import Timer
from torch import nn

from assay import timing
from assay.timing import Stopwatch

ROUNDS_A_LINE = 20
OURS = 'stopwatch.start_meas("forward"); stopwatch.end_meas("forward")'
BY_HAND = (
    "start_ns = time.perf_counter_ns(); elapsed_ns = time.perf_counter_ns() - start_ns; "
    'totals["forward"] = totals.get("forward", 0) + elapsed_ns'
)
NAMES = ("load", "augment", "zero", "stem", "blocks", "head", "loss", "backward", "clip", "update")


class NoStopwatch:
    """What the training step calls when it is not measured."""

    def start_meas(self, name: str) -> None:
        pass

    def end_meas(self, name: str) -> None:
        pass

    def finish_iter(self) -> None:
        pass


def compare(
    claim: str, ours: str, peer: str, names: dict[str, object], *, lines: int, pairs: int
) -> None:
    """Print the claim of one statement beside another, each written out many times over."""
    sides = [
        timeit.Timer("\n".join([statement] * ROUNDS_A_LINE), globals=names)
        for statement in (ours, peer)
    ]
    print(f"\n{ours}\n  beside {peer}")
    timings = take_turns(
        lambda: sides[0].timeit(lines), lambda: sides[1].timeit(lines), pairs=pairs
    )
    print_claim(claim, timings, unit=f"s for {lines * ROUNDS_A_LINE} times")


def training_step() -> Callable[[Stopwatch | NoStopwatch], float]:
    """A function that trains one step, the parts of which it measures by the stopwatch given."""
    torch.manual_seed(0)
    stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
    blocks = nn.Sequential(
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
    )  # fmt: skip
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    parameters = [*stem.parameters(), *blocks.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)
    data = torch.randn(4, 32, 3, 32, 32)
    labels = torch.randint(10, (4, 32))
    state = {"batch": 0}

    def step(stopwatch: Stopwatch | NoStopwatch) -> float:
        found: dict[str, torch.Tensor] = {}

        def load() -> None:
            state["batch"] = (state["batch"] + 1) % len(data)
            found["images"], found["labels"] = data[state["batch"]], labels[state["batch"]]

        def augment() -> None:
            found["images"] = found["images"].flip(-1)

        def stem_forward() -> None:
            found["x"] = stem(found["images"])

        def blocks_forward() -> None:
            found["x"] = blocks(found["x"])

        def head_forward() -> None:
            found["x"] = head(found["x"])

        def loss() -> None:
            found["loss"] = nn.functional.cross_entropy(found["x"], found["labels"])

        parts = (
            load, augment, optimizer.zero_grad, stem_forward, blocks_forward, head_forward, loss,
            lambda: found["loss"].backward(),
            lambda: nn.utils.clip_grad_norm_(parameters, 1.0),
            optimizer.step,
        )  # fmt: skip
        for name, part in zip(NAMES, parts, strict=True):
            stopwatch.start_meas(name)
            part()
            stopwatch.end_meas(name)
        stopwatch.finish_iter()
        return float(found["loss"].detach())

    return step


def only_measure(stopwatch: Stopwatch) -> None:
    """The calls of one training step, without the step."""
    for name in NAMES:
        stopwatch.start_meas(name)
        stopwatch.end_meas(name)
    stopwatch.finish_iter()


def check_count(stopwatch: Stopwatch, expected: int) -> None:
    """End with a message unless every interval that was timed was also counted."""
    [forward] = stopwatch.summary().measurements
    if forward.host is None or forward.host.count != expected:
        sys.exit(f"the stopwatch counted {forward.host}, not {expected} intervals")
    print(f"\nall {expected} intervals were counted")


def main() -> None:
    small = read_small_flag(__doc__)
    lines, pairs = (20, 11) if small else (20, 201)
    compare(
        "`Stopwatch()` beside a look-up of a module attribute",
        "Stopwatch()",
        "timing.stopwatch",
        {"Stopwatch": Stopwatch, "timing": timing},
        lines=lines,
        pairs=pairs,
    )
    stopwatch = Stopwatch(0, None, False)
    names = {"stopwatch": stopwatch, "time": time, "totals": {}, "Timer": Timer}
    compare(
        "enabled start and end beside two clock readings and a dict update (at most 3)",
        OURS,
        BY_HAND,
        names,
        lines=lines,
        pairs=pairs,
    )
    for claim, logger in (
        ("enabled start and end beside codetiming's Timer, whose text goes nowhere", "bool"),
        ("enabled start and end beside codetiming's Timer without text", "None"),
    ):
        peer = f'with Timer("forward", logger={logger}): pass'
        compare(f"{claim} (under 0.3)", OURS, peer, names, lines=lines, pairs=pairs)
    check_count(stopwatch, 3 * lines * ROUNDS_A_LINE * (pairs + 1))

    step, nothing = training_step(), NoStopwatch()
    print("\nten names beside a training step without them")
    print_claim(
        "ten names and finish_iter beside a training step (under 0.005)",
        take_turns(lambda: only_measure(stopwatch), lambda: step(nothing), pairs=pairs, warm_ups=5),
        unit="s a step",
    )
    print("\na training step with ten names beside one without")
    print_claim(
        "a training step with ten names beside one without (under 1.005)",
        take_turns(lambda: step(stopwatch), lambda: step(nothing), pairs=pairs, warm_ups=5),
        unit="s a step",
    )


if __name__ == "__main__":
    main()
