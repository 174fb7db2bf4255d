"""A call of a disabled instrument beside a call of an empty Python method with the same arguments.

    python benchmarks/disabled_overhead.py [--small]

Each run is many calls written out one after the other, so that no loop is timed. The last lines are
JSON: the claims.
"""

from __future__ import annotations

import sys
import timeit

from _measure import print_claim, read_small_flag, take_turns

from assay.timing import NVTXRangeWrapper, Stopwatch

CALLS_A_LINE = 50
METHODS = {
    "start_meas": (Stopwatch, '"forward"'),
    "end_meas": (Stopwatch, '"forward"'),
    "finish_iter": (Stopwatch, ""),
    "range_push": (NVTXRangeWrapper, '"forward"'),
    "range_pop": (NVTXRangeWrapper, ""),
}


class Empty:
    """The same methods, written with nothing in them."""

    def start_meas(self, name: str) -> None:
        pass

    def end_meas(self, name: str) -> None:
        pass

    def finish_iter(self) -> None:
        pass

    def range_push(self, range_name: str) -> None:
        pass

    def range_pop(self, range_name: str | None = None) -> None:
        pass


def calls(target: object, method: str, arguments: str) -> timeit.Timer:
    """A timer of ``CALLS_A_LINE`` calls."""
    line = "; ".join([f"target.{method}({arguments})"] * CALLS_A_LINE)
    return timeit.Timer(line, globals={"target": target})


def main() -> None:
    small = read_small_flag(__doc__)
    lines, pairs = (20, 11) if small else (200, 101)
    empty = Empty()
    for method, (instrument, arguments) in METHODS.items():
        target = instrument()
        same = getattr(empty, method)(*["forward"][: bool(arguments)])
        if (
            target.is_enabled
            or getattr(target, method)(*["forward"][: bool(arguments)]) is not same
        ):
            sys.exit(f"{method} of a disabled {instrument.__name__} did something")
        ours, peer = calls(target, method, arguments), calls(empty, method, arguments)
        print(f"\n{instrument.__name__}().{method}({arguments})")
        print_claim(
            f"disabled `{method}` beside an empty method (at most 1.10)",
            take_turns(lambda t=ours: t.timeit(lines), lambda t=peer: t.timeit(lines), pairs=pairs),
            unit=f"s for {lines * CALLS_A_LINE} calls",
        )


if __name__ == "__main__":
    main()
