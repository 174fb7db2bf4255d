"""Memory-mapped ``.npy`` files of our own: made with their room reserved, cut to size, checked."""

from __future__ import annotations

import errno
import io
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from assay._atomic import explain_os_errors
from assay.features.npy_reading import MappedArray, map_npy

__all__ = ["array_crc32", "create_npy", "resize_npy"]

_CHUNK_BYTES = 1 << 24
_MAGIC_BYTES, _LENGTH_END = 8, 10  # of a header of version 1.0: then its length ends, then its text
_CANNOT_RESERVE = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


def create_npy(path: Path, shape: tuple[int, ...], dtype: npt.DTypeLike) -> MappedArray:
    """A new file of zeros, mapped for writing. What was at ``path`` is overwritten.

    All of its room on the disk is reserved: where a sparse file would end the process by a SIGBUS
    in mid-write, a full disk is an error here, and no file stays behind.

    Raises:
        OutputError: the disk or the quota is full, or the folder is not writable.
    """
    with explain_os_errors(path):
        try:
            array: MappedArray = np.lib.format.open_memmap(path, "w+", np.dtype(dtype), shape)
            _reserve(path)
        except OSError:
            if path.is_file():
                path.unlink()
            raise
    return array


def resize_npy(path: Path, length: int) -> None:
    """Give the C-ordered array in a file a new first dimension: rows are cut off, or zeros added.

    Nothing may have the file mapped.

    Raises:
        OutputError: the disk is full, or the file cannot be written.
        ValueError: it is no ``.npy`` file, or its header has no room for the length.
    """
    array = map_npy(path)
    offset, row_bytes = array.offset, array.dtype.itemsize * int(np.prod(array.shape[1:]))
    header = _header_of((length, *array.shape[1:]), array.dtype, offset)
    del array
    with explain_os_errors(path):
        with path.open("r+b") as file:
            file.write(header)
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


def _header_of(shape: tuple[int, ...], dtype: np.dtype[Any], size: int) -> bytes:
    """The header of a C-ordered array, filled up with spaces to ``size`` bytes."""
    stream = io.BytesIO()
    fields = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, fields)
    magic, text = stream.getvalue()[:_MAGIC_BYTES], stream.getvalue()[_LENGTH_END:].rstrip()
    room = size - _LENGTH_END - 1
    if not len(text) <= room < 1 << 16:
        raise ValueError(f"a header of {size} bytes has no room for an array of shape {shape}")
    return magic + struct.pack("<H", room + 1) + text.ljust(room) + b"\n"


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
