"""One interval from its start to its count: the host's clock and what else was asked for."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import Any

from assay.timing.chrome_trace import Trace, TraceEvent
from assay.timing.cpu_usage import CpuReading, read_cpu
from assay.timing.device import EventClock, PendingIntervals
from assay.timing.durations import FOLD_EVERY
from assay.timing.recording import Entry, Recorder, Span

__all__ = ["Sampler"]

_MAX_PENDING_INTERVALS = 1000


class Sampler:
    """Takes intervals on the calling thread and hands them to the recorder."""

    def __init__(
        self,
        clock_ns: Callable[[], int],
        *,
        synchronizing: EventClock | None,
        marking: EventClock | None,
        trace_events: int,
    ) -> None:
        self.clock_ns = clock_ns
        self.recorder = Recorder(clock_ns)
        self.measuring = False
        self.is_plain = False  # whether an interval needs nothing but the host's clock
        self.cpu_name: str | None = None
        self._synchronizing = synchronizing
        self._marking = marking
        self._pending = self._nothing_pending()
        self._trace: deque[TraceEvent] | None = deque(maxlen=trace_events) if trace_events else None
        self._num_traced = 0

    def measure_from_now(self, measuring: bool) -> None:
        """Measure what starts from now on, or do not."""
        self.measuring = measuring
        self._choose_path()

    def take_cpu_usage_of(self, name: str) -> None:
        """Also take the load of the CPU while ``name`` runs."""
        read_cpu()  # what it needs is imported now, not within the first interval
        self.cpu_name = name
        self._choose_path()

    def enter(self, name: str) -> None:
        """Start ``name`` on this thread, or note that it is entered again if it runs."""
        entry = self.recorder.entry(name)
        if entry.start_ns is None:
            self.start(entry)
        else:
            entry.num_reentered += 1

    def leave(self, name: str, *, failed: bool) -> None:
        """End what :meth:`enter` started; nothing if it does not run."""
        entry = self.recorder.state().entries.get(name)
        if entry is None or entry.start_ns is None:
            return
        if entry.num_reentered:
            entry.num_reentered -= 1
        else:
            self.end(entry, entry.start_ns, failed=failed)

    def open(self, name: str) -> Entry | None:
        """Start ``name`` on this thread; None if it runs already, or is not to be measured."""
        entry = self.recorder.entry(name)
        if entry.start_ns is not None:
            return None
        self.start(entry)
        return None if entry.in_warmup else entry

    def start(self, entry: Entry) -> None:
        """Start what does not run; in the warm-up only remember that it was named."""
        entry.in_warmup = not self.measuring
        if entry.in_warmup:
            return
        if not self.is_plain:
            self.synchronize()
            entry.event, entry.cpu = self._mark(), self._read_cpu(entry.name)
        entry.num_reentered = 0
        entry.state.opened(entry)
        entry.start_ns = self.clock_ns()

    def end(self, entry: Entry, start_ns: int, *, failed: bool = False) -> None:
        """End what has run since ``start_ns``, and count the interval."""
        now = self._stop(entry, start_ns)
        if self.is_plain:
            self._add(entry, now - start_ns, failed)
            return
        span = Span(entry.state, start_ns, entry.event, entry.cpu)
        entry.event = entry.cpu = None
        self._count(entry, span, now, failed)

    def close_piece(self, entry: Entry) -> int:
        """End what :meth:`open` started and return its length in ns, uncounted."""
        start_ns = entry.start_ns
        if start_ns is None:
            return 0  # it was ended by hand
        now = self._stop(entry, start_ns)
        entry.event = entry.cpu = None
        self.note(entry.state.native_id, entry.name, start_ns, now)
        return now - start_ns

    def start_span(self, name: str) -> Span | None:
        """Start an interval of which several may run at once; None if it is not to be measured."""
        state = self.recorder.entry(name).state
        if not self.measuring:
            return None
        self.synchronize()
        span = Span(state, 0, self._mark(), self._read_cpu(name))
        state.spans.add(span)
        state.opened(span)
        span.start_ns = self.clock_ns()
        return span

    def end_span(self, name: str, span: Span, *, failed: bool) -> None:
        """Count what :meth:`start_span` started."""
        now = self._stop_span(span)
        self._count(self.recorder.entry(name), span, now, failed)

    def end_span_piece(self, name: str, span: Span) -> int:
        """The length in ns of what :meth:`start_span` started, uncounted."""
        now = self._stop_span(span)
        self.note(span.state.native_id, name, span.start_ns, now)
        return now - span.start_ns

    def add(self, name: str, elapsed_ns: int, *, failed: bool) -> None:
        """Count an interval that the caller has put together."""
        self._add(self.recorder.entry(name), elapsed_ns, failed)

    def synchronize(self) -> None:
        """Wait for the device, if that was asked for."""
        if self._synchronizing is not None:
            self._synchronizing.synchronize()

    def drain(self, *, wait: bool) -> None:
        """Take over the device intervals that are done; with ``wait`` all of them."""
        if self._pending is not None:
            with self.recorder.lock:
                self._pending.drain(wait=wait)

    def note(
        self, thread_id: int, name: str, start_ns: int, end_ns: int, *, failed: bool = False
    ) -> None:
        """Keep an interval for the trace."""
        if self._trace is not None:
            with self.recorder.lock:
                self._num_traced += 1
                self._trace.append(TraceEvent(name, thread_id, start_ns, end_ns, failed))

    def trace(self) -> Trace:
        """The latest intervals."""
        with self.recorder.lock:
            events = tuple(self._trace or ())
            return Trace(
                events=events,
                process_id=os.getpid(),
                thread_names=self.recorder.thread_names(),
                num_dropped=self._num_traced - len(events),
            )

    def renew_after_fork(self) -> None:
        """In the child: new locks, and no events of a device that it cannot use."""
        self.recorder.renew_after_fork()
        self._pending = self._nothing_pending()

    def _choose_path(self) -> None:
        asked = (self._synchronizing, self._marking, self._trace, self.cpu_name)
        self.is_plain = self.measuring and all(each is None for each in asked)

    def _stop(self, entry: Entry, start_ns: int) -> int:
        self.synchronize()
        now = self.clock_ns()
        entry.start_ns = None
        entry.state.closed(entry, start_ns, now)
        return now

    def _stop_span(self, span: Span) -> int:
        self.synchronize()
        now = self.clock_ns()
        span.state.spans.discard(span)
        span.state.closed(span, span.start_ns, now)
        return now

    def _count(self, entry: Entry, span: Span, now: int, failed: bool) -> None:
        end_event = self._mark() if span.event is not None else None
        self._add(entry, now - span.start_ns, failed)
        samples = entry.samples
        if span.cpu is not None:
            busy_s, total_s = read_cpu().since(span.cpu)
            samples.cpu_busy_s += busy_s
            samples.cpu_total_s += total_s
        if self._pending is not None:
            with self.recorder.lock:
                self._pending.add(samples.device.add_ms, span.event, end_event)
        self.note(entry.state.native_id, entry.name, span.start_ns, now, failed=failed)

    def _add(self, entry: Entry, elapsed_ns: int, failed: bool) -> None:
        if failed:
            entry.samples.num_failed += 1
        entry.waiting.append(elapsed_ns)
        if len(entry.waiting) >= FOLD_EVERY:
            self.recorder.fold(entry)

    def _mark(self) -> Any | None:
        return None if self._marking is None else self._marking.record()

    def _read_cpu(self, name: str) -> CpuReading | None:
        return read_cpu() if name == self.cpu_name else None

    def _nothing_pending(self) -> PendingIntervals | None:
        if self._marking is None:
            return None
        return PendingIntervals(self._marking, _MAX_PENDING_INTERVALS)
