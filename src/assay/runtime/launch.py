"""Run one function on several ranks: this process, or local processes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from assay import errors
from assay._atomic import make_folder
from assay.errors import AssayError, LaunchError
from assay.runtime.environment import Ranks
from assay.runtime.machine import available_cores
from assay.runtime.rank_process import (
    EXIT_TERMINATED,
    Failed,
    Finished,
    Progress,
    RankTask,
    Started,
    run_rank,
)
from assay.runtime.signals import signals_blocked, sigterm_unwinds

__all__ = ["launch"]

_POLL_S = 0.1


def launch(
    function: Callable[..., None],
    *args: Any,
    nproc: int,
    threads_per_process: int | None = None,
    log_dir: Path | None = None,
    on_progress: Callable[[int], None] | None = None,
    grace_s: float = 5.0,
) -> None:
    """Call ``function(ranks, *args)`` in ``nproc`` processes and return when all have returned.

    With ``nproc=1`` the call happens in this process, which keeps its threads and its output.
    Otherwise ``function`` has to be importable and ``args`` picklable: the processes are spawned. A
    script that calls this does so under ``if __name__ == "__main__":``.

    When a rank fails, the others are ended: by SIGTERM, which lets them clean up, and by SIGKILL
    after ``grace_s``. The same happens when this process gets Ctrl-C or SIGTERM, which then take
    their usual course. If this process is killed, the kernel kills the ranks with it (on other
    systems than Linux they notice within a second).

    Args:
        threads_per_process: threads of numerical libraries in each spawned process. By default the
            cores that this process may use are shared out, unless OMP_NUM_THREADS is set.
        log_dir: a folder in which rank R's output goes to ``rankR.log``, not to this terminal.
        on_progress: called here with each count that a rank reports. If it is given, ``function``
            gets one more argument: the keyword ``progress``, which takes a count.
        grace_s: how long a rank may take to end when it is asked to.

    Raises:
        AssayError: a rank raised one; it is raised again here with its message. The rank's
            traceback is its cause.
        LaunchError: a rank raised anything else (the message holds its traceback), was killed, or
            ended early; or the processes cannot be started.
    """
    for name, count in (("nproc", nproc), ("threads_per_process", threads_per_process)):
        if count is not None and count < 1:
            raise LaunchError(f"{name}={count} has to be 1 or more.")
    if nproc == 1:
        keywords = {} if on_progress is None else {"progress": on_progress}
        function(Ranks(rank=0, local_rank=0, world_size=1, source="alone"), *args, **keywords)
        return
    tasks = _tasks(function, args, nproc, threads_per_process, log_dir, on_progress is not None)
    ranks = [_Rank(task) for task in tasks]
    with sigterm_unwinds():
        try:
            for rank in ranks:
                rank.start()
            while not all(rank.is_done for rank in ranks):
                wait([handle for rank in ranks for handle in rank.handles], timeout=_POLL_S)
                for rank in ranks:
                    rank.look(on_progress)
                _raise_first_failure(ranks)
        finally:
            _end(ranks, grace_s)


def _tasks(
    function: Callable[..., None],
    args: tuple[Any, ...],
    nproc: int,
    threads: int | None,
    log_dir: Path | None,
    reports_progress: bool,
) -> list[RankTask]:
    if threads is None and "OMP_NUM_THREADS" not in os.environ:
        threads = max(1, available_cores() // nproc)
    folder = None if log_dir is None else make_folder(log_dir)
    payload = _pickled(function, args)
    return [
        RankTask(
            ranks=Ranks(rank=rank, local_rank=rank, world_size=nproc, source="local"),
            payload=payload,
            threads=threads,
            log_path=None if folder is None else folder / f"rank{rank}.log",
            parent_pid=os.getpid(),
            reports_progress=reports_progress,
        )
        for rank in range(nproc)
    ]


def _pickled(function: Callable[..., None], args: tuple[Any, ...]) -> bytes:
    name = getattr(function, "__qualname__", repr(function))
    if getattr(function, "__module__", None) == "__main__" and not _main_can_be_imported():
        raise LaunchError(
            f"{name} was defined in an interactive session, which other processes cannot import. "
            f"Move it to a module, or run one process."
        )
    try:
        return pickle.dumps((function, args))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise LaunchError(
            f"{name} and its arguments cannot be sent to other processes: {error}. Use a function "
            f"at the top level of a module, and arguments that pickle takes."
        ) from error


def _main_can_be_imported() -> bool:
    main = sys.modules["__main__"]
    return hasattr(main, "__file__") or getattr(main, "__spec__", None) is not None


class _Rank:
    """One spawned process as its parent sees it."""

    def __init__(self, task: RankTask) -> None:
        self.task = task
        self.process: SpawnProcess | None = None
        self.started = False
        self.finished = False
        self.failed: Failed | None = None
        self.exitcode: int | None = None
        self._inbox: Connection | None = None

    def start(self) -> None:
        """Start the process, which will call :func:`run_rank`."""
        context = multiprocessing.get_context("spawn")
        try:
            self._inbox, outbox = context.Pipe(duplex=False)
            with outbox, signals_blocked():
                process = context.Process(target=run_rank, args=(self.task, outbox))
                process.start()
                self.process = process
        except OSError as error:
            raise LaunchError(
                f"{_name(self.task)} cannot be started: {error}. Start fewer processes, or raise "
                f"the limit that this names."
            ) from error

    @property
    def is_done(self) -> bool:
        return self.finished and self.exitcode == 0

    @property
    def handles(self) -> list[Connection | int]:
        """What turns ready when there is something to look at.

        A sentinel may turn ready late: a process's own children hold it, too. Hence the polling.
        """
        handles: list[Connection | int] = [] if self._inbox is None else [self._inbox]
        if self.process is not None and self.exitcode is None:
            handles.append(self.process.sentinel)
        return handles

    def look(self, on_progress: Callable[[int], None] | None) -> None:
        """Take in what the process reported, and whether it has ended."""
        if self.process is not None:
            self.exitcode = self.process.exitcode  # before the messages: none can follow it
        while self._inbox is not None and self._inbox.poll():
            try:
                message = self._inbox.recv()
            except (EOFError, OSError):  # the other end is closed, perhaps in mid-message
                self.close()
                return
            self.started = self.started or isinstance(message, Started)
            self.finished = self.finished or isinstance(message, Finished)
            if isinstance(message, Failed):
                self.failed = message
            elif isinstance(message, Progress) and on_progress is not None:
                on_progress(message.count)

    def close(self) -> None:
        """Hear no more of the process."""
        if self._inbox is not None:
            self._inbox.close()
            self._inbox = None


def _raise_first_failure(ranks: Sequence[_Rank]) -> None:
    """Raise what went wrong first.

    A rank that died without a word comes before those that raised: theirs is often the echo.
    """
    for rank in ranks:
        if rank.exitcode is not None and rank.failed is None and not rank.is_done:
            raise LaunchError(_describe_end(rank))
    reports = [(rank.failed.at_s, rank.task, rank.failed) for rank in ranks if rank.failed]
    if not reports:
        return
    _, task, failed = min(reports, key=lambda report: report[0])
    told = LaunchError(
        f"{_name(task)} failed with {failed.error_name}: {failed.message}\n\n{failed.traceback}"
    )
    if failed.assay_error is None:
        raise told
    error_type: type[AssayError] = getattr(errors, failed.assay_error)
    raise error_type(failed.message) from told


def _describe_end(rank: _Rank) -> str:
    """How a process ended that reported no failure, and what to do about it."""
    code, name = rank.exitcode or 0, _name(rank.task)
    log = rank.task.log_path
    where = f" Its output is in {log}." if log is not None else " See its output above."
    if -code == signal.SIGKILL:
        return (
            f"{name} was killed by SIGKILL: most often by the kernel, for want of memory. Use "
            f"fewer processes, smaller batches or fewer loader workers."
        )
    if code < 0:
        return f"{name} was ended by {signal.Signals(-code).name}.{where}"
    if code == EXIT_TERMINATED:
        return f"{name} was ended by SIGTERM from outside."
    if not rank.started:
        return (
            f"{name} ended with exit code {code} before it could start.{where} A script that "
            f'starts processes does so under `if __name__ == "__main__":`.'
        )
    if rank.finished:
        return f"{name} finished its work, but then ended with exit code {code}.{where}"
    return f"{name} ended with exit code {code} before its function returned.{where}"


def _name(task: RankTask) -> str:
    return f"Rank {task.ranks.rank} of {task.ranks.world_size}"


def _end(ranks: Sequence[_Rank], grace_s: float) -> None:
    """End the processes that still run: SIGTERM, a time of grace, SIGKILL."""
    processes = [rank.process for rank in ranks if rank.process is not None]
    running = [process for process in processes if process.exitcode is None]
    try:
        for process in running:
            process.terminate()
        deadline_s = time.monotonic() + grace_s
        while any(process.exitcode is None for process in running):
            if time.monotonic() > deadline_s:
                break
            time.sleep(0.01)
    finally:  # also on a second Ctrl-C, which asks not to wait
        for process in running:
            if process.exitcode is None:
                process.kill()
                process.join()
        for rank in ranks:
            rank.close()
