"""Arrays in ``.npy`` and ``.npz`` files that anyone may have written or damaged, read safely.

Nothing in a file is executed. Whatever stands there, the only errors are :class:`OSError` and
:class:`ValueError`, and no more memory is taken than the file is large.
"""

from __future__ import annotations

import io
import math
import os
import struct
import sys
import threading
import tokenize
import warnings
import zipfile
import zlib
from dataclasses import dataclass
from typing import IO, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from assay.features.regular_file import open_regular

__all__ = ["MappedArray", "map_npy", "read_npz"]

MappedArray: TypeAlias = "np.memmap[Any, np.dtype[Any]]"

# NumPy parses headers with ast, of which Python 3.11 has one counter for all threads: it raises
# SystemError when two meet there. And warnings are silenced for all threads at once.
_one_header_at_a_time = threading.Lock()
_LONGEST_HEADER = 10_000  # bytes; NumPy's own limit for files that are not trusted

# A header is the text of a Python dict. These are what NumPy's reading of a damaged one raises.
_DAMAGED_HEADER = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,  # too deeply nested for Python's parser
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
    Warning,  # under -W error
    struct.error,
    tokenize.TokenError,
)
# What zipfile raises: RuntimeError is encryption, NotImplementedError another compression.
_DAMAGED_ARCHIVE = (
    ArithmeticError,
    EOFError,
    LookupError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass(frozen=True)
class _Header:
    """What the beginning of a ``.npy`` file says of the rest."""

    shape: tuple[int, ...]
    order: Literal["C", "F"]
    dtype: np.dtype[Any]
    offset: int  # bytes before the array


def map_npy(path: str | os.PathLike[str], mode: Literal["r", "r+"] = "r") -> MappedArray:
    """The array in a ``.npy`` file, mapped: read-only, or by "r+" so that the file changes with it.

    Raises:
        OSError: it cannot be opened, or is no regular file.
        ValueError: it is no ``.npy`` file, it is shorter than its header says, or it holds objects.
    """
    with open_regular(path, "r+b" if mode == "r+" else "rb") as file:
        header = _read_header(file, os.fstat(file.fileno()).st_size)
        # NumPy takes any file that is open; its types know of fewer.
        opened: Any = file
        array: MappedArray = np.memmap(
            opened, header.dtype, mode, header.offset, header.shape, header.order
        )
    return array


def read_npz(path: str | os.PathLike[str]) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a file that ``numpy.savez`` wrote, by name; their checksums are compared.

    Raises:
        OSError: it cannot be opened, or is no regular file.
        ValueError: it is no such file, it is damaged or compressed, or it holds objects.
    """
    with open_regular(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                return {
                    info.filename.removesuffix(".npy"): _read_member(archive, info)
                    for info in archive.infolist()
                }
        except _DAMAGED_ARCHIVE as error:
            raise ValueError(f"not a whole .npz file: {error or type(error).__name__}") from error


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> npt.NDArray[Any]:
    if info.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{info.filename} is compressed")  # it may become any size
    data = archive.read(info)
    header = _read_header(io.BytesIO(data), len(data))
    count = math.prod(header.shape)
    flat = np.frombuffer(data, header.dtype, count, header.offset) if count else ()
    # A copy, which can be written to and is aligned.
    return np.array(flat, header.dtype).reshape(header.shape, order=header.order)


def _read_header(file: IO[bytes], size: int) -> _Header:
    """The header of a ``.npy`` file of ``size`` bytes.

    Raises:
        ValueError: see :func:`map_npy`.
    """
    try:
        with _one_header_at_a_time, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers that Python 2 wrote
            shape, fortran_order, dtype = _parse_header(file)
    except _DAMAGED_HEADER as error:
        raise ValueError(f"not a .npy file: {error or type(error).__name__}") from error
    header = _Header(shape, "F" if fortran_order else "C", dtype, file.tell())
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are not read")
    if not all(type(length) is int and 0 <= length <= sys.maxsize for length in shape):
        raise ValueError(f"no array has the shape {shape}")
    if not dtype.itemsize:
        raise ValueError("its items have no size")
    # In Python's integers, which do not overflow.
    needed = header.offset + math.prod(shape) * dtype.itemsize
    if needed > size:
        raise ValueError(f"{size} bytes, where an array of shape {shape} needs {needed}")
    try:
        np.broadcast_to(np.empty((), dtype), shape)  # so many dimensions, of such lengths
    except (ValueError, OverflowError) as error:
        raise ValueError(f"no array has the shape {shape}: {error}") from error
    return header


def _parse_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    # 3.0 differs in the encoding of the names of fields, and no array of ours has fields.
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file, _LONGEST_HEADER)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(file, _LONGEST_HEADER)
    raise ValueError(f"version {version[0]}.{version[1]} of the format is not known here")
