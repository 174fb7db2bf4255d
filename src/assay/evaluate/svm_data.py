"""Features and labels for SVMs: read, checked against each other and against what was trained."""

from __future__ import annotations

import hashlib
import json
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from assay.errors import AssayWarning, ConfigError, DataError
from assay.evaluate.arrays import some_of
from assay.evaluate.svm_features import features_digest, prepare_features, read_features
from assay.evaluate.svm_fits import solver_name
from assay.evaluate.svm_settings import SVMSettings
from assay.evaluate.svm_store import TrainingRecord
from assay.evaluate.targets import LabelTable, read_targets

__all__ = [
    "LabelledFeatures",
    "TrainingData",
    "check_lengths",
    "check_settings",
    "open_npy",
    "read_test_data",
    "read_training_data",
    "select_classes",
]


class LabelledFeatures(Protocol):
    """Anything with features and targets, such as merged shards."""

    @property
    def features(self) -> NDArray[Any]:
        """(N, D) of any real type."""

    @property
    def targets(self) -> NDArray[Any]:
        """(N,) or (N, 1) class ids, or (N, L) of {1, 0, -1}."""


@dataclass(frozen=True)
class TrainingData:
    """What a training starts from."""

    features: NDArray[np.float64]  # (N, D) as the solver takes them
    labels: LabelTable  # of N rows
    record: TrainingRecord  # of all classes that the settings ask for


def read_training_data(features: Any, targets: Any, settings: SVMSettings) -> TrainingData:
    """Check and prepare training rows.

    Args:
        features: (N, D) of any real type, finite.
        targets: N labels in any form of :func:`~assay.evaluate.targets.read_targets`.
        settings: which classes, and what decides over the models.

    Raises:
        DataError: features or labels that cannot be used, or not together.
        ConfigError: ``cls_list`` names a class that the labels lack.
    """
    array = read_features(features, name="training features")
    labels = read_targets(targets, name="training targets")
    check_lengths(array, labels, "training features and targets")
    class_ids = select_classes(labels, settings)
    counting = _settings_that_count(settings)
    source = [features_digest(array), solver_name(settings.solver_options), counting]
    record = TrainingRecord(
        class_ids=class_ids,
        label_ids=labels.class_ids,
        multi_label=labels.multi_label,
        feature_dim=array.shape[1],
        settings=counting,
        fingerprints=tuple(_fingerprint(source, labels.column(each)) for each in class_ids),
    )
    return TrainingData(prepare_features(array, normalize=settings.normalize), labels, record)


def read_test_data(
    features: Any, targets: Any, record: TrainingRecord
) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    """Check and prepare test rows: features (N, D), and labels (N, C) of {1, 0, -1}.

    Warns of class ids that the training labels lacked: their rows count as negatives.

    Raises:
        DataError: they cannot be used, or do not fit what was trained.
    """
    array = read_features(features, name="test features")
    labels = read_targets(targets, name="test targets")
    check_lengths(array, labels, "test features and targets")
    if array.shape[1] != record.feature_dim:
        raise DataError(
            f"test features have {array.shape[1]} columns but the SVMs were trained on "
            f"{record.feature_dim}: extract both from the same layer."
        )
    if labels.multi_label != record.multi_label:
        forms = ("one class id a row", "one column a class")
        raise DataError(
            f"test targets hold {forms[labels.multi_label]} but the training targets held "
            f"{forms[record.multi_label]}: give both in one form."
        )
    if labels.multi_label and labels.class_ids != record.label_ids:
        raise DataError(
            f"test targets have {len(labels.class_ids)} columns but the training targets had "
            f"{len(record.label_ids)}: give a column for each class in both."
        )
    unknown = sorted(set(labels.class_ids) - set(record.label_ids))
    if unknown:
        warnings.warn(
            f"test targets name {len(unknown)} classes that no training row shows "
            f"({some_of(unknown)}): their rows count as negatives of all others.",
            AssayWarning,
            stacklevel=4,
        )
    prepared = prepare_features(array, normalize=record.settings["normalize"])
    return prepared, labels.columns(record.class_ids)


def select_classes(labels: LabelTable, settings: SVMSettings) -> tuple[int, ...]:
    """The class ids to train: those of ``cls_list``, or all.

    Raises:
        ConfigError: ``cls_list`` names a class that the labels lack.
        DataError: there is no class.
    """
    if not labels.class_ids:
        raise DataError("all training rows are labelled -1 (ignored): there is no class to train.")
    unknown = sorted(set(settings.cls_list) - set(labels.class_ids))
    if unknown:
        raise ConfigError(
            f"cls_list names classes that the training labels lack: {some_of(unknown, 20)}. They "
            f"have {some_of(labels.class_ids, 20)}."
        )
    return settings.cls_list or labels.class_ids


def check_settings(record: TrainingRecord, settings: SVMSettings, folder: Path) -> None:
    """Refuse models that were trained with settings other than these.

    Raises:
        DataError: naming each setting that differs.
    """
    changed = [
        f"{key} was {record.settings.get(key)}, is {value}"
        for key, value in _settings_that_count(settings).items()
        if record.settings.get(key) != value
    ]
    if changed:
        raise DataError(
            f"{folder} was trained with other settings ({'; '.join(changed)}): train again, or go "
            f"back to these."
        )


def check_lengths(features: NDArray[Any], labels: LabelTable, what: str) -> None:
    """Refuse features and labels of different length.

    Raises:
        DataError: naming both lengths.
    """
    if len(features) != len(labels.values):
        raise DataError(
            f"{what} do not fit together: {len(features)} rows of features but "
            f"{len(labels.values)} of targets. Take both from one extraction."
        )


def open_npy(path: str | Path) -> NDArray[Any]:
    """The array of a ``.npy`` file, memory-mapped and read-only.

    Raises:
        DataError: the file is missing, or is no array that can be read without executing it.
    """
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError as error:
        raise DataError(f"{path} is not there: extract the features first.") from error
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read as a .npy file of numbers: {error}.") from error
    if not isinstance(array, np.ndarray):
        raise DataError(f"{path} is an archive: give one .npy file.")
    return array


def _settings_that_count(settings: SVMSettings) -> dict[str, Any]:
    """All settings that decide over a class's models, as JSON has them."""
    values = asdict(settings)
    del values["cls_list"], values["force_retrain"]
    return {**values, "costs": list(settings.costs)}


def _fingerprint(source: list[Any], column: NDArray[np.int8]) -> str:
    digest = hashlib.sha256(json.dumps(source, sort_keys=True).encode())
    digest.update(column.tobytes())
    return f"sha256:{digest.hexdigest()}"
