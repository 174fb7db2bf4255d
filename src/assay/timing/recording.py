"""What each thread has measured, gathered without a lock on the way and merged when asked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from assay.timing.cpu_usage import CpuReading
from assay.timing.summary import Samples

__all__ = ["Entry", "Recorder", "Span", "ThreadState"]


class Span:
    """The start of an interval that may overlap others of its thread and its name."""

    __slots__ = ("cpu", "event", "start_ns", "state")

    def __init__(
        self, state: ThreadState, start_ns: int, event: Any | None, cpu: CpuReading | None
    ) -> None:
        self.state = state
        self.start_ns = start_ns
        self.event = event  # on the device
        self.cpu = cpu


class Entry:
    """One name on one thread."""

    __slots__ = (
        "cpu",
        "event",
        "in_warmup",
        "name",
        "num_reentered",
        "samples",
        "start_ns",
        "state",
        "waiting",
    )

    def __init__(self, name: str, state: ThreadState) -> None:
        self.name = name
        self.state = state
        self.samples = Samples()
        self.waiting = self.samples.host.waiting
        self.start_ns: int | None = None  # None: it does not run
        self.num_reentered = 0  # blocks of its name within the one that is measured
        self.in_warmup = False  # it was started in the warm-up, so its end is not counted
        self.event: Any | None = None  # on the device, at the start
        self.cpu: CpuReading | None = None


class ThreadState:
    """What one thread measures. Only that thread changes it, but for the adding up.

    The time in which anything runs is that of the outermost entry or span, and of whichever takes
    its place if it ends while others run.
    """

    __slots__ = (
        "covered_ns",
        "entries",
        "first_ns",
        "forgiven",
        "iterates",
        "native_id",
        "num_inner",
        "outer",
        "spans",
        "thread",
    )

    def __init__(self, first_ns: int) -> None:
        self.first_ns = first_ns  # when the thread first used the stopwatch
        self.entries: dict[str, Entry] = {}
        self.spans: set[Span] = set()  # on their way
        self.outer: Entry | Span | None = None
        self.num_inner = 0  # what runs beside the outermost
        self.covered_ns = 0  # time in which anything ran, since the last iteration
        self.iterates = False  # whether it has finished an iteration
        self.forgiven: set[tuple[str, str]] = set()  # ends whose start may precede the enabling
        self.thread = threading.current_thread()
        self.native_id = threading.get_native_id()

    def running(self) -> list[str]:
        """The names of the entries that run, in the order of their start."""
        entries = list(self.entries.values())
        started = [(each.start_ns, each.name) for each in entries if each.start_ns is not None]
        return [name for _, name in sorted(started, key=lambda each: each[0])]

    def opened(self, item: Entry | Span) -> None:
        """Note that something has started."""
        if self.outer is None:
            self.outer = item
        else:
            self.num_inner += 1

    def closed(self, item: Entry | Span, start_ns: int, now: int) -> None:
        """Note that it has ended."""
        if self.outer is item:
            self.covered_ns += now - start_ns
            self.outer = None
            if self.num_inner:
                self.hand_over(now)
        else:
            self.num_inner -= 1

    def hand_over(self, now: int) -> None:
        """Make another outermost, whose time up to now has been counted."""
        items: list[Entry | Span] = [*self.spans, *self.entries.values()]
        for item in items:
            if item.start_ns is not None:
                self.outer = item
                self.num_inner -= 1
                self.covered_ns -= now - item.start_ns
                return

    def take_covered_ns(self, now: int) -> int:
        """The time since the last iteration in which anything ran; then counts from ``now``."""
        start_ns = None if self.outer is None else self.outer.start_ns
        counted_later_ns = 0 if start_ns is None else now - start_ns
        covered_ns = self.covered_ns + counted_later_ns
        self.covered_ns = -counted_later_ns
        return covered_ns


class Recorder:
    """The states of all threads. Threads that ended leave their samples, and nothing else."""

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self._clock_ns = clock_ns
        self.lock = threading.RLock()
        self.local: Any = threading.local()  # of each thread: its state, and the state's entries
        self._states: list[ThreadState] = []
        self._retired: dict[str, Samples] = {}

    def state(self) -> ThreadState:
        """The state of this thread."""
        state: ThreadState | None = getattr(self.local, "state", None)
        if state is None:
            state = self.local.state = ThreadState(self._clock_ns())
            self.local.entries = state.entries
            with self.lock:
                self._retire_ended()
                self._states.append(state)
        return state

    def entry(self, name: str) -> Entry:
        """The entry of ``name`` on this thread."""
        try:
            return self.local.entries[name]  # type: ignore[no-any-return]
        except (AttributeError, KeyError):  # the first of its thread, or of its name
            state = self.state()
            entry = state.entries[name] = Entry(name, state)
            return entry

    def fold(self, entry: Entry) -> None:
        """Add up what waits."""
        with self.lock:
            entry.samples.host.fold()

    def mark_iteration(self, state: ThreadState) -> None:
        """Note how much of each name lies in finished iterations."""
        with self.lock:
            state.iterates = True
            for entry in state.entries.values():
                entry.samples.in_iterations_ns = entry.samples.host.total_ns

    def merged(self) -> dict[str, Samples]:
        """The samples of all threads by name, in the order of their first appearance.

        A thread that finishes no iteration runs beside them: all its time counts as lying in them.
        """
        with self.lock:
            self._retire_ended()
            merged: dict[str, Samples] = {}
            for name, samples in self._retired.items():
                merged.setdefault(name, Samples()).merge(samples)
            for state in self._states:
                _merge_into(merged, state)
            return merged

    def has_measured(self, name: str) -> bool:
        """Whether ``name`` was started on any thread."""
        with self.lock:
            return name in self._retired or any(name in state.entries for state in self._states)

    def running(self) -> list[str]:
        """The names of the entries that run, on any thread."""
        with self.lock:
            return [name for state in self._states for name in state.running()]

    def thread_names(self) -> dict[int, str]:
        """The names of the threads that live, by their native ids."""
        with self.lock:
            return {state.native_id: state.thread.name for state in self._states}

    def renew_after_fork(self) -> None:
        """In the child: a lock that nobody holds, and no threads but the one that forked."""
        self.lock = threading.RLock()
        self._retire_ended()
        for state in self._states:
            state.native_id = threading.get_native_id()

    def _retire_ended(self) -> None:
        for state in [state for state in self._states if not state.thread.is_alive()]:
            self._states.remove(state)
            _merge_into(self._retired, state)


def _merge_into(merged: dict[str, Samples], state: ThreadState) -> None:
    for name, entry in list(state.entries.items()):
        if not state.iterates:
            entry.samples.in_iterations_ns = entry.samples.host.total_ns
        merged.setdefault(name, Samples()).merge(entry.samples)
