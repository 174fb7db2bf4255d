"""Write beside, fsync, rename: a file is there whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.errors import OutputError

__all__ = [
    "atomic_path",
    "commit",
    "explain_os_errors",
    "make_folder",
    "write_bytes",
    "write_json",
    "write_text",
]

_HINTS = {
    errno.ENOSPC: "The disk is full: free some space, or choose another folder.",
    errno.EDQUOT: "Your disk quota is used up: free some space, or choose another folder.",
    errno.EACCES: "You may not write there: choose another folder, or mend its permissions.",
    errno.EPERM: "You may not write there: choose another folder, or mend its permissions.",
    errno.EROFS: "That file system is read-only: choose another folder.",
    errno.ENOTDIR: "A part of the path is a file, not a folder: choose another folder.",
    errno.EEXIST: "A file of that name is in the way: choose another folder.",
    errno.ENAMETOOLONG: "The name is too long for the file system: choose a shorter one.",
}


@contextlib.contextmanager
def explain_os_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn an :class:`OSError` of the block into an :class:`OutputError` with the way out."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        hint = _HINTS.get(error.errno or 0, "")
        reason = error.strerror or str(error)
        raise OutputError(f"{os.fspath(path)}: cannot write: {reason}. {hint}".rstrip()) from error


def make_folder(path: str | os.PathLike[str]) -> Path:
    """The folder, made with its parents where it was missing.

    Raises:
        OutputError: it cannot be made, or what is there is not a folder.
    """
    folder = Path(path)
    with explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside ``path``; what the block wrote there becomes ``path`` at its end.

    The temporary file keeps the suffix of ``path``, for writers that choose a format by it. If the
    block raises, the temporary file goes and ``path`` stays as it was.

    Raises:
        OutputError: the folder is not writable, or the disk is full.
    """
    final = Path(path)
    with explain_os_errors(final):
        partial = final.parent / f".{final.stem[:40]}-{secrets.token_hex(6)}.partial{final.suffix}"
        # Not by tempfile: the kernel applies the umask here, so the file is as readable as others.
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        try:
            yield partial
            commit(partial, final)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def commit(partial: Path, final: Path) -> None:
    """Make ``partial`` durable and rename it to ``final``, in the same folder."""
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(final)
    _sync_folder(final.parent)


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write ``data`` to ``path``, whole or not at all."""
    with atomic_path(path) as partial:
        partial.write_bytes(data)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` to ``path`` as UTF-8, whole or not at all."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: str | os.PathLike[str], data: Any) -> None:
    """Write ``data`` as strict JSON (no NaN, no infinity), whole or not at all."""
    write_text(path, json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def _sync_folder(folder: Path) -> None:
    """Make a rename durable. Some file systems cannot sync a folder; there the rename is enough."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
