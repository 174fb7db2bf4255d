"""Inside a process that ``launch`` spawned: its signals, threads and output, and its reports."""

from __future__ import annotations

import faulthandler
import io
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from assay import errors
from assay._atomic import explain_os_errors
from assay.runtime.environment import Ranks
from assay.runtime.signals import Terminated, unblock_signals

__all__ = [
    "EXIT_TERMINATED",
    "Failed",
    "Finished",
    "Progress",
    "RankTask",
    "Started",
    "run_rank",
]

EXIT_TERMINATED = 128 + signal.SIGTERM

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@dataclass(frozen=True)
class RankTask:
    """What a spawned process is to do."""

    ranks: Ranks
    payload: bytes  # the pickled (function, args), read only once signals and threads are set
    threads: int | None  # of numerical libraries; None: as OMP_NUM_THREADS has it
    log_path: Path | None  # where its output goes; None: where its parent's goes
    parent_pid: int
    reports_progress: bool  # whether the function is handed the keyword `progress`


@dataclass(frozen=True)
class Started:
    """The process is up; its function comes next."""


@dataclass(frozen=True)
class Progress:
    """So many more units are done."""

    count: int


@dataclass(frozen=True)
class Finished:
    """The function returned."""


@dataclass(frozen=True)
class Failed:
    """The function, or reading it, raised."""

    error_name: str  # the type, for people
    message: str
    assay_error: str | None  # the nearest type in assay.errors, if it is one of those
    traceback: str
    at_s: float  # on the monotonic clock, which all processes of a machine share


def run_rank(task: RankTask, outbox: Connection) -> None:
    """Call the task's function and report to the parent by ``outbox``: a process's entry point."""
    _end_with_parent(task.parent_pid)
    _set_signals()
    outbox.send(Started())
    try:
        if task.log_path is not None:
            _redirect_output(task.log_path)
        if sys.stderr is not None:
            faulthandler.enable()  # a crash in C shows where
        if task.threads is not None:
            _limit_threads(task.threads)
        # Bytes that our own parent pickled a moment ago.
        function, args = pickle.loads(task.payload)  # noqa: S301
        keywords = {"progress": _progress_sender(outbox)} if task.reports_progress else {}
        function(task.ranks, *args, **keywords)
    except Exception as error:
        _end_quietly_from_now_on()
        outbox.send(_failure(error))
        # The parent shows the traceback; a second copy here would only hide it.
        raise SystemExit(1) from error
    _end_quietly_from_now_on()
    outbox.send(Finished())


def _end_quietly_from_now_on() -> None:
    """Nothing is left to clean up: SIGTERM amid the exit handlers would only print a traceback."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _failure(error: Exception) -> Failed:
    at_s = time.monotonic()
    own = [base.__name__ for base in type(error).__mro__ if base.__module__ == errors.__name__]
    frames = error.__traceback__.tb_next if error.__traceback__ else None  # without our own frame
    return Failed(
        error_name=type(error).__name__,
        message=str(error),
        assay_error=own[0] if own else None,
        traceback="".join(traceback.format_exception(type(error), error, frames)),
        at_s=at_s,
    )


def _progress_sender(outbox: Connection) -> Callable[[int], None]:
    lock = threading.Lock()  # a connection may be written by one thread at a time

    def progress(count: int) -> None:
        with lock:
            outbox.send(Progress(count))

    return progress


def _set_signals() -> None:
    """Ctrl-C reaches the parent, which decides; SIGTERM ends the process with its clean-up done."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _on_sigterm)
    unblock_signals()  # the parent blocked them across our start


def _on_sigterm(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise Terminated(EXIT_TERMINATED)


def _end_with_parent(parent_pid: int) -> None:
    """See to it that this process dies when its parent does, even by SIGKILL."""
    if sys.platform == "linux":
        import ctypes

        # The kernel does it, also while the interpreter is stuck in C.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent_pid:  # it died before we asked
            os.kill(os.getpid(), signal.SIGKILL)
    else:
        threading.Thread(target=_watch_parent, args=(parent_pid,), daemon=True).start()


def _watch_parent(parent_pid: int, poll_s: float = 1.0) -> None:
    while os.getppid() == parent_pid:
        time.sleep(poll_s)
    os.kill(os.getpid(), signal.SIGKILL)


def _redirect_output(path: Path) -> None:
    """Send what this process and its libraries print to a file."""
    with explain_os_errors(path):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        os.dup2(handle, number)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)  # nothing is lost if the process is killed
    os.close(handle)


def _limit_threads(count: int) -> None:
    for name in _THREAD_VARIABLES:
        os.environ[name] = str(count)
    torch: Any = sys.modules.get("torch")
    if torch is not None:  # the main script imports it: too late for the variables
        torch.set_num_threads(count)
