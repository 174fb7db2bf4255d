"""Files of the user's, opened so that nothing that stands in their place can make us wait."""

from __future__ import annotations

import errno
import os
import stat
from typing import IO

__all__ = ["open_regular", "read_regular"]

# A FIFO that nobody writes to would otherwise hold up the opening for ever. Reading a regular file
# is the same with it. (Not on Windows, whose files of other kinds have names of their own.)
_WITHOUT_WAITING = getattr(os, "O_NONBLOCK", 0)


def open_regular(path: str | os.PathLike[str], mode: str = "rb") -> IO[bytes]:
    """A regular file, opened for reading bytes ("rb"), or for changing them too ("r+b").

    What kind of file it is, is asked of the file that was opened: nobody can exchange it meanwhile.

    Raises:
        OSError: it cannot be opened; it is a folder, a FIFO, a socket or a device.
        ValueError: no file can have this name.
    """
    file = open(path, mode, opener=_open_without_waiting)  # noqa: SIM115  closed by the caller
    kind = os.fstat(file.fileno()).st_mode
    if stat.S_ISREG(kind):
        return file
    file.close()
    raise OSError(errno.EINVAL, "Not a regular file", os.fspath(path))


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """All bytes of a regular file; see :func:`open_regular`."""
    with open_regular(path) as file:
        return file.read()


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | _WITHOUT_WAITING, 0o666)
