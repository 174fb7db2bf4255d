"""How far to go along a direction, for many linear SVMs at once."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["line_search"]

# The search ends where the slope has fallen to this part of the first.
_FLAT = 0.05
_STEPS = 25


def line_search(
    slack: Tensor,
    ahead: Tensor,
    curvature: Tensor,
    inner: Tensor,
    square: Tensor,
    slope: Tensor,
    *,
    start: float = 1.0,
) -> Tensor:
    """Lengths (P,) near the minimum along each direction, 0 where it does not lead down.

    At length t the objective is a constant + ``inner`` t + ``square`` t^2 / 2 + the sum over rows
    of ``curvature`` / 2 x max(0, ``slack`` + t ``ahead``)^2. Its derivative rises piecewise
    linearly: Newton's method finds its zero, held between bounds that close in.

    Args:
        slack, ahead, curvature: (N, P).
        inner, square: (P,).
        slope: (P,) the derivative at 0.
        start: where the search begins.
    """
    down = slope < 0
    low = torch.zeros_like(slope)
    high = torch.full_like(slope, torch.inf)
    length = torch.where(down, start, 0.0)
    gaining = curvature * ahead
    for _ in range(_STEPS):
        left = torch.addcmul(slack, length, ahead).clamp_min_(0)
        here = inner + length * square + (left * gaining).sum(dim=0)
        if not bool((down & (here.abs() > _FLAT * slope.abs())).any()):
            break
        bend = square + (gaining * ahead).masked_fill_(left == 0, 0).sum(dim=0)
        low = torch.where(here < 0, length, low)
        high = torch.where(here >= 0, length, high)
        guess = length - here / bend
        middle = torch.where(high.isinf(), 2 * length + 1, (low + high) / 2)
        length = torch.where((guess > low) & (guess < high), guess, middle)
        length = torch.where(down, length, 0.0)
    return length
