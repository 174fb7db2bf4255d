"""What SVM training leaves on disk: a file for each class, a record of the whole, AP matrices.

::

    {output_dir}/{layer}/
      models/class_{id}.npz   weights and biases of a class at every cost, its cross-validated APs
      svm.json                what was trained on what; there only when the rest is whole
      crossval_ap.npy         (C, K) float64, a row for each class of svm.json
      chosen_cost.npy         (C,) float64
      test_ap.npy             (C, 1) float64

Every file is written whole or not at all, and nothing in them is executed when they are read.
"""

from __future__ import annotations

import json
import warnings
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay._atomic import atomic_path, explain_os_errors, make_folder, write_json
from assay.errors import AssayWarning, ConfigError, DataError
from assay.evaluate.svm_training import ClassModels

__all__ = ["SVMStore", "TrainingRecord"]

_SCHEMA = 1
_RESULTS = ("svm.json", "crossval_ap.npy", "chosen_cost.npy", "test_ap.npy")


@dataclass(frozen=True)
class TrainingRecord:
    """What the models of a folder were trained on, and how."""

    class_ids: tuple[int, ...]  # C classes that are trained, in the order of the AP matrices
    label_ids: tuple[int, ...]  # all classes of the training labels
    multi_label: bool
    feature_dim: int
    settings: dict[str, Any]  # all that changes what the models become
    fingerprints: tuple[str, ...]  # (C,) of features, labels, settings and solver

    @property
    def fingerprint_of(self) -> dict[int, str]:
        """The fingerprints by class id."""
        return dict(zip(self.class_ids, self.fingerprints, strict=True))

    def subset(self, class_ids: Iterable[int]) -> TrainingRecord:
        """The record of a part of its classes."""
        kept = tuple(class_ids)
        return replace(
            self, class_ids=kept, fingerprints=tuple(self.fingerprint_of[each] for each in kept)
        )


class SVMStore:
    """Reads and writes the folder of one layer; makes it where it is missing.

    Raises:
        ConfigError: the layer's name is none for a folder.
        OutputError: the folder cannot be made.
    """

    def __init__(self, output_dir: Path, layer: str) -> None:
        if not layer or layer in (".", "..") or any(mark in layer for mark in "/\\\0"):
            raise ConfigError(
                f"layer {layer!r} cannot name a folder: give a name without path separators."
            )
        self.folder = make_folder(output_dir / layer)

    def save_class(self, models: ClassModels, fingerprint: str) -> None:
        """Write one class; from then on a run of the same fingerprint need not train it."""
        make_folder(self.folder / "models")
        with atomic_path(self._class_path(models.class_id)) as partial:
            np.savez(partial, fingerprint=np.array(fingerprint), **asdict(models))

    def load_class(self, class_id: int, fingerprint: str) -> ClassModels | None:
        """One class as it was saved under this fingerprint; None if there is no such file."""
        path = self._class_path(class_id)
        try:
            with np.load(path, allow_pickle=False) as file:
                if str(file["fingerprint"]) != fingerprint:
                    return None
                return _class_models(file)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            warnings.warn(
                f"{path} is damaged ({error}): its class counts as not trained.",
                AssayWarning,
                stacklevel=2,
            )
            return None

    def record(self) -> TrainingRecord | None:
        """The record of the last training that came to its end; None if there is none.

        Raises:
            DataError: the file is damaged or of another version.
        """
        path = self.folder / "svm.json"
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            if document["schema"] != _SCHEMA:
                raise ValueError("it is of another version")
            return _training_record(document)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{path} cannot be read: {error!r}. Train again; classes that are trained will be "
                f"taken over."
            ) from error

    def save_training(self, record: TrainingRecord, crossval_ap: NDArray[np.float64]) -> None:
        """Write the results of a training; those of an earlier one have been forgotten."""
        self.save_array("crossval_ap.npy", crossval_ap)
        # Last: whoever finds it finds a whole training.
        write_json(self.folder / "svm.json", {"schema": _SCHEMA, **asdict(record)})

    def forget_results(self) -> None:
        """Delete what depends on all classes; the classes themselves stay."""
        for name in _RESULTS:
            with explain_os_errors(self.folder / name):
                (self.folder / name).unlink(missing_ok=True)

    def save_array(self, name: str, array: NDArray[np.float64]) -> None:
        """Write one of the matrices."""
        with atomic_path(self.folder / name) as partial:
            np.save(partial, array)

    def load_crossval_ap(self) -> NDArray[np.float64]:
        """(C, K) in 0..1.

        Raises:
            DataError: the file is missing or damaged.
        """
        path = self.folder / "crossval_ap.npy"
        try:
            matrix = np.load(path, allow_pickle=False)
        except FileNotFoundError as error:
            raise DataError(f"{path} is not there: train first.") from error
        except (ValueError, EOFError) as error:
            raise DataError(f"{path} cannot be read: {error}. Train again.") from error
        if matrix.ndim != 2 or matrix.dtype.kind != "f" or not np.isfinite(matrix).all():
            raise DataError(f"{path} holds no matrix of finite APs: delete it and train again.")
        return np.asarray(matrix, np.float64)

    def _class_path(self, class_id: int) -> Path:
        return self.folder / "models" / f"class_{class_id}.npz"


def _training_record(document: Any) -> TrainingRecord:
    return TrainingRecord(
        class_ids=tuple(document["class_ids"]),
        label_ids=tuple(document["label_ids"]),
        multi_label=document["multi_label"],
        feature_dim=document["feature_dim"],
        settings=document["settings"],
        fingerprints=tuple(document["fingerprints"]),
    )


def _class_models(file: Any) -> ClassModels:
    return ClassModels(
        class_id=int(file["class_id"]),
        costs=file["costs"],
        crossval_ap=file["crossval_ap"],
        weights=file["weights"],
        biases=file["biases"],
        num_positives=int(file["num_positives"]),
        num_unconverged=int(file["num_unconverged"]),
        num_fits=int(file["num_fits"]),
    )
