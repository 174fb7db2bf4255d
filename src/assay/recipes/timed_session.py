"""Timing a program from outside: the instruments on before it starts, its results at its end."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import MutableMapping
from dataclasses import replace
from datetime import datetime, timezone
from multiprocessing import util as multiprocessing_util
from types import FrameType

from assay._atomic import make_folder
from assay.recipes.time_options import TimeOptions, format_options
from assay.recipes.time_outputs import MeasuredProcess, remove_own_files, write_outputs
from assay.recipes.timed_process import PROCESS_VARIABLE, VARIABLE, TimedProcess
from assay.timing import NVTXRangeWrapper, Stopwatch
from assay.timing.accelerator_in_use import AcceleratorInUse

__all__ = ["TimedSession"]

TRACE_EVENTS = 50_000  # the latest intervals: a file of some 10 MB
_PRIORITY = -100  # of our clean-up in a multiprocessing child: after the program's own


class TimedSession:
    """Measures one process and those that it forks, and writes what was measured as it ends.

    The end is the process's own: after its last thread and its exit handlers, whether it returned,
    raised, called ``sys.exit`` or was sent SIGTERM. A process that it forks starts with nothing
    measured and writes a file of its own.
    """

    _current: TimedSession | None = None

    def __init__(
        self,
        options: TimeOptions,
        process: TimedProcess,
        command: str,
        *,
        is_asked_for: bool = True,
    ) -> None:
        """``is_asked_for``: by this very command, not by a variable that any program may meet."""
        self.options = replace(options, out=options.out.absolute())
        self.process = process
        self.command = command
        self.is_asked_for = is_asked_for
        self._accelerator = AcceleratorInUse()
        self._finished_in: int | None = None  # the process that has written its results

    @classmethod
    def current(cls) -> TimedSession | None:
        """The session of this process."""
        return cls._current

    def start(self, environ: MutableMapping[str, str] = os.environ) -> None:
        """Enable the instruments, here and by ``environ`` in the processes that start from here.

        Raises:
            OutputError: the folder for results cannot be made.
            MissingExtraError: ranges are asked for, and the ``nvtx`` package is not installed.
        """
        make_folder(self.options.out)
        self._started = datetime.now(timezone.utc)
        self._start_s = time.perf_counter()
        self._enable()
        if self.process.kind == "main":
            remove_own_files(self.options.out, self.process)
            self.process.announce(environ)
            environ[VARIABLE] = format_options(self.options)
        TimedSession._current = self
        atexit.register(self.finish)
        # Children of multiprocessing run no exit handlers, and drop those that they inherit.
        self._finish_as_child()
        multiprocessing_util.register_after_fork(self, TimedSession._finish_as_child)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork_in_child)
        self.take_sigterm()

    def take_sigterm(self) -> None:
        """Save the figures before SIGTERM ends this process, unless somebody else handles it."""
        in_main_thread = threading.current_thread() is threading.main_thread()
        if in_main_thread and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._on_sigterm)

    def cancel(self, environ: MutableMapping[str, str] = os.environ) -> None:
        """As if it had not been started; for one that another takes the place of."""
        self._finished_in = os.getpid()
        atexit.unregister(self.finish)
        TimedSession._current = None
        if self.process.kind == "main" and not self.process.is_collected:
            environ.pop(PROCESS_VARIABLE, None)
        if signal.getsignal(signal.SIGTERM) == self._on_sigterm:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        Stopwatch()._reset()
        NVTXRangeWrapper()._reset()

    def finish(self) -> None:
        """Write and show what was measured, once in each process."""
        self._finish(show=not self.options.quiet, report=self.options.report)

    def _finish(self, *, show: bool, report: bool) -> None:
        if TimedSession._current is not self or self._finished_in == os.getpid():
            return
        self._finished_in = os.getpid()
        measured = self._measured()
        is_own_command = "assay.cli.main" in sys.modules  # such as `assay env`
        if measured.is_empty and is_own_command and not self.is_asked_for:
            return
        options = replace(self.options, quiet=not show, report=report)
        write_outputs(measured, options, self.process)

    def _measured(self) -> MeasuredProcess:
        stopwatch = Stopwatch()
        return MeasuredProcess(
            summary=stopwatch.summary(),
            trace=stopwatch.trace(),
            command=self.command,
            created=self._started,
            elapsed_s=time.perf_counter() - self._start_s,
            used_accelerator=self._accelerator.is_in_use,
        )

    def _enable(self) -> None:
        options = self.options
        is_main = self.process.kind == "main"
        ranges = NVTXRangeWrapper()
        if options.nvtx and not ranges.is_enabled:
            ranges.enable(options.sync, options.sync, False, event_clock=self._accelerator)
            ranges._ignore_once("enable", _nothing)
        stopwatch = Stopwatch()
        stopwatch.enable(
            options.warmup,
            options.print_every,
            options.sync,
            device_events=options.events,
            trace_events=TRACE_EVENTS if is_main and "trace" in options.export else 0,
            from_first_use=True,
            sink=_say,
            event_clock=self._accelerator,
        )
        stopwatch._ignore_once("enable", self._note_second_enable)
        if options.cpu_usage is not None:
            stopwatch.set_cpu_usage_meas_name(options.cpu_usage)
            stopwatch._ignore_once("set_cpu_usage_meas_name", _nothing)

    def _note_second_enable(self) -> None:
        if self.process.kind == "main" and self.process.ranks.rank == 0 and not self.options.quiet:
            _say(
                "assay: the program enables the stopwatch itself; what `assay time` or "
                f"{VARIABLE} asked for stays in force."
            )

    def _after_fork_in_child(self) -> None:
        if TimedSession._current is not self:
            return
        self.process = self.process.forked()
        self._start_s = time.perf_counter()
        self._started = datetime.now(timezone.utc)
        stopwatch = Stopwatch()
        stopwatch._reset()
        # The parent's measurements may run, and their ends be met: those of a stopwatch that was
        # used before it is enabled are forgiven.
        stopwatch.start_meas("")
        stopwatch.start_one_time_measurement("")
        self._accelerator = AcceleratorInUse()
        self._enable()

    def _finish_as_child(self) -> None:
        """Have multiprocessing end the session in a child of its; elsewhere exit handlers do."""
        if self.process.kind == "worker":
            multiprocessing_util.Finalize(None, self.finish, exitpriority=_PRIORITY)

    def _on_sigterm(self, _signal: int, _frame: FrameType | None) -> None:
        """Save the figures, say nothing, and die as one does of SIGTERM."""
        try:
            self._finish(show=False, report=False)
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _nothing() -> None:
    """What there is to say where a call is ignored beside another that was told."""
