"""Weights on disk: read them without running code, and fit them into a model.

Names load on first use, so that ``import assay.checkpoint`` is quick and brings in no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.checkpoint.formats import read_weights_file, write_weights_file
    from assay.checkpoint.init_plan import InitPlan
    from assay.checkpoint.initialize import (
        init_model_from_file,
        init_model_from_weights,
        init_weights,
    )
    from assay.checkpoint.load import LoadReport, load_weights
    from assay.checkpoint.read import read_state_dict
    from assay.checkpoint.rename import RenameRule
    from assay.checkpoint.weights_file import WeightsFile

__all__ = [
    "InitPlan",
    "LoadReport",
    "RenameRule",
    "WeightsFile",
    "init_model_from_file",
    "init_model_from_weights",
    "init_weights",
    "load_weights",
    "read_state_dict",
    "read_weights_file",
    "write_weights_file",
]

_HOMES = {
    "InitPlan": "init_plan",
    "LoadReport": "load",
    "RenameRule": "rename",
    "WeightsFile": "weights_file",
    "init_model_from_file": "initialize",
    "init_model_from_weights": "initialize",
    "init_weights": "initialize",
    "load_weights": "load",
    "read_state_dict": "read",
    "read_weights_file": "formats",
    "write_weights_file": "formats",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
