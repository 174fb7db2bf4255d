"""Weights files -> state dicts, without running any code that a file may carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from assay.checkpoint.formats import read_weights_file
from assay.checkpoint.nested import likely_state_dicts, state_dict_at
from assay.errors import ModelError

__all__ = ["StateDictFile", "read_state_dict", "read_state_dict_file"]


@dataclass(frozen=True)
class StateDictFile:
    """The weights that a file holds."""

    tensors: dict[str, Tensor]  # name -> tensor, on the CPU, as stored; may be memory-mapped
    key: str  # where in the file they stood, "classy_state_dict.base_model"; "" = at the top
    other_keys: tuple[str, ...]  # where the file holds more networks of about that size


def read_state_dict(
    path: str | Path, *, key: str | None = None, trusted: bool = False
) -> dict[str, Tensor]:
    """The weights in a file: name -> tensor, on the CPU. See :func:`read_state_dict_file`."""
    return read_state_dict_file(path, key=key, trusted=trusted).tensors


def read_state_dict_file(
    path: str | Path, *, key: str | None = None, trusted: bool = False
) -> StateDictFile:
    """The weights in a file of any format (:mod:`assay.checkpoint.formats`), and where they stood.

    Training checkpoints are searched for the state dict: the largest group of tensors outside the
    optimizer's; of several about as large (at least half) the one under the most usual key, copies
    such as "student" or "model_ema" last. No code in the file is run; numbers and arrays of NumPy
    and ``argparse.Namespace`` beside the weights are let through as data.

    Args:
        key: take the state dict at this key or dotted path instead; "" is the top.
        trusted: unpickle whatever a file of ``torch.save`` names, which runs its code.

    Raises:
        ModelError: the file is missing, damaged, needs code to be read, holds no tensors, or has
            none at ``key``; then those that it has are named.
        MissingExtraError: it is a ``.safetensors`` file and safetensors is not installed.
    """
    file = Path(path)
    tree = read_weights_file(file, trusted=trusted).tree
    found = likely_state_dicts(tree)
    if not found:
        held = f"a mapping with the keys {list(tree)[:8]}" if isinstance(tree, Mapping) else ""
        raise ModelError(
            f"{file}: holds no tensors by name, but {held or f'a {type(tree).__name__}'}. "
            f"Save the model's weights with torch.save(model.state_dict(), PATH)."
        )
    if key is not None:
        try:
            chosen = state_dict_at(tree, key)
        except ModelError as error:
            raise ModelError(f"{file}: {error}") from error
        tensors = {
            name: value.detach() for name, value in chosen.items() if isinstance(value, Tensor)
        }
        return StateDictFile(tensors, key, tuple(other for other in found if other != key))
    best, *others = found
    return StateDictFile(tensors=found[best], key=best, other_keys=tuple(others))
