"""Position embeddings of a vision transformer, from one grid of patches to another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from torch import Tensor
from torch.nn import functional

from assay.errors import ModelError

__all__ = ["can_resize_positions", "is_position_embedding", "resize_positions"]

_NAMES = ("pos_embed", "pos_embedding", "position_embedding", "position_embeddings",
          "positional_embedding", "absolute_pos_embed")  # fmt: skip
_MOST_OTHER_TOKENS = 16  # class, distillation and register tokens


def is_position_embedding(name: str) -> bool:
    """Whether the last part of a name, or the one before "weight", is a usual one of these.

    >>> is_position_embedding("trunk.pos_embed"), is_position_embedding("fc.weight")
    (True, False)
    """
    parts = name.split(".")
    return parts[-1] in _NAMES or (
        parts[-1] == "weight" and parts[-2:-1] != [] and parts[-2] in _NAMES
    )


def can_resize_positions(theirs: Sequence[int], ours: Sequence[int]) -> bool:
    """Whether one shape is the other on another grid of patches.

    Shapes are (..., tokens, channels) with square grids behind the same number of other tokens, or
    (1, channels, height, width).

    >>> can_resize_positions((1, 197, 768), (1, 577, 768))
    True
    """
    return _kind(tuple(theirs), tuple(ours)) is not None


def resize_positions(theirs: Tensor, shape: Sequence[int]) -> Tensor:
    """``theirs`` interpolated to ``shape``: bicubic, antialiased, in float32.

    Other tokens than patches keep their embeddings. The result has the dtype of ``theirs``.

    Raises:
        ModelError: the shapes do not go together (:func:`can_resize_positions`).
    """
    kind = _kind(tuple(theirs.shape), tuple(shape))
    if kind is None:
        raise ModelError(
            f"Position embeddings of shape {list(theirs.shape)} have no grid of patches that could "
            f"become one of shape {list(shape)}. See can_resize_positions."
        )
    if isinstance(kind, str):
        return _resized(theirs, int(shape[-2]), int(shape[-1]))
    others = kind
    patches = theirs[..., others:, :]
    channels = patches.shape[-1]
    old, new = math.isqrt(patches.shape[-2]), math.isqrt(shape[-2] - others)
    grid = patches.reshape(1, old, old, channels).permute(0, 3, 1, 2)
    moved = _resized(grid, new, new).permute(0, 2, 3, 1).reshape(*shape[:-2], new * new, channels)
    result = theirs.new_empty(tuple(shape))
    result[..., :others, :] = theirs[..., :others, :]
    result[..., others:, :] = moved
    return result


def _kind(theirs: tuple[int, ...], ours: tuple[int, ...]) -> int | Literal["map"] | None:
    """How many tokens are no patches; "map" for a map of channels; None: they do not fit."""
    if len(theirs) != len(ours) or theirs == ours or 0 in (*theirs, *ours):
        return None
    if len(theirs) == 4 and theirs[:2] == ours[:2] and theirs[0] == 1:
        return "map"
    if len(theirs) not in (2, 3) or theirs[-1] != ours[-1] or {*theirs[:-2], *ours[:-2]} - {1}:
        return None
    for others in range(_MOST_OTHER_TOKENS + 1):
        if _is_square(theirs[-2] - others) and _is_square(ours[-2] - others):
            return others
    return None


def _is_square(number: int) -> bool:
    return number > 0 and math.isqrt(number) ** 2 == number


def _resized(grid: Tensor, height: int, width: int) -> Tensor:
    moved = functional.interpolate(
        grid.float(), size=(height, width), mode="bicubic", antialias=True, align_corners=False
    )
    return moved.to(grid.dtype)
