"""How every benchmark here measures: two sides in turn, paired ratios, and memory in a child.

A benchmark has the shape::

    def main() -> None:
        small = read_small_flag(__doc__)
        ...                                     # data with a fixed seed; both sides agree
        timings = take_turns(ours, peer, pairs=5)
        memory = peak_memory(ours_function, path), peak_memory(peer_function, path)
        print_claim("what is claimed", timings, unit="GB/s", amount=gigabytes, memory=memory)

Its last line is the JSON that ``run_all.py`` collects.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

MEGABYTE = 1e6


@dataclass(frozen=True)
class Timings:
    """Seconds of both sides, pair by pair."""

    ours_s: tuple[float, ...]
    peer_s: tuple[float, ...]


@dataclass(frozen=True)
class Memory:
    """Resident memory of a process of its own."""

    before_bytes: int  # after its imports, before the call
    peak_bytes: int  # at most, during imports and call

    @property
    def extra_bytes(self) -> int:
        """What the call needed."""
        return self.peak_bytes - self.before_bytes


def read_small_flag(description: str | None) -> bool:
    """Whether ``--small`` stands on the command line."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="under 20 s: does it still work?")
    return bool(parser.parse_args().small)


def take_turns(
    ours: Callable[[], object],
    peer: Callable[[], object],
    *,
    pairs: int,
    warm_ups: int = 1,
    between: Callable[[], object] | None = None,
) -> Timings:
    """Time both sides ``pairs`` times, after ``warm_ups`` pairs that do not count.

    Who goes first changes from pair to pair: else one side would always find the machine as the
    other left it.

    Args:
        between: called before each run, untimed, such as to remove what a run wrote.
    """
    seconds: dict[str, list[float]] = {"ours": [], "peer": []}
    sides = [("ours", ours), ("peer", peer)]
    for turn in range(warm_ups + pairs):
        for name, side in sides:
            if between is not None:
                between()
            start_ns = time.perf_counter_ns()
            side()
            if turn >= warm_ups:
                seconds[name].append((time.perf_counter_ns() - start_ns) / 1e9)
        sides.reverse()
    return Timings(tuple(seconds["ours"]), tuple(seconds["peer"]))


def seconds_of(function: Callable[[], object], *, runs: int) -> float:
    """The median of ``runs`` runs, after one that does not count: for physical limits."""
    timings = take_turns(function, lambda: None, pairs=runs)
    return statistics.median(timings.ours_s)


def peak_memory(function: Callable[..., object], *arguments: Any) -> Memory:
    """The memory of ``function(*arguments)`` in a process of its own, which is spawned.

    ``function`` stands at the top level of the benchmark, which runs under
    ``if __name__ == "__main__":``; ``arguments`` can be pickled.
    """
    context = multiprocessing.get_context("spawn")
    inbox, outbox = context.Pipe(duplex=False)
    process = context.Process(target=_call_and_report, args=(outbox, function, arguments))
    process.start()
    outbox.close()
    try:
        memory: Memory = inbox.recv()
    except EOFError:
        process.join()
        sys.exit(f"{function.__name__} failed in its own process, exit code {process.exitcode}")
    process.join()
    return memory


def print_claim(
    claim: str,
    timings: Timings,
    *,
    unit: str,
    amount: float | None = None,
    limit: float | None = None,
    memory: tuple[Memory, Memory] | None = None,
) -> None:
    """Print a table of the pairs, and the claim as the closing line of JSON.

    Args:
        claim: what is compared, and the ratio wanted.
        unit: of the figures: "s"; or a rate, such as "images/s", if ``amount`` is given.
        amount: how much one run does; figures are then rates, and a ratio above 1 is faster.
            Without it figures are times, and a ratio below 1 is faster.
        limit: what the machine could do at best, in ``unit``.
        memory: of ours and of the peer.
    """
    ours, peer = (_figures(side, amount) for side in (timings.ours_s, timings.peer_s))
    ratios = [one / other for one, other in zip(ours, peer, strict=True)]
    print(f"{'ours':>12} {'peer':>12} {'ratio':>8}   ({unit})")
    for one, other, ratio in zip(ours, peer, ratios, strict=True):
        print(f"{one:12.4g} {other:12.4g} {ratio:8.3f}")
    report: dict[str, object] = {
        "claim": claim,
        "ratio_median": statistics.median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
        "ours": statistics.median(ours),
        "peer": statistics.median(peer),
        "limit": limit,
        "unit": unit,
    }
    if memory is not None:
        for name, side in zip(("ours", "peer"), memory, strict=True):
            print(
                f"{name}: peak {side.peak_bytes / MEGABYTE:.0f} MB, "
                f"{side.extra_bytes / MEGABYTE:.0f} MB of it for the work"
            )
            report[f"{name}_peak_mb"] = round(side.peak_bytes / MEGABYTE)
            report[f"{name}_extra_mb"] = round(side.extra_bytes / MEGABYTE)
    print(json.dumps(report))


def _figures(seconds: Sequence[float], amount: float | None) -> list[float]:
    return [each if amount is None else amount / each for each in seconds]


def _call_and_report(
    outbox: Connection, function: Callable[..., object], arguments: tuple[Any, ...]
) -> None:
    before_bytes = _resident_bytes("VmRSS")
    result = function(*arguments)
    outbox.send(Memory(before_bytes, _resident_bytes("VmHWM")))
    del result  # held until here: it is part of what the work needs


def _resident_bytes(field: str) -> int:
    """Resident memory of this process: now (VmRSS), or at most so far (VmHWM).

    On Linux ``ru_maxrss`` begins with the memory of the parent, which an exec does not reset; the
    kernel's own field does not. Elsewhere ``ru_maxrss`` has to do for both.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
    unit_bytes = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit_bytes
