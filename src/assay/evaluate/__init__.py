"""Vectors in, scores out: linear SVMs, nearest neighbours, and the metrics that grade them.

Names load on first use, so that importing this package brings in neither numpy nor scikit-learn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.evaluate.bootstrap import (
        BootstrapInterval,
        PairedDifference,
        bootstrap_mean,
        bootstrap_mean_ap,
        bootstrap_mean_ap_difference,
        bootstrap_mean_difference,
    )
    from assay.evaluate.knn import KNNAccuracy, KNNMeanAP, evaluate_knn
    from assay.evaluate.knn_settings import KNNSettings
    from assay.evaluate.linear_svc import SVMProblem
    from assay.evaluate.low_shot import SVMLowShotTrainer
    from assay.evaluate.low_shot_result import LowShotPoint, LowShotResult
    from assay.evaluate.low_shot_samples import LowShotSample, draw_low_shot_sample
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
    from assay.evaluate.svm_solver import solve_svms
    from assay.evaluate.svm_sweep import SVMSolution

__all__ = [
    "BootstrapInterval",
    "KNNAccuracy",
    "KNNMeanAP",
    "KNNSettings",
    "LowShotPoint",
    "LowShotResult",
    "LowShotSample",
    "MeanAP",
    "PairedDifference",
    "PrecisionRecall",
    "RankedExample",
    "RankedExamples",
    "SVMLowShotTrainer",
    "SVMProblem",
    "SVMResult",
    "SVMSolution",
    "SVMTrainer",
    "average_precision",
    "bootstrap_mean",
    "bootstrap_mean_ap",
    "bootstrap_mean_ap_difference",
    "bootstrap_mean_difference",
    "calculate_ap",
    "draw_low_shot_sample",
    "evaluate_knn",
    "get_precision_recall",
    "mean_average_precision",
    "precision_recall",
    "rank_examples",
    "solve_svms",
]

_HOMES = {
    "BootstrapInterval": "assay.evaluate.bootstrap",
    "KNNAccuracy": "assay.evaluate.knn",
    "KNNMeanAP": "assay.evaluate.knn",
    "KNNSettings": "assay.evaluate.knn_settings",
    "LowShotPoint": "assay.evaluate.low_shot_result",
    "LowShotResult": "assay.evaluate.low_shot_result",
    "LowShotSample": "assay.evaluate.low_shot_samples",
    "MeanAP": "assay.evaluate.metrics",
    "PairedDifference": "assay.evaluate.bootstrap",
    "PrecisionRecall": "assay.evaluate.metrics",
    "RankedExample": "assay.evaluate.ranked_examples",
    "RankedExamples": "assay.evaluate.ranked_examples",
    "SVMLowShotTrainer": "assay.evaluate.low_shot",
    "SVMProblem": "assay.evaluate.linear_svc",
    "SVMResult": "assay.evaluate.svm",
    "SVMSolution": "assay.evaluate.svm_sweep",
    "SVMTrainer": "assay.evaluate.svm",
    "average_precision": "assay.evaluate.metrics",
    "bootstrap_mean": "assay.evaluate.bootstrap",
    "bootstrap_mean_ap": "assay.evaluate.bootstrap",
    "bootstrap_mean_ap_difference": "assay.evaluate.bootstrap",
    "bootstrap_mean_difference": "assay.evaluate.bootstrap",
    "calculate_ap": "assay.evaluate.metrics",
    "draw_low_shot_sample": "assay.evaluate.low_shot_samples",
    "evaluate_knn": "assay.evaluate.knn",
    "solve_svms": "assay.evaluate.svm_solver",
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
