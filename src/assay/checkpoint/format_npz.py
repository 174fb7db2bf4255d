"""Archives of ``numpy.savez``: arrays by name, never objects."""

from __future__ import annotations

import ast
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from assay.checkpoint.weights_file import WeightsFile, damaged
from assay.checkpoint.zip_records import ZipRecord, check_zip, zip_records
from assay.errors import ModelError

__all__ = ["read_npz", "write_npz"]

_SUFFIX = ".npy"
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
    tree = {}
    for record in records:
        if not record.name.endswith(_SUFFIX):
            raise ModelError(
                f"{file}: {record.name!r} in it is no array. Save name and array alone, with "
                f"numpy.savez(PATH, **arrays)."
            )
        try:
            array = _array(file, record, mapped=mapped)
        except _DAMAGE as error:
            raise damaged(file, error) from error
        tree[record.name.removesuffix(_SUFFIX)] = _as_tensor(array)
    return WeightsFile(path=file, format="npz", tree=tree, is_mapped=mapped)


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


def _array(file: Path, record: ZipRecord, *, mapped: bool) -> np.ndarray[Any, Any]:
    if record.is_stored and mapped:
        with file.open("rb") as opened:
            opened.seek(record.offset)
            shape, fortran, dtype = _header(opened)
            start = opened.tell()
        _refuse_objects(file, record, dtype)
        num_bytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
        if num_bytes != record.offset + record.num_bytes - start:
            raise ValueError(f"the size of {record.name!r} is not what its header says")
        if num_bytes:  # no map has no bytes
            # Copy on write: the caller may change the tensor, never the file.
            return np.memmap(
                file, dtype, "c", offset=start, shape=shape, order="F" if fortran else "C"
            )
    with zipfile.ZipFile(file) as archive:
        with archive.open(record.name) as opened:
            _refuse_objects(file, record, _header(opened)[2])
        with archive.open(record.name) as opened:
            array: np.ndarray[Any, Any] = np.lib.format.read_array(opened, allow_pickle=False)
            return array


def _header(opened: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(opened)
    try:
        if version == (1, 0):
            return np.lib.format.read_array_header_1_0(opened)
        if version == (2, 0):
            return np.lib.format.read_array_header_2_0(opened)
        # Version 3 differs in the text of its header, which NumPy reads only as a whole array.
        length = struct.unpack("<I", opened.read(4))[0]
        header = ast.literal_eval(opened.read(min(length, 10_000)).decode("utf-8"))
        return tuple(header["shape"]), bool(header["fortran_order"]), np.dtype(header["descr"])
    except RecursionError as error:
        raise ValueError("its header is nested too deeply") from error


def _refuse_objects(file: Path, record: ZipRecord, dtype: np.dtype[Any]) -> None:
    if dtype.hasobject:
        raise ModelError(
            f"{file}: reading {record.name!r} would run code: it is an array of Python objects "
            f"({dtype}). Save plain numbers: array.astype(float), or numpy.stack of a list."
        )


def _as_tensor(array: np.ndarray[Any, Any]) -> Tensor | np.ndarray[Any, Any]:
    if array.dtype.kind not in "biufc":
        return array
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    try:
        return torch.from_numpy(array)
    except TypeError:  # long double
        return array
