"""SIGINT and SIGTERM around work that has to be cleaned up after."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from multiprocessing import resource_tracker
from types import FrameType
from typing import NoReturn

__all__ = ["Terminated", "signals_blocked", "sigterm_unwinds", "unblock_signals"]

_ENDING = (signal.SIGINT, signal.SIGTERM)


class Terminated(SystemExit):
    """SIGTERM came: the process ends with this exit code.

    Whoever turns the ``sys.exit`` of a user's code into an error lets this one pass.
    """


@contextlib.contextmanager
def sigterm_unwinds() -> Iterator[None]:
    """Let SIGTERM leave the block by its ``finally`` clauses before it ends this process.

    A handler that somebody installed stays in charge. Only the main thread can take signals; in
    another one nothing changes.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _raise_terminated)
    try:
        yield
    except _Terminated:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextlib.contextmanager
def signals_blocked() -> Iterator[None]:
    """Hold SIGINT and SIGTERM back, here and in a process that the block starts.

    Here so that none falls between a start and its note; there until :func:`unblock_signals`, when
    the new process is ready for them.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # its start lifts the block, so it has to come before
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def unblock_signals() -> None:
    """Take the signals that :func:`signals_blocked` held back in the process that started us."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)


class _Terminated(BaseException):
    """SIGTERM came."""


def _raise_terminated(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise _Terminated
