from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from assay.testing import reset_instruments
from assay.timing import Stopwatch


@dataclass
class FakeClock:
    """A clock that stands still until it is told to go on."""

    now_ns: int = 1_000_000_000

    def __call__(self) -> int:
        return self.now_ns

    def pass_ms(self, milliseconds: float) -> None:
        self.now_ns += round(milliseconds * 1e6)


@dataclass
class FakeDevice:
    """An event clock whose device does work when it is told to, or when it is waited for."""

    queued_ms: float = 0.0  # the point in device time up to which work is queued
    done_ms: float = 0.0
    current: int = 0
    capturing: bool = False
    num_synchronized: int = 0
    handed_out: list[tuple[int, float]] = field(default_factory=list)

    def launch_ms(self, milliseconds: float) -> None:
        self.queued_ms += milliseconds

    def catch_up(self) -> None:
        self.done_ms = self.queued_ms

    def record(self) -> tuple[int, float] | None:
        if self.capturing:
            return None
        self.handed_out.append((self.current, self.queued_ms))
        return self.handed_out[-1]

    def is_done(self, event: tuple[int, float]) -> bool:
        return event[1] <= self.done_ms

    def elapsed_ms(self, start: tuple[int, float], end: tuple[int, float]) -> float | None:
        if start[0] != end[0]:
            return None
        self.done_ms = max(self.done_ms, end[1])
        return end[1] - start[1]

    def synchronize(self) -> None:
        self.num_synchronized += 1
        self.catch_up()


@pytest.fixture(autouse=True)
def instruments_are_off() -> Iterator[None]:
    reset_instruments()
    yield
    reset_instruments()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def device() -> FakeDevice:
    return FakeDevice()


@pytest.fixture
def printed() -> list[str]:
    """What a stopwatch of the fixture ``enable`` has printed."""
    return []


@pytest.fixture
def enable(clock: FakeClock, printed: list[str]) -> Callable[..., Stopwatch]:
    """Enables the stopwatch on the fake clock: without warm-up and printing, unless told."""

    def enable(
        num_warmup_iters: int = 0,
        print_every_n_iters: int | None = None,
        do_cuda_sync: bool = False,
        **options: object,
    ) -> Stopwatch:
        options = {"clock_ns": clock, "sink": printed.append, **options}
        return Stopwatch(num_warmup_iters, print_every_n_iters, do_cuda_sync, **options)

    return enable
