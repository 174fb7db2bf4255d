"""Linear SVMs on frozen features: one per class, its cost chosen by cross-validation.

The protocol of Goyal et al., "Scaling and Benchmarking Self-Supervised Visual Representation
Learning" (2019): rows of unit length, positives weighted twice, the bias regularised like a weight,
costs compared by the mean AP of stratified folds, test scores given as interpolated AP.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import AssayWarning, DataError
from assay.evaluate.arrays import some_of
from assay.evaluate.linear_svc import problems_at_once
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
from assay.evaluate.svm_result import LinearModel, SVMResult, grade_models, linear_model
from assay.evaluate.svm_settings import IgnoreLabel, SVMSettings
from assay.evaluate.svm_store import SVMStore, TrainingRecord
from assay.evaluate.svm_training import (
    ClassModels,
    check_classes,
    choose_costs,
    fits_per_class,
    train_classes,
)
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
        num_workers: processes that train; None takes as many as are worth it.

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
    ) -> None:
        self.config = config
        self.layer = layer
        self.settings = SVMSettings.from_config(config, ignore_label=ignore_label)
        self.num_workers = num_workers
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
        record = self._trained_record()
        if cls_num not in record.class_ids:
            raise DataError(f"class {cls_num} is not trained: {some_of(record.class_ids, 20)} are.")
        model = linear_model(self._load_class(record, cls_num), cost)
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
        columns = {class_id: data.labels.column(class_id) for class_id in wanted}
        check_classes(columns, self.settings)
        self._store.forget_results()
        fingerprints = data.record.fingerprint_of
        todo = [
            class_id
            for class_id in wanted
            if self.settings.force_retrain
            or self._store.load_class(class_id, fingerprints[class_id]) is None
        ]
        per_class = fits_per_class(self.settings)
        if progress is not None and len(todo) < len(wanted):
            progress((len(wanted) - len(todo)) * per_class)
        for batch in _batches(todo, max(1, problems_at_once(self.num_workers) // per_class)):
            for models in train_classes(
                data.features,
                {class_id: columns[class_id] for class_id in batch},
                self.settings,
                num_workers=self.num_workers,
                progress=progress,
            ):
                self._store.save_class(models, fingerprints[models.class_id])
        self._publish(data.record, wanted)

    def _publish(self, record: TrainingRecord, wanted: tuple[int, ...]) -> None:
        """Write the results over all classes of ``record`` that are trained by now."""
        trained = {
            class_id: models
            for class_id, fingerprint in record.fingerprint_of.items()
            if (models := self._store.load_class(class_id, fingerprint)) is not None
        }
        self._store.save_training(
            record.subset(trained), np.stack([each.crossval_ap for each in trained.values()])
        )
        self._warn_unconverged([trained[class_id] for class_id in wanted])

    def _test(self, features: Any, targets: Any) -> SVMResult:
        record = self._trained_record()
        missing = sorted(set(self.settings.cls_list or record.label_ids) - set(record.class_ids))
        if missing:
            raise DataError(
                f"classes {some_of(missing, 20)} are not trained: train them, or list those to "
                f"test in cls_list."
            )
        prepared, columns = read_test_data(features, targets, record)
        result = grade_models(
            self.layer,
            [self._load_class(record, class_id) for class_id in record.class_ids],
            self.get_best_cost_value(),
            prepared,
            columns,
        )
        self._store.save_array("test_ap.npy", result.test_ap[:, np.newaxis])
        self._tell(result)
        return result

    def _trained_record(self) -> TrainingRecord:
        record = self._store.record()
        if record is None:
            raise DataError(f"{self.folder} holds no training that came to its end: train first.")
        check_settings(record, self.settings, self.folder)
        return record

    def _load_class(self, record: TrainingRecord, class_id: int) -> ClassModels:
        models = self._store.load_class(class_id, record.fingerprint_of[class_id])
        if models is None:
            raise DataError(
                f"{self.folder} has lost the models of class {class_id}, or they are of another "
                f"training: train again; classes that are whole will be taken over."
            )
        return models

    def _warn_unconverged(self, trained: list[ClassModels]) -> None:
        unconverged = sum(each.num_unconverged for each in trained)
        if unconverged:
            warnings.warn(
                f"layer {self.layer}: {unconverged} of {sum(each.num_fits for each in trained)} "
                f"SVM fits stopped at max_iter={self.settings.max_iter} before they converged; "
                f"their APs may be off. Raise max_iter, or leave the highest costs out.",
                AssayWarning,
                stacklevel=5,
            )

    def _tell(self, result: SVMResult) -> None:
        for class_id, ap in zip(result.class_ids, result.test_ap, strict=True):
            _LOG.info("layer %s, class %d: AP %.4f", self.layer, class_id, ap)
        defined = len(result.class_ids) - result.num_undefined
        _LOG.info("layer %s: mean AP %.4f over %d classes", self.layer, result.mean_ap, defined)
        if result.num_undefined:
            places = np.flatnonzero(np.isnan(result.test_ap))
            names = some_of([result.class_ids[place] for place in places], 20)
            warnings.warn(
                f"layer {self.layer}: {result.num_undefined} of {len(result.class_ids)} classes "
                f"have no positive test row ({names}): their AP is NaN, and the mean is over the "
                f"other {defined}.",
                AssayWarning,
                stacklevel=4,
            )


def _batches(items: list[int], size: int) -> Iterable[list[int]]:
    return (items[start : start + size] for start in range(0, len(items), size))
