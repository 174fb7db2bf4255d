"""Vectors in, scores out: linear SVMs and the metrics that grade them.

Names load on first use, so that importing this package brings in neither numpy nor scikit-learn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.evaluate.metrics import (
        MeanAP,
        PrecisionRecall,
        average_precision,
        calculate_ap,
        get_precision_recall,
        mean_average_precision,
        precision_recall,
    )
    from assay.evaluate.ranked_examples import RankedExample, RankedExamples, rank_examples
    from assay.evaluate.svm import SVMResult, SVMTrainer

__all__ = [
    "MeanAP",
    "PrecisionRecall",
    "RankedExample",
    "RankedExamples",
    "SVMResult",
    "SVMTrainer",
    "average_precision",
    "calculate_ap",
    "get_precision_recall",
    "mean_average_precision",
    "precision_recall",
    "rank_examples",
]

_HOMES = {
    "MeanAP": "assay.evaluate.metrics",
    "PrecisionRecall": "assay.evaluate.metrics",
    "RankedExample": "assay.evaluate.ranked_examples",
    "RankedExamples": "assay.evaluate.ranked_examples",
    "SVMResult": "assay.evaluate.svm",
    "SVMTrainer": "assay.evaluate.svm",
    "average_precision": "assay.evaluate.metrics",
    "calculate_ap": "assay.evaluate.metrics",
    "get_precision_recall": "assay.evaluate.metrics",
    "mean_average_precision": "assay.evaluate.metrics",
    "precision_recall": "assay.evaluate.metrics",
    "rank_examples": "assay.evaluate.ranked_examples",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
