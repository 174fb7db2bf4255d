"""Linear SVMs on frozen features: one per class, its cost chosen by cross-validation.

The protocol of Goyal et al., "Scaling and Benchmarking Self-Supervised Visual Representation
Learning" (2019): rows of unit length, positives weighted twice, the bias regularised like a weight,
costs compared by the mean AP of stratified folds, test scores given as interpolated AP.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import AssayWarning, DataError
from assay.evaluate.arrays import some_of
from assay.evaluate.svm_data import (
    LabelledFeatures,
    TrainingData,
    check_lengths,
    check_settings,
    open_npy,
    read_test_data,
    read_training_data,
    select_classes,
)
from assay.evaluate.svm_features import read_features
from assay.evaluate.svm_fits import Workers
from assay.evaluate.svm_result import (
    LinearModel,
    SVMResult,
    grade_models,
    linear_model,
    undefined_message,
)
from assay.evaluate.svm_settings import IgnoreLabel, SVMSettings
from assay.evaluate.svm_store import SVMStore
from assay.evaluate.svm_stored_training import load_trained_class, train_stored, trained_record
from assay.evaluate.svm_training import choose_costs, fits_per_class
from assay.evaluate.targets import read_targets

__all__ = ["LabelledFeatures", "LinearModel", "SVMResult", "SVMTrainer"]

_LOG = logging.getLogger(__name__)

Progress = Callable[[int], None]


class SVMTrainer:
    """Trains, cross-validates and tests one linear SVM per class on the features of one layer.

    Features are (N, D) of any real type, targets (N,) or (N, 1) class ids, which need not be
    0..n-1, or (N, L) with 1 = present, 0 = absent, -1 = ignored. A test row labelled -1 never
    counts.

    Results stand in ``{output_dir}/{layer}``; :mod:`assay.evaluate.svm_store` says in which files.
    A class that an earlier run trained on the same features, labels and settings is taken over, so
    a run that was stopped goes on where it stopped; ``force_retrain`` trains it again.

    Args:
        config: the section ``SVM`` of the settings, any mapping; keys that are missing have their
            defaults. It is not changed.
        layer: names the folder of the results.
        output_dir: where the folder goes.
        ignore_label: training rows labelled -1 count as negatives, as in the published protocol, or
            are left out.
        num_workers: cores that train; None takes as many as are worth it.
        device: where SVMs are solved, such as "cuda", if their loss and penalty permit.

    Raises:
        ConfigError: settings that cannot be used, all of them in one error.
        OutputError: the folder cannot be made.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        layer: str,
        output_dir: str | Path,
        *,
        ignore_label: IgnoreLabel = "negative",
        num_workers: int | None = None,
        device: str = "cpu",
    ) -> None:
        self.config = config
        self.layer = layer
        self.settings = SVMSettings.from_config(config, ignore_label=ignore_label)
        self.workers = Workers(num_workers, device)
        self._store = SVMStore(Path(output_dir), layer)

    @property
    def folder(self) -> Path:
        """Where the results stand."""
        return self._store.folder

    @property
    def costs_list(self) -> list[float]:
        """All K costs that are tried: those listed, then the powers of the base."""
        return list(self.settings.costs)

    def load_input_data(
        self, data_file: str | Path, targets_file: str | Path
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Read features and labels from ``.npy`` files.

        Returns:
            The features (N, D) as they are stored, memory-mapped and read-only, and the targets,
            (N,) class ids or (N, L) of {1, 0, -1}.

        Raises:
            DataError: a file is missing or is no array, or the two do not fit together.
        """
        features = open_npy(data_file)
        read_features(features, name=str(data_file))
        labels = read_targets(open_npy(targets_file), name=str(targets_file))
        check_lengths(features, labels, f"{data_file} and {targets_file}")
        return features, labels.values

    def train(self, features: Any, targets: Any, *, progress: Progress | None = None) -> None:
        """Train every class at every cost, and cross-validate; writes ``crossval_ap.npy``.

        Results of an earlier training or test are removed.

        Args:
            features: (N, D).
            targets: N labels.
            progress: called with the number of SVMs newly done, of :meth:`count_fits` in all.

        Raises:
            DataError: features or labels that cannot be used, e.g. a class with fewer positives
                than folds.
            ConfigError: ``cls_list`` names a class that the labels lack.
            OutputError: a result cannot be written.
        """
        data = read_training_data(features, targets, self.settings)
        self._train(data, data.record.class_ids, progress)

    def train_cls(self, features: Any, targets: Any, cls_num: int) -> None:
        """Train one class at every cost, and cross-validate.

        ``crossval_ap.npy`` then has a row for each class trained on these features so far.

        Args:
            features: (N, D).
            targets: N labels.
            cls_num: the class id; for (N, L) targets the column.

        Raises:
            DataError, ConfigError, OutputError: as :meth:`train`.
        """
        data = read_training_data(features, targets, self.settings)
        if cls_num not in data.record.class_ids:
            raise DataError(
                f"class {cls_num} is not among the classes to train: "
                f"{some_of(data.record.class_ids, 20)}."
            )
        self._train(data, (int(cls_num),), None)

    def count_fits(self, targets: Any) -> int:
        """How many SVMs :meth:`train` fits on these targets."""
        return len(select_classes(read_targets(targets), self.settings)) * fits_per_class(
            self.settings
        )

    def get_best_cost_value(self) -> NDArray[np.float64]:
        """(C,) the cost of the highest cross-validated AP of each class; of equals the lowest.

        Reads ``crossval_ap.npy`` and writes ``chosen_cost.npy``.

        Raises:
            DataError: nothing is trained, or it was with other settings.
        """
        crossval_ap = self._store.load_crossval_ap()
        record = self._store.record()
        if record is not None:
            check_settings(record, self.settings, self.folder)
        if crossval_ap.shape[1] != len(self.settings.costs):
            raise DataError(
                f"{self.folder / 'crossval_ap.npy'} has {crossval_ap.shape[1]} costs but the "
                f"settings have {len(self.settings.costs)}: train again."
            )
        chosen = choose_costs(crossval_ap, np.array(self.settings.costs))
        self._store.save_array("chosen_cost.npy", chosen)
        return chosen

    def load_model(self, cls_num: int, cost: float) -> LinearModel:
        """The trained SVM of one class at one cost.

        Raises:
            DataError: it is not there, or was trained with other settings.
        """
        record = trained_record(self._store, self.settings)
        if cls_num not in record.class_ids:
            raise DataError(f"class {cls_num} is not trained: {some_of(record.class_ids, 20)} are.")
        model = linear_model(load_trained_class(self._store, record, cls_num), cost)
        if model is None:
            raise DataError(f"no SVM was trained at cost {cost:g}: there are {self.costs_list}.")
        return model

    def test(self, features: Any, targets: Any) -> NDArray[np.float64]:
        """(C, 1) the interpolated AP of every class at its chosen cost; writes ``test_ap.npy``.

        A class without a positive test row has the AP NaN, and a warning names it.

        Args:
            features: (N, D), of the layer that was trained on.
            targets: N labels in the form of those that were trained on.

        Raises:
            DataError: a class is not trained, or data that does not fit what was trained.
            OutputError: a result cannot be written.
        """
        return self._test(features, targets).test_ap[:, np.newaxis]

    def evaluate(
        self, train: LabelledFeatures, test: LabelledFeatures, *, progress: Progress | None = None
    ) -> SVMResult:
        """:meth:`train` on the one, :meth:`test` on the other, and all there is to know of it."""
        data = read_training_data(train.features, train.targets, self.settings)
        self._train(data, data.record.class_ids, progress)
        return self._test(test.features, test.targets)

    def _train(
        self, data: TrainingData, wanted: tuple[int, ...], progress: Progress | None
    ) -> None:
        train_stored(
            self._store,
            data,
            wanted,
            self.settings,
            title=f"layer {self.layer}",
            workers=self.workers,
            progress=progress,
        )

    def _test(self, features: Any, targets: Any) -> SVMResult:
        record = trained_record(self._store, self.settings)
        missing = sorted(set(self.settings.cls_list or record.label_ids) - set(record.class_ids))
        if missing:
            raise DataError(
                f"classes {some_of(missing, 20)} are not trained: train them, or list those to "
                f"test in cls_list."
            )
        prepared, columns = read_test_data(features, targets, record)
        result = grade_models(
            self.layer,
            [load_trained_class(self._store, record, class_id) for class_id in record.class_ids],
            self.get_best_cost_value(),
            prepared,
            columns,
        )
        self._store.save_array("test_ap.npy", result.test_ap[:, np.newaxis])
        self._tell(result)
        return result

    def _tell(self, result: SVMResult) -> None:
        for class_id, ap in zip(result.class_ids, result.test_ap, strict=True):
            _LOG.info("layer %s, class %d: AP %.4f", self.layer, class_id, ap)
        defined = len(result.class_ids) - result.num_undefined
        _LOG.info("layer %s: mean AP %.4f over %d classes", self.layer, result.mean_ap, defined)
        message = undefined_message(f"layer {self.layer}", result.class_ids, result.test_ap)
        if message is not None:
            warnings.warn(message, AssayWarning, stacklevel=4)
