"""Timers by name: the host's view beside the device's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, ClassVar

from assay.timing.device import EventClock, PendingIntervals, accelerator_clock
from assay.timing.durations import Durations
from assay.timing.summary import Samples, Summary, summarize
from assay.timing.table import summary_table

__all__ = ["PerfMetric", "PerfStats", "PerfTimer"]


class PerfMetric:
    """One number over time: its last value, its mean, and a moving average.

    The average starts at the first value; each one after it counts by ``EMA_FACTOR``.
    """

    EMA_FACTOR: ClassVar[float] = 0.1

    def __init__(self) -> None:
        self.last_value: float | None = None
        self.smoothed_value: float | None = None
        self.sum_values = 0.0
        self.num_updates = 0

    def update(self, value: float) -> None:
        """Take in the next value."""
        self.last_value = value
        if self.smoothed_value is None:
            self.smoothed_value = value
        else:
            factor = self.EMA_FACTOR
            self.smoothed_value = factor * value + (1 - factor) * self.smoothed_value
        self.sum_values += value
        self.num_updates += 1

    def get_avg(self) -> float:
        """The mean of all values; 0 without any."""
        return self.sum_values / self.num_updates if self.num_updates else 0.0


class PerfStats:
    """What timers have recorded, by name.

    With ``use_cuda_events`` (the default) each interval is also marked on the accelerator's stream,
    whichever accelerator that is, without waiting for it. Without an accelerator there is no device
    column. Timers of several threads may record at once.

    Args:
        event_clock: replaces the accelerator of this machine.
    """

    MAX_PENDING_TIMERS: ClassVar[int] = 1000

    def __init__(
        self, use_cuda_events: bool = True, *, event_clock: EventClock | None = None
    ) -> None:
        if use_cuda_events and event_clock is None:
            event_clock = accelerator_clock()
        self._event_clock = event_clock if use_cuda_events else None
        self._pending = (
            None
            if self._event_clock is None
            else PendingIntervals(self._event_clock, self.MAX_PENDING_TIMERS)
        )
        self._lock = threading.RLock()
        self._samples: dict[str, Samples] = {}
        self._host: dict[str, PerfMetric] = {}
        self._device: dict[str, PerfMetric] = {}

    @property
    def event_clock(self) -> EventClock | None:
        """The clock on which timers mark their intervals; None if they do not."""
        return self._event_clock

    def update_with_timer(self, timer: PerfTimer) -> None:
        """Take in the last interval of a timer that has stopped; each interval once.

        When more than ``MAX_PENDING_TIMERS`` intervals are pending, the oldest is waited for.
        """
        interval = timer._take_last_interval()
        if interval is None:
            return
        elapsed_ns, start, end = interval
        name = timer.name
        with self._lock:
            samples = self._samples.setdefault(name, Samples())
            samples.host.add(elapsed_ns)
            self._host.setdefault(name, PerfMetric()).update(elapsed_ns / 1e6)
            if self._pending is not None:
                metric = self._device.setdefault(name, PerfMetric())
                self._pending.add(_both(samples.device, metric), start, end)
                self._pending.drain(wait=False)

    def host_metric(self, name: str) -> PerfMetric | None:
        """The host's intervals of one name in milliseconds; None if it has none."""
        with self._lock:
            return self._host.get(name)

    def device_metric(self, name: str) -> PerfMetric | None:
        """The device's intervals of one name in milliseconds, waited for; None if it has none."""
        with self._lock:
            self._drain()
            metric = self._device.get(name)
            return metric if metric is not None and metric.num_updates else None

    def summary(self) -> Summary:
        """All names as data, in the form that the stopwatch has. Waits for the device's events."""
        with self._lock:
            self._drain()
            return summarize(self._samples, Durations())

    def report_str(self) -> str:
        """The table of all names. Waits for the device's events."""
        summary = self.summary()
        if not summary.measurements:
            return "No timer has recorded an interval."
        return summary_table(summary)

    def _drain(self) -> None:
        if self._pending is not None:
            self._pending.drain(wait=True)


class PerfTimer:
    """Times a block, or what lies between :meth:`start` and :meth:`stop`, under a name.

    ::

        with PerfTimer("forward", perf_stats):
            ...

    The block is recorded at its end. Left by an exception, the timer stops and records nothing.
    With ``perf_stats=None`` nothing is recorded; ``elapsed`` is there all the same.
    """

    def __init__(
        self,
        timer_name: str,
        perf_stats: PerfStats | None,
        *,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.name = timer_name
        self._perf_stats = perf_stats
        self._clock_ns = clock_ns
        self._event_clock = None if perf_stats is None else perf_stats.event_clock
        self._elapsed_ns = 0
        self._start: tuple[int, Any] | None = None
        self._last: tuple[int, Any, Any] | None = None  # ns, device event at start and at end

    @property
    def elapsed(self) -> float:
        """Seconds between all its starts and stops, on the host."""
        return self._elapsed_ns / 1e9

    @property
    def is_running(self) -> bool:
        """Whether it was started and not stopped since."""
        return self._start is not None

    def start(self) -> None:
        """Start an interval; nothing if one runs."""
        if self._start is None:
            event = None if self._event_clock is None else self._event_clock.record()
            self._start = (self._clock_ns(), event)

    def stop(self) -> None:
        """End the interval; nothing if none runs."""
        if self._start is None:
            return
        start_ns, start_event = self._start
        elapsed_ns = self._clock_ns() - start_ns
        end_event = None
        if start_event is not None and self._event_clock is not None:
            end_event = self._event_clock.record()
        self._start = None
        self._elapsed_ns += elapsed_ns
        self._last = (elapsed_ns, start_event, end_event)

    def record(self) -> None:
        """Hand the last interval to the statistics; nothing if that was done, or none has ended."""
        if self._perf_stats is not None:
            self._perf_stats.update_with_timer(self)

    def _take_last_interval(self) -> tuple[int, Any, Any] | None:
        last, self._last = self._last, None
        return last

    def __enter__(self) -> PerfTimer:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        if kind is None:
            self.record()


def _both(durations: Durations, metric: PerfMetric) -> Callable[[float], None]:
    def take_ms(elapsed_ms: float) -> None:
        durations.add_ms(elapsed_ms)
        metric.update(elapsed_ms)

    return take_ms
