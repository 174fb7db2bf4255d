"""Arrays in ``.npy`` and ``.npz`` files that anyone may have written or damaged, read safely.

Nothing in a file is executed. Whatever stands there, the only errors are :class:`OSError` and
:class:`ValueError`, and no more memory is taken than the file is large.
"""

from __future__ import annotations

import io
import math
import os
import struct
import zipfile
import zlib
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from assay._npy_header import read_npy_header
from assay.features.regular_file import open_regular

__all__ = ["MappedArray", "map_npy", "read_npz"]

MappedArray: TypeAlias = "np.memmap[Any, np.dtype[Any]]"

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


def map_npy(path: str | os.PathLike[str], mode: Literal["r", "r+"] = "r") -> MappedArray:
    """The array in a ``.npy`` file, mapped: read-only, or by "r+" so that the file changes with it.

    Raises:
        OSError: it cannot be opened, or is no regular file.
        ValueError: it is no ``.npy`` file, it is shorter than its header says, or it holds objects.
    """
    with open_regular(path, "r+b" if mode == "r+" else "rb") as file:
        header = read_npy_header(file, os.fstat(file.fileno()).st_size)
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
    header = read_npy_header(io.BytesIO(data), len(data))
    count = math.prod(header.shape)
    flat = np.frombuffer(data, header.dtype, count, header.offset) if count else ()
    # A copy, which can be written to and is aligned.
    return np.array(flat, header.dtype).reshape(header.shape, order=header.order)
