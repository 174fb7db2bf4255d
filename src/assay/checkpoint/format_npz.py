"""Archives of ``numpy.savez``: arrays by name, never objects."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from assay._npy_header import HoldsObjectsError, read_npy_header
from assay.checkpoint.weights_file import WeightsFile, damaged
from assay.checkpoint.zip_records import ZipRecord, check_zip, zip_records
from assay.errors import ModelError

__all__ = ["read_npz", "write_npz"]

_SUFFIX = ".npy"
_CHUNK_BYTES = 1 << 20
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, SyntaxError, OSError,
    struct.error, NotImplementedError, MemoryError, OverflowError, TypeError, IndexError,
)  # fmt: skip


def read_npz(file: Path, *, mapped: bool = True) -> WeightsFile:
    """Arrays by name, as tensors; what torch has no dtype for (text, records) stays an array.

    Args:
        mapped: map arrays that are not compressed instead of reading them.

    Raises:
        ModelError: the archive is damaged, holds what is no array, or an array of Python objects,
            which only unpickling could read.
    """
    try:
        check_zip(file)
        records = zip_records(file)
    except _DAMAGE as error:
        raise damaged(file, error) from error
    arrays = {}
    for record in records:
        if not record.name.endswith(_SUFFIX):
            raise ModelError(
                f"{file}: {record.name!r} in it is no array. Save name and array alone, with "
                f"numpy.savez(PATH, **arrays)."
            )
        try:
            array = _mapped(file, record) if mapped and record.is_stored else _read(file, record)
        except HoldsObjectsError as error:
            raise ModelError(
                f"{file}: reading {record.name!r} would run code: it is an array of Python "
                f"objects. Save plain numbers: array.astype(float), or numpy.stack of a list."
            ) from error
        except _DAMAGE as error:
            raise damaged(file, error) from error
        arrays[record.name.removesuffix(_SUFFIX)] = array
    return WeightsFile(
        path=file,
        format="npz",
        tree={name: _as_tensor(array) for name, array in arrays.items()},
        # One that is compressed or turned to native bytes is memory of its own.
        is_mapped=mapped
        and all(
            not array.size or (isinstance(array, np.memmap) and array.dtype.isnative)
            for array in arrays.values()
        ),
    )


def write_npz(file: Path, tensors: Mapping[str, Tensor]) -> None:
    """Contiguous tensors of the CPU, not compressed.

    Raises:
        ModelError: NumPy has no such dtype, or a zip archive no such name.
    """
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        # Not by savez: it takes names as keyword arguments, and "file" is its own.
        for name, tensor in tensors.items():
            if "\0" in name or len(name.encode("utf-8", "surrogatepass")) > 60_000:
                raise ModelError(f"{file}: {name[:80]!r} cannot be a name in a .npz archive.")
            try:
                array = tensor.numpy()
            except (TypeError, RuntimeError) as error:
                dtype = str(tensor.dtype).removeprefix("torch.")
                raise ModelError(
                    f"{file}: {name!r} is {dtype}, which NumPy does not have. Write a .safetensors "
                    f"file, or convert to float32."
                ) from error
            with archive.open(_entry(name), "w", force_zip64=True) as opened:
                np.lib.format.write_array(opened, array, allow_pickle=False)


def _entry(name: str) -> zipfile.ZipInfo:
    # The time is fixed, so that the same tensors give the same bytes.
    return zipfile.ZipInfo(name + _SUFFIX, date_time=(1980, 1, 1, 0, 0, 0))


def _mapped(file: Path, record: ZipRecord) -> np.ndarray[Any, Any]:
    with file.open("rb") as opened:
        opened.seek(record.offset)
        header = read_npy_header(opened, record.num_bytes)
    if header.offset + header.num_bytes != record.num_bytes:
        raise ValueError(f"the size of {record.name!r} is not what its header says")
    if not header.num_bytes:  # no map has no bytes
        return np.empty(header.shape, header.dtype)
    # Copy on write: the caller may change the tensor, never the file.
    return np.memmap(
        file,
        header.dtype,
        "c",
        offset=record.offset + header.offset,
        shape=header.shape,
        order=header.order,
    )


def _read(file: Path, record: ZipRecord) -> np.ndarray[Any, Any]:
    with zipfile.ZipFile(file) as archive, archive.open(record.name) as opened:
        header = read_npy_header(opened, archive.getinfo(record.name).file_size)
        data = bytearray(header.num_bytes)  # not bytes, of which an array cannot be written to
        filled = 0
        while chunk := opened.read(min(_CHUNK_BYTES, header.num_bytes - filled)):
            data[filled : filled + len(chunk)] = chunk
            filled += len(chunk)
    if filled < header.num_bytes:
        raise EOFError(f"{record.name!r} is cut short")
    flat = np.frombuffer(data, header.dtype) if data else np.empty(0, header.dtype)
    return flat.reshape(header.shape, order=header.order)


def _as_tensor(array: np.ndarray[Any, Any]) -> Tensor | np.ndarray[Any, Any]:
    if array.dtype.kind not in "biufc":
        return array
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    try:
        return torch.from_numpy(array)
    except TypeError:  # long double
        return array
