"""Files of ``torch.save``: read as plain data, written from plain data."""

from __future__ import annotations

import argparse
import contextlib
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from assay.checkpoint.weights_file import WeightsFile, damaged
from assay.checkpoint.zip_records import check_zip, is_zip
from assay.errors import ModelError

__all__ = ["plain_data_allowed", "read_torch", "write_torch"]


def read_torch(file: Path, *, trusted: bool = False, mapped: bool = True) -> WeightsFile:
    """What ``torch.save`` wrote, in the format of today or the one before zip.

    Args:
        trusted: unpickle whatever stands there, which runs the code that it names.
        mapped: map the file instead of reading it, where it is a zip archive.

    Raises:
        ModelError: it is damaged, a TorchScript program, or reading it would run code and it is
            not trusted; the message names the code.
    """
    try:
        zipped = is_zip(file)
        if zipped:
            check_zip(file)
        with plain_data_allowed(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on TorchScript archives; our error says it better
            tree = torch.load(
                file, map_location="cpu", weights_only=not trusted, mmap=zipped and mapped
            )
    except Exception as error:  # damaged bytes make the reader raise nearly every type
        raise _explained(file, error) from error
    return WeightsFile(
        path=file,
        format="torch" if zipped else "torch (before zip)",
        tree=tree,
        is_mapped=zipped and mapped,
    )


def write_torch(file: Path, tensors: Mapping[str, Tensor]) -> None:
    """A plain dict of tensors; tied ones share their storage, as they do in memory."""
    torch.save(dict(tensors), file)


@contextlib.contextmanager
def plain_data_allowed() -> Iterator[None]:
    """Let torch.load build NumPy scalars and arrays, and Namespace: data, whatever the file says.

    Arrays of Python objects stay refused.
    """
    scalar, array = np.float64(0).__reduce__(), np.empty(0).__reduce__()
    dtypes = {type(np.dtype(code)) for code in np.typecodes["All"] if code != "O"}
    allowed: list[Any] = [scalar[0], array[0], np.ndarray, np.dtype, argparse.Namespace, *dtypes]
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 6):
        # NumPy 1 and 2 write the same two functions under different names.
        for home in ("numpy.core.multiarray", "numpy._core.multiarray"):
            allowed += [(scalar[0], f"{home}.scalar"), (array[0], f"{home}._reconstruct")]
    before = torch.serialization.get_safe_globals()
    torch.serialization.add_safe_globals(allowed)
    try:
        yield
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(before)


def _explained(file: Path, error: Exception) -> ModelError:
    code = re.search(r"GLOBAL (\S+)|but got <class '(\S+)'>", str(error))
    if code:
        return ModelError(
            f"{file}: reading it would run code, {code[1] or code[2]}, and that is done only with "
            f"trusted=True. Where you trust the file, better save the tensors alone: "
            f"checkpoint = torch.load({str(file)!r}, weights_only=False), then "
            f"torch.save(checkpoint['state_dict'], 'weights.pth') or, for a whole model, "
            f"torch.save(checkpoint.state_dict(), 'weights.pth')."
        )
    if "TorchScript" in str(error):
        return ModelError(
            f"{file}: is a TorchScript program, not weights alone. Save these with "
            f"torch.save(torch.jit.load({str(file)!r}).state_dict(), 'weights.pth')."
        )
    return damaged(file, error)
