"""One class's SVMs: folds, fits at every cost, and what cross-validation says of each cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay._optional import require
from assay.errors import DataError
from assay.evaluate.linear_svc import SVMFits, SVMProblem
from assay.evaluate.metrics import precision_recall
from assay.evaluate.svm_fits import ANY_WORKERS, Workers, fit_many
from assay.evaluate.svm_settings import SVMSettings

__all__ = ["ClassModels", "check_classes", "choose_costs", "fits_per_class", "train_classes"]


@dataclass(frozen=True)
class ClassModels:
    """The SVMs of one class, one for each of K costs, fitted on all training rows."""

    class_id: int
    costs: NDArray[np.float64]  # (K,)
    crossval_ap: NDArray[np.float64]  # (K,) in 0..1, step AP, mean over folds; NaN: no folds
    weights: NDArray[np.float64]  # (K, D)
    biases: NDArray[np.float64]  # (K,)
    num_positives: int  # training rows that show the class
    num_unconverged: int  # of the fits below
    num_fits: int  # K x (folds + 1)


@dataclass(frozen=True)
class _ClassPlan:
    """The rows that one class is trained on, and how cross-validation splits them."""

    class_id: int
    labels: NDArray[np.int8]  # (N,) +1 or -1
    rows: NDArray[np.int64]  # (n,) that count
    folds: tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]  # rows to fit on, to score

    def problems(self, costs: Sequence[float]) -> list[SVMProblem]:
        """Fold by fold, then all rows; within each, one problem for each cost."""
        parts = [fitted for fitted, _ in self.folds] + [self.rows]
        return [SVMProblem(self.labels, rows, cost) for rows in parts for cost in costs]


def fits_per_class(settings: SVMSettings) -> int:
    """How many SVMs one class takes."""
    return len(settings.costs) * (settings.cross_val_folds + 1)


def check_classes(columns: Mapping[int, NDArray[np.int8]], settings: SVMSettings) -> None:
    """Refuse classes that cross-validation cannot split, all of them in one error.

    Args:
        columns: by class id, (N,) of {1, 0, -1}.
        settings: number of folds, and what -1 means.

    Raises:
        DataError: a class has fewer positive or fewer negative rows than there are folds, or none.
    """
    faults = []
    for class_id, column in columns.items():
        faults += _faults(class_id, column, settings)
    if faults:
        shown = "\n  - ".join(faults[:20])
        more = f"\n  - and {len(faults) - 20} more" if len(faults) > 20 else ""
        raise DataError(
            f"SVMs cannot be trained on these labels:\n  - {shown}{more}\n"
            f"Give more images of these classes, lower cross_val_folds (at least 2), or list the "
            f"classes to train in cls_list."
        )


def train_classes(
    features: NDArray[np.float64],
    columns: Mapping[int, NDArray[np.int8]],
    settings: SVMSettings,
    *,
    workers: Workers = ANY_WORKERS,
    progress: Callable[[int], None] | None = None,
) -> list[ClassModels]:
    """Train and cross-validate the classes, each on its own; their order is that of ``columns``.

    Args:
        features: (N, D) as :func:`~assay.evaluate.svm_features.prepare_features` makes them.
        columns: by class id, (N,) of {1, 0, -1}, passed by :func:`check_classes`.
        settings: costs, folds, solver.
        workers: what solves.
        progress: called with the number of SVMs newly fitted.
    """
    plans = [_plan(class_id, column, settings) for class_id, column in columns.items()]
    fits = fit_many(
        features,
        [problem for plan in plans for problem in plan.problems(settings.costs)],
        settings.solver_options,
        workers=workers,
        progress=progress,
    )
    count = fits_per_class(settings)
    return [
        _class_models(features, plan, _part(fits, place * count, count), settings)
        for place, plan in enumerate(plans)
    ]


def choose_costs(
    crossval_ap: NDArray[np.float64], costs: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(C,) the cost of the highest AP in each row of ``crossval_ap`` (C, K); of equals the lowest.

    >>> choose_costs(np.array([[0.8, 0.9, 0.9]]), np.array([1.0, 10.0, 0.1])).tolist()
    [0.1]
    """
    by_cost = np.argsort(costs, kind="stable")
    best = np.argmax(crossval_ap[:, by_cost], axis=1)
    return np.asarray(costs[by_cost[best]], np.float64)


def _faults(class_id: int, column: NDArray[np.int8], settings: SVMSettings) -> list[str]:
    total = len(_rows_that_count(column, settings))
    positives = int((column == 1).sum())
    if total and positives == total:
        return [
            f"class {class_id} is shown by all {total} training rows: an SVM needs rows of other "
            f"classes beside it"
        ]
    folds = settings.cross_val_folds
    why = f", fewer than the {folds} folds of cross-validation" if folds else ""
    return [
        f"class {class_id} has {count} {kind} training rows{why}"
        for count, kind in ((positives, "positive"), (total - positives, "negative"))
        if count < max(1, folds)
    ]


def _rows_that_count(column: NDArray[np.int8], settings: SVMSettings) -> NDArray[np.int64]:
    if settings.ignore_label == "drop":
        return np.flatnonzero(column != -1)
    return np.arange(len(column))


def _plan(class_id: int, column: NDArray[np.int8], settings: SVMSettings) -> _ClassPlan:
    labels = np.where(column == 1, 1, -1).astype(np.int8)
    rows = _rows_that_count(column, settings)
    if not settings.cross_val_folds:
        return _ClassPlan(class_id, labels, rows, folds=())
    selection = require("sklearn.model_selection", extra="evaluate", purpose="train SVMs")
    splitter = selection.StratifiedKFold(n_splits=settings.cross_val_folds)
    folds = tuple(
        (rows[fitted], rows[scored]) for fitted, scored in splitter.split(rows, labels[rows])
    )
    return _ClassPlan(class_id, labels, rows, folds)


def _part(fits: SVMFits, start: int, count: int) -> SVMFits:
    part = slice(start, start + count)
    return SVMFits(fits.weights[part], fits.biases[part], fits.converged[part])


def _class_models(
    features: NDArray[np.float64], plan: _ClassPlan, fits: SVMFits, settings: SVMSettings
) -> ClassModels:
    num_costs = len(settings.costs)
    fold_aps = []
    for place, (_, scored) in enumerate(plan.folds):
        fold = _part(fits, place * num_costs, num_costs)
        scores = features[scored] @ fold.weights.T + fold.biases
        fold_aps.append(
            [precision_recall(plan.labels[scored], column).step_ap for column in scores.T]
        )
    final = _part(fits, len(plan.folds) * num_costs, num_costs)
    return ClassModels(
        class_id=plan.class_id,
        costs=np.array(settings.costs),
        crossval_ap=np.mean(fold_aps, axis=0) if fold_aps else np.full(num_costs, np.nan),
        # Copies: views would keep the fits of all folds and classes in memory.
        weights=final.weights.copy(),
        biases=final.biases.copy(),
        num_positives=int((plan.labels[plan.rows] == 1).sum()),
        num_unconverged=int((~fits.converged).sum()),
        num_fits=len(fits.converged),
    )
