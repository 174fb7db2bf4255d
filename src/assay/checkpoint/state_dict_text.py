"""State dicts for people: names and shapes, and what was loaded from where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from assay.checkpoint.init_plan import skip_list
from assay.checkpoint.vissl_names import heads_are_initialised

__all__ = ["print_loaded_dict_info", "print_state_dict_shapes"]


def print_state_dict_shapes(state_dict: Mapping[str, Any]) -> None:
    """Print the name, shape and dtype of each tensor; other values by their type."""
    width = max((len(str(name)) for name in state_dict), default=0)
    for name, value in state_dict.items():
        print(f"{name!s:<{width}}  {_described(value)}")


def print_loaded_dict_info(
    model_state_dict: Mapping[str, Any],
    state_dict: Mapping[str, Any],
    skip_layers: Sequence[str] | None,
    model_config: Mapping[str, Any],
) -> None:
    """Print for each layer of a model whether it was loaded, skipped or not found in the file.

    Args:
        model_state_dict: the model's.
        state_dict: the file's, under the model's names.
        skip_layers: layers whose names contain one of these were skipped.
        model_config: the section MODEL of the settings, which say whether heads were loaded.
    """
    skips = skip_list(skip_layers)
    heads = heads_are_initialised(model_config)
    width = max((len(name) for name in model_state_dict), default=0)
    for name, own in model_state_dict.items():
        if any(skip in name for skip in skips) or (not heads and "heads" in name.split(".")):
            print(f"skipped    {name}")
        elif name not in state_dict:
            print(f"not found  {name}")
        elif tuple(np.shape(state_dict[name])) != tuple(np.shape(own)):
            print(f"no fit     {name:<{width}}  {_described(state_dict[name])} in the file")
        else:
            print(f"loaded     {name:<{width}}  {_described(own)}")
    for name in state_dict:
        if name not in model_state_dict:
            print(f"extra      {name}")


def _described(value: Any) -> str:
    if isinstance(value, (Tensor, np.ndarray)):
        return f"{list(value.shape)} {str(value.dtype).removeprefix('torch.')}"
    return f"({type(value).__name__})"
