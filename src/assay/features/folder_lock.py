"""One writer at a time: a lock on a file, which the kernel gives back when its holder dies."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import warnings
from collections.abc import Iterator
from pathlib import Path

from assay._atomic import explain_os_errors
from assay.errors import AssayWarning, OutputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["hold_lock"]

_HELD = (errno.EACCES, errno.EAGAIN)  # POSIX allows either


@contextlib.contextmanager
def hold_lock(path: Path, purpose: str) -> Iterator[None]:
    """Hold the lock ``path`` for the block; its file is there only while it is held.

    It is a record lock (``fcntl.lockf``): other processes, and on NFS other hosts, are kept out,
    children do not inherit it, and a holder that is killed leaves none behind, though its file. It
    does not keep out threads of the same process.

    Args:
        path: the lock's file.
        purpose: completes "Another process ...", e.g. ``"extracts to runs/x"``.

    Warns:
        AssayWarning: this system or file system has no locks; the block runs without one.

    Raises:
        OutputError: another process holds it (the message says which), or no file can be made.
    """
    if fcntl is None:
        yield
        return
    handle = _acquire(path, purpose)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # a lock file that stays behind does no harm
            path.unlink()
        os.close(handle)


def _acquire(path: Path, purpose: str) -> int:
    """An open handle on the locked file ``path``."""
    while True:
        with explain_os_errors(path):
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _HELD:
                holder = _holder(path)
                os.close(handle)
                raise OutputError(
                    f"{path.parent}: another process {purpose}: {holder}. "
                    f"Wait for its end, or choose another folder."
                ) from error
            warnings.warn(
                f"{path.parent}: no file locks there ({error.strerror}). See to it yourself that "
                f"only one process {purpose}.",
                AssayWarning,
                stacklevel=4,
            )
            return handle
        if _is_still(path, handle):
            try:
                os.ftruncate(handle, 0)
                os.write(handle, json.dumps(_this_process()).encode())
            except OSError:  # a full disk; it only lacks the words for who holds it
                os.ftruncate(handle, 0)
            return handle
        os.close(handle)  # its last holder removed the file between our opening and locking it


def _is_still(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _this_process() -> dict[str, str | int]:
    return {"host": socket.gethostname(), "pid": os.getpid()}


def _holder(path: Path) -> str:
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
        return f"process {holder['pid']} on {holder['host']}"
    except (OSError, ValueError, LookupError, TypeError):
        return "which one is not known"
