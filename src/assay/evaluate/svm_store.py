"""What SVM training leaves on disk: a file for each class, a record of the whole, AP matrices.

::

    {output_dir}/{layer}/
      models/class_{id}.npz   weights and biases of a class at every cost, its cross-validated APs
      svm.json                what was trained on what; there only when the rest is whole
      crossval_ap.npy         (C, K) float64, a row for each class of svm.json
      chosen_cost.npy         (C,) float64
      test_ap.npy             (C, 1) float64

Every file is written whole or not at all, and nothing in them is executed when they are read.
``{layer}`` is the layer's name, in which ``/`` is written ``%2F``; see
:func:`~assay.features.file_names.folder_name`.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay._atomic import atomic_path, explain_os_errors, make_folder, write_json
from assay.errors import AssayWarning, ConfigError, DataError
from assay.evaluate.svm_training import ClassModels
from assay.features.file_names import folder_name
from assay.features.npy_reading import map_npy, read_npz
from assay.features.record_fields import read_count, read_flag, read_list, read_section
from assay.features.regular_file import read_regular

__all__ = ["SVMStore", "TrainingRecord", "layer_folder"]

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
        self.folder = make_folder(layer_folder(output_dir, layer))

    def save_class(self, models: ClassModels, fingerprint: str) -> None:
        """Write one class; from then on a run of the same fingerprint need not train it."""
        make_folder(self.folder / "models")
        with atomic_path(self._class_path(models.class_id)) as partial:
            np.savez(partial, fingerprint=np.array(fingerprint), **asdict(models))

    def load_class(self, class_id: int, fingerprint: str) -> ClassModels | None:
        """One class as it was saved under this fingerprint; None if there is no such file."""
        path = self._class_path(class_id)
        try:
            arrays = read_npz(path)
            if str(arrays["fingerprint"]) != fingerprint:
                return None
            return _class_models(arrays)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, LookupError, TypeError) as error:
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
            document = json.loads(read_regular(path).decode("utf-8"))
            if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
                raise ValueError("it is of another version")
            return _training_record(document)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise DataError(
                f"{path} cannot be read: {error}. Train again; classes that are trained will be "
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
            matrix = np.array(map_npy(path))
        except FileNotFoundError as error:
            raise DataError(f"{path} is not there: train first.") from error
        except (OSError, ValueError) as error:
            raise DataError(f"{path} cannot be read: {error}. Train again.") from error
        if matrix.ndim != 2 or matrix.dtype.kind != "f" or not np.isfinite(matrix).all():
            raise DataError(f"{path} holds no matrix of finite APs: delete it and train again.")
        return np.asarray(matrix, np.float64)

    def _class_path(self, class_id: int) -> Path:
        return self.folder / "models" / f"class_{class_id}.npz"


def layer_folder(output_dir: Path, layer: str) -> Path:
    """Where a layer's results stand. A name of a folder that this made names the same folder.

    Raises:
        ConfigError: the layer's name is none for a folder.
    """
    if layer in ("", ".", ".."):
        raise ConfigError(f"layer {layer!r} cannot name a folder: give the name of a layer.")
    return output_dir / folder_name(layer)


def _training_record(document: dict[str, Any]) -> TrainingRecord:
    """What a file says, as far as it can be true.

    Raises:
        ValueError: a key is missing, of another type, or does not fit the others.
    """
    record = TrainingRecord(
        class_ids=tuple(read_list(document, "class_ids", int)),
        label_ids=tuple(read_list(document, "label_ids", int)),
        multi_label=read_flag(document, "multi_label"),
        feature_dim=read_count(document, "feature_dim"),
        settings=read_section(document, "settings"),
        fingerprints=tuple(read_list(document, "fingerprints", str)),
    )
    read_flag(record.settings, "normalize")
    read_list(record.settings, "costs", float)
    if len(set(record.class_ids)) != len(record.fingerprints):
        raise ValueError("it has another number of classes than of fingerprints, or a class twice")
    if not set(record.class_ids) <= set(record.label_ids):
        raise ValueError("it has trained classes that the labels lack")
    return record


def _class_models(arrays: dict[str, NDArray[Any]]) -> ClassModels:
    """The models in the arrays of a file.

    Raises:
        ValueError, KeyError, TypeError: one is missing, or they do not fit together.
    """
    models = ClassModels(
        class_id=int(arrays["class_id"]),
        costs=arrays["costs"],
        crossval_ap=arrays["crossval_ap"],
        weights=arrays["weights"],
        biases=arrays["biases"],
        num_positives=int(arrays["num_positives"]),
        num_unconverged=int(arrays["num_unconverged"]),
        num_fits=int(arrays["num_fits"]),
    )
    numbers = (models.costs, models.crossval_ap, models.weights, models.biases)
    num_costs = len(models.costs)
    shapes = [each.shape for each in (models.costs, models.crossval_ap, models.biases)]
    if shapes != [(num_costs,)] * 3 or models.weights.shape[:-1] != (num_costs,):
        raise ValueError("its arrays do not fit together")
    if any(each.dtype != np.float64 for each in numbers):
        raise ValueError("its arrays are of another type")
    return models
