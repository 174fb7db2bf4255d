"""Weights files -> state dicts, without running any code that a file may carry."""

from __future__ import annotations

import argparse
import contextlib
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from assay._optional import require
from assay.checkpoint.remap import is_second_choice
from assay.errors import ModelError

__all__ = ["StateDictFile", "read_state_dict", "read_state_dict_file"]

# The usual keys under which training code keeps the weights, the most telling first.
_HOLDERS = (
    "state_dict",
    "model_state_dict",
    "model",
    "teacher",
    "classy_state_dict",
    "network",
    "net",
    "module",
    "backbone",
    "encoder",
    "trunk",
    "weights",
    "params",
)
_MAX_DEPTH = 8
_CHUNK_BYTES = 1 << 22


@dataclass(frozen=True)
class StateDictFile:
    """The weights that a file holds."""

    tensors: dict[str, Tensor]  # name -> tensor, on the CPU, as stored; may be memory-mapped
    key: str  # where in the file they stood, "classy_state_dict.base_model"; "" = at the top
    other_keys: tuple[str, ...]  # where the file holds more networks of about that size


def read_state_dict(path: str | Path) -> dict[str, Tensor]:
    """The weights in a file: name -> tensor, on the CPU. See :func:`read_state_dict_file`."""
    return read_state_dict_file(path).tensors


def read_state_dict_file(path: str | Path) -> StateDictFile:
    """The weights in a file that ``torch.save`` or safetensors wrote, and where they stood in it.

    Training checkpoints are searched for the state dict: the largest group of tensors outside the
    optimizer's; of several about as large (at least half) the one under the most usual key, copies
    such as "student" or "model_ema" last. No code in the file is run; numbers and arrays of NumPy
    and ``argparse.Namespace`` beside the weights are let through as data.

    Raises:
        ModelError: the file is missing, damaged, needs code to be read, or holds no tensors.
        MissingExtraError: it is a ``.safetensors`` file and safetensors is not installed.
    """
    file = Path(path)
    _check_file(file)
    tree = _load_safetensors(file) if file.suffix == ".safetensors" else _load_torch(file)
    found = dict(_groups(tree, ()))
    if not found:
        held = f"a mapping with the keys {list(tree)[:8]}" if isinstance(tree, Mapping) else ""
        raise ModelError(
            f"{file}: holds no tensors by name, but {held or f'a {type(tree).__name__}'}. "
            f"Save the model's weights with torch.save(model.state_dict(), PATH)."
        )
    sizes = {keys: _size(tensors) for keys, tensors in found.items()}
    largest = max(sizes.values())
    best, *others = sorted((keys for keys in found if 2 * sizes[keys] >= largest), key=_rank)
    return StateDictFile(
        tensors=found[best],
        key=".".join(best),
        other_keys=tuple(".".join(keys) for keys in others),
    )


def _check_file(file: Path) -> None:
    if file.is_dir():
        raise ModelError(f"{file}: is a folder. Name the weights file in it.")
    if not file.is_file():
        looked = "" if file.is_absolute() else f" (looked in {Path.cwd()})"
        raise ModelError(f"{file}: there is no such weights file{looked}.")
    try:
        with file.open("rb") as opened:
            start = opened.read(16)
    except OSError as error:
        raise ModelError(f"{file}: cannot be read: {error.strerror}.") from error
    if not start:
        raise ModelError(f"{file}: the file is empty. Copy or download it again.")


def _load_safetensors(file: Path) -> Any:
    safetensors = require(
        "safetensors.torch", extra="timm", purpose="read weights from .safetensors files"
    )
    try:
        return safetensors.load_file(file)
    except Exception as error:
        raise _damaged(file, error) from error


def _load_torch(file: Path) -> Any:
    try:
        is_zip = _check_zip(file)
        with _plain_data_allowed(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on TorchScript archives; our error says it better
            return torch.load(file, map_location="cpu", weights_only=True, mmap=is_zip)
    except Exception as error:  # damaged bytes make the reader raise nearly every type
        code = re.search(r"GLOBAL (\S+)|but got <class '(\S+)'>", str(error))
        if code:
            raise ModelError(
                f"{file}: reading it would run code, {code[1] or code[2]}, and that is never done "
                f"here. Where you trust the file, save the tensors alone: "
                f"checkpoint = torch.load({str(file)!r}, weights_only=False), then "
                f"torch.save(checkpoint['state_dict'], 'weights.pth') or, for a whole model, "
                f"torch.save(checkpoint.state_dict(), 'weights.pth')."
            ) from error
        if "TorchScript" in str(error):
            raise ModelError(
                f"{file}: is a TorchScript program, not weights alone. Save these with "
                f"torch.save(torch.jit.load({str(file)!r}).state_dict(), 'weights.pth')."
            ) from error
        raise _damaged(file, error) from error


def _damaged(file: Path, error: Exception) -> ModelError:
    with file.open("rb") as opened:
        start = opened.read(16)
    # torch's own advice, to read the file with its code, stands in front of this mark.
    reason = str(error).rpartition("WeightsUnpickler error:")[2].strip() or type(error).__name__
    return ModelError(
        f"{file}: is not a weights file (.pth, .pt, .bin, .ckpt of torch.save, or .safetensors), "
        f"or it is damaged or cut short: {reason.splitlines()[0][:200]}. "
        f"It starts with {start!r}. Copy or download it again."
    )


def _check_zip(file: Path) -> bool:
    """Whether it is a zip archive, as torch.save writes; its checksums are compared.

    torch.load does not look at them, so a flipped bit would become a wrong weight. A checksum of
    0 says that the writer left it out.
    """
    with file.open("rb") as opened:
        if opened.read(4) != b"PK\x03\x04":
            return False
    with zipfile.ZipFile(file) as archive:
        for record in archive.infolist():
            if record.CRC:
                with archive.open(record) as opened_record:
                    while opened_record.read(_CHUNK_BYTES):
                        pass
    return True


@contextlib.contextmanager
def _plain_data_allowed() -> Iterator[None]:
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


def _groups(
    tree: object, keys: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], dict[str, Tensor]]]:
    """Every mapping in ``tree`` that holds tensors by name, with the keys that lead to it."""
    if not isinstance(tree, Mapping) or len(keys) > _MAX_DEPTH:
        return
    named = {key: value for key, value in tree.items() if isinstance(key, str)}
    tensors = {key: value.detach() for key, value in named.items() if isinstance(value, Tensor)}
    if tensors:
        yield keys, tensors
    for key, value in named.items():
        if "optim" not in key.lower():
            yield from _groups(value, (*keys, key))


def _size(tensors: Mapping[str, Tensor]) -> int:
    """How many tensors, scalars aside: an epoch counter is no network."""
    return sum(tensor.ndim > 0 for tensor in tensors.values())


def _rank(keys: tuple[str, ...]) -> tuple[bool, int]:
    """The first of a sort is taken; sorting keeps the file's order among equals."""
    usual = [_HOLDERS.index(key) for key in keys[:1] if key in _HOLDERS]
    return (is_second_choice(".".join(keys)), usual[0] if usual else len(_HOLDERS) * bool(keys))
