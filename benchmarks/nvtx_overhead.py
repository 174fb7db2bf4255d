"""A push and a pop with no profiler attached: from Python, and from jitted code.

From Python against the functions of the same name of NVIDIA's ``nvtx`` package, and against its
domain object with attributes that were prepared before. From jitted code against the call of an
empty jitted function; both are called through a pointer, so that nothing is inlined and left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import nvtx
from _measure import Timings, print_claim, read_small_flag, take_turns
from numba import types

from assay.timing import numba_nvtx
from assay.timing.nvtx import NVTXRangeWrapper

NAME = "forward"
CALL = types.void(types.int64)


def main() -> None:
    small = read_small_flag(__doc__)
    NVTXRangeWrapper(False, False, False)
    python_pairs = 20_000 if small else 500_000
    jitted_pairs = 1_000_000 if small else 20_000_000

    ours = push_and_pop(NVTXRangeWrapper().range_push, NVTXRangeWrapper().range_pop, NAME)
    domain = nvtx.get_domain()
    prepared = domain.get_event_attributes(message=NAME)
    jitted = call_many()
    handle = numba_nvtx.register_string(NAME)
    if handle:
        raise SystemExit("A profiler is attached; this measures what remains without one.")

    report(
        "NVTX push + pop in jitted code beside an empty call; wanted: at most 10 ns above it",
        lambda: jitted(jitted_range, handle, jitted_pairs),
        lambda: jitted(jitted_nothing, handle, jitted_pairs),
        count=jitted_pairs,
    )
    report(
        "NVTX push + pop in Python beside the nvtx package's prepared domain; no ratio wanted",
        lambda: ours(python_pairs),
        lambda: push_and_pop(domain.push_range, domain.pop_range, prepared)(python_pairs),
        count=python_pairs,
    )
    report(
        "NVTX push + pop in Python beside nvtx.push_range/pop_range; wanted: at most 1.15x",
        lambda: ours(python_pairs),
        lambda: push_and_pop(nvtx.push_range, nvtx.pop_range, NAME)(python_pairs),
        count=python_pairs,
    )


def report(
    claim: str, ours: Callable[[], object], peer: Callable[[], object], *, count: int
) -> None:
    """Print one claim, in nanoseconds a pair of push and pop."""
    seconds = take_turns(ours, peer, pairs=9)
    scale = 1e9 / count
    timings = Timings(
        tuple(each * scale for each in seconds.ours_s),
        tuple(each * scale for each in seconds.peer_s),
    )
    print(claim)
    print_claim(claim, timings, unit="ns a pair")


def push_and_pop(
    push: Callable[[Any], object], pop: Callable[[], object], name: object
) -> Callable[[int], None]:
    def run(count: int) -> None:
        for _ in range(count):
            push(name)
            pop()

    return run


@numba.njit(CALL)
def jitted_range(handle: int) -> None:
    numba_nvtx.range_push(handle)
    numba_nvtx.range_pop()


@numba.njit(CALL)
def jitted_nothing(handle: int) -> None:
    pass


def call_many() -> Any:
    """A jitted function that calls another through a pointer, many times."""

    @numba.njit(types.void(types.FunctionType(CALL), types.int64, types.int64))
    def run(call: Any, handle: int, count: int) -> None:
        for _ in range(count):
            call(handle)

    return run


if __name__ == "__main__":
    main()
