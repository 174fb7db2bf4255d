"""Files of safetensors: a JSON header, then the bytes of each tensor. Nothing in them is code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from assay._optional import require
from assay.checkpoint.weights_file import WeightsFile, damaged
from assay.errors import ModelError

__all__ = ["ALIASES_KEY", "read_safetensors", "write_safetensors"]

# The format has a tensor once under one name; under this key of the metadata stand the others, as
# JSON: {name: name of the tensor that it is}.
ALIASES_KEY = "assay.aliases"


def read_safetensors(file: Path, *, mapped: bool = True) -> WeightsFile:
    """The tensors of a file by name, those that are tied under each of their names.

    Aliases are read as :func:`write_safetensors` writes them, and as ``save_model`` of safetensors
    does: a name of no tensor whose value in the metadata is the name of one.

    Raises:
        ModelError: the file is damaged, or names an alias of a tensor that it lacks.
        MissingExtraError: safetensors is not installed.
    """
    safetensors = require(
        "safetensors.torch", extra="timm", purpose="read weights from .safetensors files"
    )
    try:
        with safetensors.safe_open(file, framework="pt", device="cpu") as opened:
            metadata = dict(opened.metadata() or {})
            tensors: dict[str, Tensor] = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except Exception as error:
        raise damaged(file, error) from error
    if not mapped:
        tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    aliases = _aliases(file, metadata, tensors)
    tensors |= {alias: tensors[name] for alias, name in aliases.items()}
    metadata.pop(ALIASES_KEY, None)
    return WeightsFile(
        path=file,
        format="safetensors",
        tree=tensors,
        metadata=metadata,
        aliases=aliases,
        is_mapped=mapped,
    )


def write_safetensors(
    file: Path,
    tensors: Mapping[str, Tensor],
    *,
    metadata: Mapping[str, str] | None = None,
    aliases: Mapping[str, str] | None = None,
) -> None:
    """Dense, contiguous tensors of the CPU, no two of which share memory."""
    safetensors = require(
        "safetensors.torch", extra="timm", purpose="write weights to .safetensors files"
    )
    text = {"format": "pt", **(metadata or {})}  # other readers look for the format
    if aliases:
        text[ALIASES_KEY] = json.dumps(dict(aliases), ensure_ascii=False)
    try:
        safetensors.save_file(dict(tensors), file, metadata=text)
    except OSError:
        raise
    except Exception as error:
        kinds = sorted({str(tensor.dtype).removeprefix("torch.") for tensor in tensors.values()})
        raise ModelError(
            f"safetensors cannot hold these tensors (of {', '.join(kinds)}): {error}. Write a "
            f".pth file, or convert them to another dtype."
        ) from error


def _aliases(
    file: Path, metadata: Mapping[str, str], tensors: Mapping[str, Tensor]
) -> dict[str, str]:
    if ALIASES_KEY in metadata:
        aliases = _parsed(metadata[ALIASES_KEY])
        if aliases is None:
            raise ModelError(f"{file}: its metadata {ALIASES_KEY!r} is no mapping of names.")
    else:
        # A title or a date that happens to be a tensor's name is no alias: both end alike.
        aliases = {
            alias: name
            for alias, name in metadata.items()
            if alias not in tensors and alias.rpartition(".")[2] == name.rpartition(".")[2]
            if name in tensors
        }
    for alias, name in aliases.items():
        if name not in tensors or alias in tensors:
            reason = f"lacks {name!r}" if name not in tensors else f"has a tensor {alias!r}, too"
            raise ModelError(
                f"{file}: its metadata says that {alias!r} is the tensor {name!r}, but the file "
                f"{reason}. Write it again."
            )
    return aliases


def _parsed(text: str) -> dict[str, str] | None:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict) and all(isinstance(name, str) for name in value.values()):
        return value
    return None
