"""The beginning of a ``.npy`` file that anyone may have written or damaged, read safely."""

from __future__ import annotations

import math
import struct
import sys
import threading
import tokenize
import warnings
from dataclasses import dataclass
from typing import IO, Any, Literal

import numpy as np

__all__ = ["HoldsObjectsError", "NpyHeader", "read_npy_header"]

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


class HoldsObjectsError(ValueError):
    """The array is of Python objects, which only unpickling could read."""


@dataclass(frozen=True)
class NpyHeader:
    """What the beginning of a ``.npy`` file says of the rest."""

    shape: tuple[int, ...]
    order: Literal["C", "F"]
    dtype: np.dtype[Any]
    offset: int  # bytes before the array

    @property
    def num_bytes(self) -> int:
        """Of the array, in Python's integers, which do not overflow."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_npy_header(file: IO[bytes], size: int) -> NpyHeader:
    """The header of a ``.npy`` file of ``size`` bytes, which ``file`` stands at the start of.

    Raises:
        HoldsObjectsError: it holds Python objects.
        ValueError: it is no ``.npy`` file, or shorter than its header says.
    """
    start = file.tell()
    try:
        with _one_header_at_a_time, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers that Python 2 wrote
            shape, fortran_order, dtype = _parse_header(file)
    except _DAMAGED_HEADER as error:
        raise ValueError(f"not a .npy file: {error or type(error).__name__}") from error
    header = NpyHeader(shape, "F" if fortran_order else "C", dtype, file.tell() - start)
    if dtype.hasobject:
        raise HoldsObjectsError("it holds Python objects, which are not read")
    if not all(type(length) is int and 0 <= length <= sys.maxsize for length in shape):
        raise ValueError(f"no array has the shape {shape}")
    if not dtype.itemsize:
        raise ValueError("its items have no size")
    needed = header.offset + header.num_bytes
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
