"""Memory-mapped ``.npy`` files: made with their room reserved, cut to size, checked."""

from __future__ import annotations

import errno
import os
import zlib
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from assay._atomic import explain_os_errors

__all__ = ["MappedArray", "array_crc32", "create_npy", "map_npy", "resize_npy"]

MappedArray: TypeAlias = "np.memmap[Any, np.dtype[Any]]"

_CHUNK_BYTES = 1 << 24
_CANNOT_RESERVE = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


def create_npy(path: Path, shape: tuple[int, ...], dtype: npt.DTypeLike) -> MappedArray:
    """A new file of zeros, mapped for writing. What was at ``path`` is overwritten.

    All of its room on the disk is reserved: where a sparse file would end the process by a SIGBUS
    in mid-write, a full disk is an error here, and no file stays behind.

    Raises:
        OutputError: the disk or the quota is full, or the folder is not writable.
    """
    with explain_os_errors(path):
        array: MappedArray = np.lib.format.open_memmap(path, "w+", np.dtype(dtype), shape)
        try:
            _reserve(path)
        except OSError:
            path.unlink()
            raise
    return array


def map_npy(path: Path, mode: str = "r") -> MappedArray:
    """The array in a file, mapped.

    Raises:
        OSError: it cannot be opened.
        ValueError: it is no ``.npy`` file, it is shorter than its header says, or it holds objects.
    """
    array: MappedArray = np.lib.format.open_memmap(path, mode)
    return array


def resize_npy(path: Path, length: int) -> None:
    """Give the C-ordered array in a file a new first dimension: rows are cut off, or zeros added.

    Nothing may have the file mapped.

    Raises:
        OutputError: the disk is full, or the file cannot be written.
    """
    array = map_npy(path)
    header = {"descr": array.dtype.str, "fortran_order": False, "shape": (length, *array.shape[1:])}
    offset, row_bytes = array.offset, array.dtype.itemsize * int(np.prod(array.shape[1:]))
    del array
    with explain_os_errors(path):
        with path.open("r+b") as file:
            np.lib.format.write_array_header_1_0(file, header)
            # NumPy pads headers so that the first dimension can grow in place.
            assert file.tell() == offset, f"{path}: the header changed its length"
            file.truncate(offset + length * row_bytes)
        _reserve(path)


def array_crc32(array: npt.NDArray[Any], value: int = 0) -> int:
    """The CRC-32 of the array's bytes in C order, going on from ``value``. Reads it in chunks."""
    flat = array.reshape(-1)
    step = max(1, _CHUNK_BYTES // array.dtype.itemsize)
    for start in range(0, flat.size, step):
        chunk = np.ascontiguousarray(flat[start : start + step])
        value = zlib.crc32(chunk.view(np.uint8).data, value)
    return value


def _reserve(path: Path) -> None:
    """Have the file system set aside all blocks of the file; what it reads as stays."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:
                if error.errno not in _CANNOT_RESERVE:
                    raise
            else:
                return
        _write_holes(file.fileno(), size)


def _write_holes(handle: int, size: int) -> None:
    """Write every block of the file with what it reads as: for systems that cannot reserve."""
    for start in range(0, size, _CHUNK_BYTES):
        os.lseek(handle, start, os.SEEK_SET)
        content = os.read(handle, min(_CHUNK_BYTES, size - start))
        os.lseek(handle, start, os.SEEK_SET)
        while content:
            content = content[os.write(handle, content) :]
