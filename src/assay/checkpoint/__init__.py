"""Weights on disk: read them without running code, and fit them into a model.

Names load on first use, so that ``import assay.checkpoint`` is quick and brings in no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.checkpoint.load import LoadReport, load_weights, read_state_dict

__all__ = ["LoadReport", "load_weights", "read_state_dict"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from assay.checkpoint import load

    value = getattr(load, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
