"""Features and labels of small samples: read, checked, and scored at every cost (pure)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import DataError
from assay.evaluate.low_shot_settings import LowShotSettings
from assay.evaluate.metrics import precision_recall
from assay.evaluate.svm_data import (
    TrainingData,
    check_lengths,
    read_test_data,
    read_training_data,
    select_classes,
)
from assay.evaluate.svm_features import features_digest, read_features
from assay.evaluate.svm_settings import SVMSettings
from assay.evaluate.svm_store import TrainingRecord
from assay.evaluate.svm_training import ClassModels
from assay.evaluate.targets import LabelTable, read_targets

__all__ = ["TestRows", "aps_at_every_cost", "read_low_shot_sample", "read_test_rows"]

_SCORES_BYTES = 64 << 20


@dataclass(frozen=True)
class TestRows:
    """Test rows, as the models of a training take them."""

    features: NDArray[np.float64]  # (N, D) prepared as the training rows were
    targets: NDArray[np.int8]  # (N, C) of {1, 0, -1}; -1 leaves the row out for that class
    digest: str  # of the rows as they came, and of their labels


def read_low_shot_sample(
    features: Any,
    targets: Any,
    settings: SVMSettings,
    low_shot: LowShotSettings,
    *,
    cross_validate: bool,
) -> tuple[TrainingData, SVMSettings]:
    """The rows that some class uses, and the settings with the folds that they permit: all or 0.

    Raises:
        DataError: features or labels that cannot be used, or not of the form of the data set.
        ConfigError: ``cls_list`` names a class that the labels lack.
    """
    array = read_features(features, name="training features")
    labels = read_targets(targets, name="training targets")
    check_lengths(array, labels, "training features and targets")
    _check_form(labels, low_shot)
    columns = labels.columns(select_classes(labels, settings))
    used = np.flatnonzero((columns != -1).any(axis=1))
    if not len(used):
        raise DataError("all training rows are labelled -1 for the classes to train.")
    smallest = min((columns == 1).sum(axis=0).min(), (columns == 0).sum(axis=0).min())
    permitted = cross_validate and smallest >= settings.cross_val_folds
    chosen = settings if permitted else replace(settings, cross_val_folds=0)
    return read_training_data(array[used], labels.values[used], chosen), chosen


def read_test_rows(features: Any, targets: Any, record: TrainingRecord) -> TestRows:
    """Check and prepare test rows for the models of ``record``.

    Raises:
        DataError: they cannot be used, or do not fit what was trained.
    """
    prepared, columns = read_test_data(features, targets, record)
    digest = hashlib.sha256(features_digest(read_features(features)).encode())
    digest.update(np.ascontiguousarray(columns).data)
    return TestRows(prepared, columns, f"sha256:{digest.hexdigest()}")


def aps_at_every_cost(models: Sequence[ClassModels], rows: TestRows) -> NDArray[np.float64]:
    """(C, K) interpolated AP of each class at each cost; NaN where no row that counts is positive.

    Args:
        models: C classes, trained at the same K costs.
        rows: test rows with the labels of these classes.
    """
    num_costs = len(models[0].costs)
    # Many classes at a time, for each product reads all rows; not all, for the scores take memory.
    step = max(1, _SCORES_BYTES // (8 * num_costs * len(rows.features)))
    aps = []
    for start in range(0, len(models), step):
        some = models[start : start + step]
        weights = np.concatenate([each.weights for each in some])
        scores = rows.features @ weights.T + np.concatenate([each.biases for each in some])
        for place, column in enumerate(scores.T):
            labels = rows.targets[:, start + place // num_costs]
            aps.append(precision_recall(labels == 1, column, labels != -1).interpolated_ap)
    return np.reshape(aps, (len(models), num_costs))


def _check_form(labels: LabelTable, low_shot: LowShotSettings) -> None:
    if labels.multi_label == low_shot.multi_label:
        return
    forms = ("one class id a row", "one column a class, (N, L)")
    raise DataError(
        f"dataset_name {low_shot.dataset_name} means targets of {forms[low_shot.multi_label]}, but "
        f"the training targets are {forms[labels.multi_label]}: set SVM.low_shot.dataset_name to "
        f"{'voc' if labels.multi_label else 'places'}, or give the other form."
    )
