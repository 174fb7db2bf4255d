"""Trained models and test rows -> how well each class is told from the rest (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.evaluate.arrays import some_of
from assay.evaluate.metrics import mean_average_precision, precision_recall
from assay.evaluate.svm_training import ClassModels

__all__ = ["LinearModel", "SVMResult", "grade_models", "linear_model", "undefined_message"]


@dataclass(frozen=True)
class LinearModel:
    """One SVM: a row x of features, of unit length if it was trained so, scores x . w + bias."""

    class_id: int
    cost: float
    weights: NDArray[np.float64]  # (D,)
    bias: float


@dataclass(frozen=True)
class SVMResult:
    """How well the features of one layer tell the classes apart."""

    layer: str
    class_ids: tuple[int, ...]  # C classes
    costs: NDArray[np.float64]  # (K,)
    crossval_ap: NDArray[np.float64]  # (C, K) in 0..1, step AP, mean over folds
    chosen_cost: NDArray[np.float64]  # (C,)
    test_ap: NDArray[np.float64]  # (C,) in 0..1, interpolated AP; NaN: no positive test row
    mean_ap: float  # over the classes whose AP is defined; NaN if there is none
    num_undefined: int  # classes whose test AP is NaN
    test_scores: NDArray[np.float64]  # (N_test, C) decision values
    test_targets: NDArray[np.int8]  # (N_test, C) of {1, 0, -1}; -1 = ignored
    num_train_positives: NDArray[np.int64]  # (C,)
    num_test_positives: NDArray[np.int64]  # (C,)


def linear_model(models: ClassModels, cost: float) -> LinearModel | None:
    """The SVM of a class at one of its costs; None if it has no such cost."""
    places = np.flatnonzero(models.costs == cost)
    if not len(places):
        return None
    place = int(places[0])
    return LinearModel(models.class_id, cost, models.weights[place], float(models.biases[place]))


def grade_models(
    layer: str,
    models: Sequence[ClassModels],
    chosen_cost: NDArray[np.float64],
    features: NDArray[np.float64],
    targets: NDArray[np.int8],
) -> SVMResult:
    """Score every class at its chosen cost.

    Args:
        layer: what the result is of.
        models: C classes, trained at the same costs.
        chosen_cost: (C,) one of these costs for each class.
        features: (N, D) test rows, prepared as the training rows were.
        targets: (N, C) of {1, 0, -1}; -1 leaves the row out for that class.
    """
    costs = models[0].costs
    places = [int(np.flatnonzero(costs == cost)[0]) for cost in chosen_cost]
    weights = np.stack([each.weights[place] for each, place in zip(models, places, strict=True)])
    biases = np.array([each.biases[place] for each, place in zip(models, places, strict=True)])
    scores = features @ weights.T + biases
    curves = [
        precision_recall(labels == 1, column, labels != -1)
        for labels, column in zip(targets.T, scores.T, strict=True)
    ]
    test_ap = np.array([curve.interpolated_ap for curve in curves])
    mean = mean_average_precision(test_ap)
    return SVMResult(
        layer=layer,
        class_ids=tuple(each.class_id for each in models),
        costs=costs,
        crossval_ap=np.stack([each.crossval_ap for each in models]),
        chosen_cost=chosen_cost,
        test_ap=test_ap,
        mean_ap=mean.value,
        num_undefined=mean.num_undefined,
        test_scores=scores,
        test_targets=targets,
        num_train_positives=np.array([each.num_positives for each in models], np.int64),
        num_test_positives=(targets == 1).sum(axis=0, dtype=np.int64),
    )


def undefined_message(
    title: str, class_ids: Sequence[int], test_ap: NDArray[np.float64]
) -> str | None:
    """What to say of classes whose AP (C,) is NaN; None if there is none.

    >>> undefined_message("layer fc", [3, 8], np.array([0.5, 0.25])) is None
    True
    """
    places = np.flatnonzero(np.isnan(test_ap)).tolist()
    if not places:
        return None
    return (
        f"{title}: {len(places)} of {len(class_ids)} classes have no positive test row "
        f"({some_of([class_ids[place] for place in places], 20)}): their AP is NaN, and the mean "
        f"is over the other {len(class_ids) - len(places)}."
    )
