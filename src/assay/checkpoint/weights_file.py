"""What a weights file holds, whatever its format, and the ways in which one is unfit to be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.errors import ModelError

__all__ = ["WeightsFile", "check_is_file", "damaged"]


@dataclass(frozen=True)
class WeightsFile:
    """The contents of a file."""

    path: Path
    format: str  # "torch", "torch (before zip)", "safetensors", "npz", "sharded index"
    tree: Any  # as saved; tensors are on the CPU, and memory-mapped where the format can
    metadata: Mapping[str, str] = field(default_factory=dict)  # text beside the tensors
    aliases: Mapping[str, str] = field(default_factory=dict)  # name -> name of the same tensor
    is_mapped: bool = False  # whether tensors are pages of the file: it must not be written to


def check_is_file(file: Path) -> None:
    """Tell a missing file, a folder, an empty file and an unreadable one apart.

    Raises:
        ModelError: it is one of these.
    """
    if file.is_dir():
        raise ModelError(f"{file}: is a folder. Name the weights file in it.")
    if not file.is_file():
        looked = "" if file.is_absolute() else f" (looked in {Path.cwd()})"
        raise ModelError(f"{file}: there is no such weights file{looked}.")
    try:
        with file.open("rb") as opened:
            start = opened.read(1)
    except OSError as error:
        raise ModelError(f"{file}: cannot be read: {error.strerror}.") from error
    if not start:
        raise ModelError(f"{file}: the file is empty. Copy or download it again.")


def damaged(file: Path, error: Exception) -> ModelError:
    """The error for a file whose bytes are not what its format wants."""
    with file.open("rb") as opened:
        start = opened.read(16)
    # torch's own advice, to read the file with its code, stands in front of this mark.
    told = str(error).rpartition("WeightsUnpickler error:")[2].strip()
    reason = told.splitlines()[0][:200] if told else type(error).__name__
    return ModelError(
        f"{file}: is not a weights file (.pth, .pt, .torch, .bin, .ckpt of torch.save, "
        f".safetensors or .npz), or it is damaged or cut short: {reason}. It starts with "
        f"{start!r}. Copy or download it again."
    )
