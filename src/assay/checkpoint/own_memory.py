"""Tensors as a writer wants them: plain memory of the CPU, all of it theirs; tied ones found."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from assay.errors import ModelError

__all__ = ["owned", "without_aliases"]


def owned(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same values in contiguous memory of the CPU that holds nothing else.

    Writers keep the whole storage of a view, or refuse it. Tensors that are the same view of one
    storage stay one tensor. What is fine already is not copied.

    Raises:
        ModelError: a tensor has no dense memory (sparse, nested, on "meta"); it is named.
    """
    seen: dict[tuple[object, ...], Tensor] = {}
    result = {}
    for name, tensor in tensors.items():
        _check(name, tensor)
        key = _identity(tensor)
        if key not in seen:
            seen[key] = _own(tensor.detach())
        result[name] = seen[key]
    return result


def without_aliases(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Each tensor once, under the first of its names; and other name -> first name."""
    first: dict[tuple[object, ...], str] = {}
    aliases = {}
    for name, tensor in tensors.items():
        kept = first.setdefault(_identity(tensor), name)
        if kept != name:
            aliases[name] = kept
    return {name: tensor for name, tensor in tensors.items() if name not in aliases}, aliases


def _check(name: str, tensor: Tensor) -> None:
    if tensor.layout is not torch.strided or tensor.is_nested:
        kind = "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")
        raise ModelError(f"{name!r} is a tensor of layout {kind}. Make it dense: .to_dense().")
    if tensor.is_meta:
        raise ModelError(f"{name!r} is on the device 'meta' and has no values to be written.")


def _identity(tensor: Tensor) -> tuple[object, ...]:
    """Equal for tensors that are one and the same view of one memory."""
    if not tensor.numel():  # all empty memory has one address
        return (id(tensor),)
    return (
        tensor.device, tensor.dtype, tensor.data_ptr(), tuple(tensor.shape), tensor.stride(),
        tensor.is_conj(), tensor.is_neg(),
    )  # fmt: skip


def _own(tensor: Tensor) -> Tensor:
    if tensor.is_quantized:
        return tensor.cpu()
    plain = tensor.cpu().resolve_conj().resolve_neg().contiguous()
    if plain.untyped_storage().nbytes() != plain.numel() * plain.element_size():
        plain = plain.clone(memory_format=torch.contiguous_format)
    return plain
