"""What callers hand over as an array -> a numpy array, and words about its bad rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["as_numpy", "some_of"]


def as_numpy(values: Any) -> NDArray[Any]:
    """An array, sequence or tensor (any device, with or without gradient) as a numpy array.

    Tensors in a float type that numpy lacks, such as bfloat16, are widened to float32, which holds
    each of their values exactly. Of an array it is a view, not a copy.

    Raises:
        ValueError, TypeError: numpy cannot make an array of it, e.g. of a ragged list.
    """
    # By its methods and not by its type: evaluating arrays must not import torch.
    if hasattr(values, "detach") and hasattr(values, "element_size"):
        tensor = values.detach().cpu()
        if tensor.is_floating_point() and tensor.element_size() < 4:
            tensor = tensor.float()
        return np.asarray(tensor.numpy())
    return np.asarray(values)


def some_of(rows: NDArray[np.integer] | Sequence[int], shown: int = 5) -> str:
    """The first few of ``rows`` for a message.

    >>> some_of([3, 7])
    '3, 7'
    >>> some_of(list(range(100)), shown=3)
    '0, 1, 2 and 97 more'
    """
    text = ", ".join(str(int(row)) for row in rows[:shown])
    return text if len(rows) <= shown else f"{text} and {len(rows) - shown} more"
