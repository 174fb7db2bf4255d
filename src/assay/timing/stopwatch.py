"""Measure named parts of a program, per interval and per iteration."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterable

from assay._switchable import Instrument, switchable
from assay.errors import InstrumentError
from assay.timing.chrome_trace import EMPTY_TRACE, ITERATIONS_TRACK, Trace
from assay.timing.device import EventClock, accelerator_clock
from assay.timing.durations import FOLD_EVERY, Durations
from assay.timing.measuring import Measuring
from assay.timing.recording import Entry, ThreadState
from assay.timing.sampler import Sampler
from assay.timing.summary import EMPTY_SUMMARY, OneTime, Summary, summarize
from assay.timing.table import summary_table

__all__ = ["Stopwatch"]


class Stopwatch(Instrument):
    """The one stopwatch of the process, off until it is enabled.

    While it is off each method is empty, so calls may stay in the code::

        Stopwatch().start_meas("load")
        ...
        Stopwatch().end_meas("load")
        Stopwatch().finish_iter()

    ``Stopwatch(num_warmup_iters, print_every_n_iters, do_cuda_sync)`` enables it and returns it.

    Names belong to the thread that starts them: the same name may run on several threads at once,
    and :meth:`finish_iter` concerns what its own thread measures. Code that ``torch.compile`` has
    compiled is not measured within, and no graph breaks for it; measure around it.
    """

    __slots__ = (
        "_clock_ns",
        "_covered_ns",
        "_iteration_start_ns",
        "_iterations",
        "_local",
        "_num_finished",
        "_num_warmup",
        "_one_time",
        "_plain",
        "_print_every",
        "_sampler",
        "_sink",
    )

    def enable(
        self,
        num_warmup_iters: int,
        print_every_n_iters: int | None,
        do_cuda_sync: bool,
        *,
        device_events: bool = False,
        trace_events: int = 0,
        from_first_use: bool = False,
        sink: Callable[[str], object] = print,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
        event_clock: EventClock | None = None,
    ) -> None:
        """Start to measure, once; what ran before is ignored.

        Args:
            num_warmup_iters: iterations to let pass before measuring starts.
            print_every_n_iters: print the table each time that so many more iterations are
                measured; None: only on :meth:`print_eval_times`.
            do_cuda_sync: wait for the accelerator at each start and end. Without an accelerator
                this warns and goes on.
            device_events: mark starts and ends on the accelerator's stream as well, without
                waiting. The table gets a column for the time between these marks.
            trace_events: how many of the latest intervals to keep for :meth:`trace`.
            from_first_use: the first iteration starts where its thread first uses the stopwatch,
                not where it is enabled: for an enabling long before the loop.
            sink: takes the text of the table.
            clock_ns: a clock that never goes back, in nanoseconds.
            event_clock: replaces the accelerator of this machine.

        Raises:
            InstrumentError: it is enabled already, or a number is out of range.
        """
        with self._enabling():
            self._num_warmup = _whole("num_warmup_iters", num_warmup_iters, least=0)
            self._print_every = (
                None
                if print_every_n_iters is None
                else _whole("print_every_n_iters", print_every_n_iters, least=1)
            )
            room = _whole("trace_events", trace_events, least=0)
            if event_clock is None and (do_cuda_sync or device_events):
                event_clock = accelerator_clock("wait for" if do_cuda_sync else "record events on")
            self._sampler = Sampler(
                clock_ns,
                synchronizing=event_clock if do_cuda_sync else None,
                marking=event_clock if device_events else None,
                trace_events=room,
            )
            self._clock_ns = clock_ns
            self._sink = sink
            self._local = self._sampler.recorder.local
            self._one_time: dict[str, tuple[int, int | None]] = {}  # name -> start, end in ns
            self._iterations = Durations()
            self._covered_ns = 0  # time of the iterations in which anything was measured
            self._num_finished = 0  # iterations, with the warm-up
            self._iteration_start_ns: int | None = None if from_first_use else clock_ns()
            self._measure_from_now(self._num_warmup == 0)

    @switchable(notes_use=True, skip_in_compiled=True)
    def start_meas(self, name: str) -> None:
        """Start to measure ``name`` on this thread; in the warm-up, do not measure it.

        Raises:
            InstrumentError: it runs already.
        """
        try:
            entry = self._local.entries[name]
        except (AttributeError, KeyError):  # the first of its name, or of its thread
            entry = self._sampler.recorder.entry(name)
        if entry.start_ns is not None:
            raise InstrumentError(
                f"{name!r} is measured already on this thread. "
                f"{_running_sentence(entry.state.running())} End it before it starts anew, or give "
                f"the inner one a name of its own."
            )
        if not self._plain:
            self._sampler.start(entry)
            return
        # Here and in end_meas, Sampler.start and end are written out: calls would cost the most.
        state = entry.state
        if state.outer is None:
            state.outer = entry
        else:
            state.num_inner += 1
        entry.start_ns = self._clock_ns()

    @switchable(skip_in_compiled=True)
    def end_meas(self, name: str) -> None:
        """End what :meth:`start_meas` started on this thread, and count it.

        An end whose start may lie before the enabling is ignored, once for each name: something was
        started then, this name was not started since, and nothing runs that was.

        Raises:
            InstrumentError: it does not run.
        """
        try:
            entry = self._local.entries[name]
            start_ns = entry.start_ns
        except (AttributeError, KeyError):
            entry = start_ns = None
        if start_ns is None:
            self._end_of_none(name, entry)
            return
        if not self._plain:
            self._sampler.end(entry, start_ns)
            return
        elapsed_ns = self._clock_ns() - start_ns
        entry.start_ns = None
        waiting = entry.waiting
        waiting.append(elapsed_ns)
        state = entry.state
        if state.outer is entry:
            state.covered_ns += elapsed_ns
            state.outer = None
            if state.num_inner:
                state.hand_over(start_ns + elapsed_ns)
        else:
            state.num_inner -= 1
        if len(waiting) >= FOLD_EVERY:
            self._sampler.recorder.fold(entry)

    def measure(self, name: str) -> Measuring:
        """Measure a block, a function or the steps of an iterable, and end it in any case::

            with stopwatch.measure("forward"): ...

            @stopwatch.measure("forward")
            def forward(...): ...

            for batch in stopwatch.measure("load").around(loader): ...

        A function that was decorated while the stopwatch was off is measured once it is on. A
        sample that an exception ends is counted and marked as failed. Within itself (recursion)
        only the outermost is measured. See :class:`~assay.timing.measuring.Measuring`.
        """
        return Measuring(name, self)

    @switchable(skip_in_compiled=True)
    def finish_iter(self) -> None:
        """End an iteration; print the table if it is time to.

        Raises:
            InstrumentError: a measurement runs on this thread.
        """
        now = self._clock_ns()
        state = self._sampler.recorder.state()
        # Coroutines on their way may go on into the next iteration.
        if state.outer is not None and (running := state.running()):
            raise InstrumentError(
                f"The iteration cannot finish yet. {_running_sentence(running)} End what runs "
                f"before finish_iter()."
            )
        with self._sampler.recorder.lock:
            self._num_finished += 1
            if self._sampler.measuring:
                self._count_iteration(state, now)
            self._measure_from_now(self._num_finished >= self._num_warmup)
            num_measured = self._iterations.count
        self._iteration_start_ns = now
        if self._print_every and num_measured and num_measured % self._print_every == 0:
            self.print_eval_times()
            self._iteration_start_ns = self._clock_ns()  # printing belongs to no iteration

    @switchable(notes_use=True, skip_in_compiled=True)
    def start_one_time_measurement(self, name: str) -> None:
        """Start to measure ``name`` for the only time, in the warm-up as well.

        Raises:
            InstrumentError: the name was used before.
        """
        with self._sampler.recorder.lock:
            if name in self._one_time:
                raise InstrumentError(
                    f"The one-time measurement {name!r} was made before, or runs. Give each its "
                    f"own name, or use start_meas() for what happens more than once."
                )
            self._sampler.synchronize()
            self._one_time[name] = (self._clock_ns(), None)

    @switchable(skip_in_compiled=True)
    def end_one_time_measurement(self, name: str) -> None:
        """End what :meth:`start_one_time_measurement` started, on whichever thread.

        Raises:
            InstrumentError: it does not run. As in :meth:`end_meas`, an end whose start may lie
                before the enabling is ignored.
        """
        with self._sampler.recorder.lock:
            start, end = self._one_time.get(name, (None, None))
            if start is not None and end is None:
                self._sampler.synchronize()
                self._one_time[name] = (start, self._clock_ns())
                return
            running = [each for each, (_, end) in self._one_time.items() if end is None]
            if start is not None or running or not self._forgives(name, "one_time_measurement"):
                raise InstrumentError(
                    f"The one-time measurement {name!r} does not run. {_running_sentence(running)} "
                    f"Start it with start_one_time_measurement({name!r})."
                )

    @switchable(skip_in_compiled=True)
    def set_cpu_usage_meas_name(self, name: str) -> None:
        """Also take the load of the CPU (all cores) while ``name`` is measured.

        To be called before ``name`` is first started; calling it again with the same name is
        allowed.

        Raises:
            InstrumentError: another name was set, or ``name`` has been measured.
        """
        with self._sampler.recorder.lock:
            if self._sampler.cpu_name == name:
                return
            if self._sampler.cpu_name is not None:
                raise InstrumentError(
                    f"The CPU usage is taken for {self._sampler.cpu_name!r}, which cannot be "
                    f"changed to {name!r}: choose one name per run."
                )
            if self._sampler.recorder.has_measured(name):
                raise InstrumentError(
                    f"{name!r} has been measured without the CPU usage. Call "
                    f"set_cpu_usage_meas_name({name!r}) before its first start."
                )
            self._sampler.take_cpu_usage_of(name)
            self._plain = self._sampler.is_plain

    @switchable(skip_in_compiled=True)
    def print_eval_times(self) -> None:
        """Hand the table of all measurements to the sink; allowed while something runs."""
        self._sink(summary_table(self.summary()))

    @switchable(disabled=0, skip_in_compiled=True)
    def get_num_nonwarmup_iters_measured(self) -> int:
        """How many iterations were finished after the warm-up."""
        return self._iterations.count

    @switchable(disabled=EMPTY_SUMMARY, skip_in_compiled=True)
    def summary(self) -> Summary:
        """All measurements up to now, as data. Waits for the device's events, if there are any."""
        with self._sampler.recorder.lock:
            self._sampler.drain(wait=True)
            return summarize(
                self._sampler.recorder.merged(),
                self._iterations,
                covered_ns=self._covered_ns,
                one_time=[
                    OneTime(name, None if end is None else (end - start) / 1e6)
                    for name, (start, end) in self._one_time.items()
                ],
                running=self._sampler.recorder.running(),
            )

    @switchable(disabled=EMPTY_TRACE, skip_in_compiled=True)
    def trace(self) -> Trace:
        """The latest intervals, as many as ``trace_events`` asked to keep."""
        return self._sampler.trace()

    @switchable(skip_in_compiled=True)
    def _active_sampler(self) -> Sampler | None:
        return self._sampler

    def _measure_from_now(self, measuring: bool) -> None:
        self._sampler.measure_from_now(measuring)
        self._plain = self._sampler.is_plain

    def _count_iteration(self, state: ThreadState, now: int) -> None:
        start_ns = state.first_ns if self._iteration_start_ns is None else self._iteration_start_ns
        self._iterations.add(now - start_ns)
        self._covered_ns += state.take_covered_ns(now)
        self._sampler.recorder.mark_iteration(state)
        self._sampler.note(ITERATIONS_TRACK, "iteration", start_ns, now)
        self._sampler.drain(wait=False)

    def _end_of_none(self, name: str, entry: Entry | None) -> None:
        """Refuse an end without a start, unless there may have been one that was not measured."""
        if entry is not None and entry.in_warmup:
            entry.in_warmup = False
            return
        running = self._sampler.recorder.state().running()
        started_since = bool(running) or entry is not None
        if self._sampler.measuring and (started_since or not self._forgives(name, "meas")):
            raise InstrumentError(
                f"{name!r} is not measured on this thread. {_running_sentence(running)} Start it "
                f"with start_meas({name!r})."
            )

    def _forgives(self, name: str, kind: str) -> bool:
        """Whether it is the first end of a name that may have been started before the enabling."""
        forgiven = self._sampler.recorder.state().forgiven
        if not self._was_used_before_enabling(f"start_{kind}") or (kind, name) in forgiven:
            return False
        forgiven.add((kind, name))
        return True

    def _after_fork_in_child(self) -> None:
        if self._enabled:
            self._sampler.renew_after_fork()


def _running_sentence(names: Iterable[str]) -> str:
    quoted = ", ".join(map(repr, names))
    return f"Running: {quoted}." if quoted else "Nothing runs."


def _whole(parameter: str, value: int, *, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError as error:
        raise InstrumentError(f"{parameter}={value!r} has to be a whole number.") from error
    if number < least:
        raise InstrumentError(f"{parameter}={number} has to be {least} or more.")
    return number
