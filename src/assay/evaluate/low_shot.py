"""Linear SVMs on few images a class: mean AP against the number of positives.

The low-shot protocol of Goyal et al., "Scaling and Benchmarking Self-Supervised Visual
Representation Learning" (2019), on frozen features.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import AssayWarning, DataError
from assay.evaluate.arrays import some_of
from assay.evaluate.low_shot_data import (
    TestRows,
    aps_at_every_cost,
    read_low_shot_sample,
    read_test_rows,
)
from assay.evaluate.low_shot_result import (
    LowShotPoint,
    LowShotResult,
    mean_over_classes,
    summarise_low_shot,
)
from assay.evaluate.low_shot_samples import LowShotSample, draw_low_shot_sample
from assay.evaluate.low_shot_settings import LowShotSettings
from assay.evaluate.low_shot_store import STATISTICS, LowShotStore, TestedSample, common_classes
from assay.evaluate.svm import SVMTrainer
from assay.evaluate.svm_data import LabelledFeatures, check_lengths, select_classes
from assay.evaluate.svm_features import read_features
from assay.evaluate.svm_result import LinearModel, linear_model, undefined_message
from assay.evaluate.svm_store import SVMStore, TrainingRecord
from assay.evaluate.svm_stored_training import load_trained_class, train_stored, trained_record
from assay.evaluate.svm_training import ClassModels
from assay.evaluate.targets import read_targets

__all__ = [
    "LowShotPoint",
    "LowShotResult",
    "LowShotSample",
    "SVMLowShotTrainer",
    "draw_low_shot_sample",
]

_LOG = logging.getLogger(__name__)


class SVMLowShotTrainer(SVMTrainer):
    """Trains and tests SVMs on small samples of a training set, and sums the samples up.

    ``SVM.low_shot.dataset_name`` says what targets are: ``voc`` and ``voc07`` have one column a
    class, (N, L) of {1, 0, -1}; names that start with ``places`` have one class id a row, (N,) or
    (N, 1), any ids from 0 up. A training row labelled -1 for a class is not in that class's
    sample and is left out; a test row labelled -1 never counts.

    Results stand in ``{output_dir}/{layer}``; :mod:`assay.evaluate.low_shot_store` says in which
    files. A class that an earlier run trained on the same rows, labels and settings is taken over.

    Args:
        config: the section ``SVM`` of the settings, as for :class:`SVMTrainer`.
        layer: names the folder of the results.
        output_dir: where the folder goes.
        cross_validate: whether costs are also compared by cross-validation, in samples of which
            every class has at least ``cross_val_folds`` positives; there it takes
            ``cross_val_folds`` times as many fits again.
        num_workers: cores that train; None takes as many as are worth it.
        device: where SVMs are solved, such as "cuda", if their loss and penalty permit.

    Raises:
        ConfigError: settings that cannot be used, a ``dataset_name`` that is not known among them.
        OutputError: the folder cannot be made.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        layer: str,
        output_dir: str | Path,
        *,
        cross_validate: bool = True,
        num_workers: int | None = None,
        device: str = "cpu",
    ) -> None:
        super().__init__(
            config, layer, output_dir, ignore_label="drop", num_workers=num_workers, device=device
        )
        self.low_shot = LowShotSettings.from_config(config.get("low_shot", {}))
        self.cross_validate = cross_validate
        self._samples = LowShotStore(self.folder)

    def train(  # type: ignore[override]  # the published trainer takes two arguments more here
        self,
        features: Any,
        targets: Any,
        sample_num: int,
        low_shot_kvalue: int,
        *,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Train every class at every cost on one sample.

        Rows that are labelled -1 for every class are left out before anything else, so that a
        sample may come as its own rows or as the labels of the full set.

        Args:
            features: (N, D).
            targets: N labels in the form that ``dataset_name`` says, such as a
                :class:`LowShotSample` has.
            sample_num: the sample's number, at least 0.
            low_shot_kvalue: its positives a class; it names the results and is not checked.
            progress: called with the number of SVMs newly done.

        Raises:
            DataError: features or labels that cannot be used, e.g. a class without a positive.
            ConfigError: ``cls_list`` names a class that the labels lack, or a number out of range.
            OutputError: a result cannot be written.
        """
        _check_numbers((sample_num,), (low_shot_kvalue,))
        self._train_sample(features, targets, (sample_num, low_shot_kvalue), progress)

    def test(  # type: ignore[override]  # the published trainer takes two arguments more here
        self, features: Any, targets: Any, sample_num: int, low_shot_kvalue: int
    ) -> NDArray[np.float64]:
        """(1, K) the mean interpolated AP over classes at each cost, 0..1, of one sample's SVMs.

        Writes it as ``test_ap_sample{S}_k{K}.npy``. A class without a positive test row has no AP;
        the mean is over the others, and a warning names it.

        Args:
            features: (N, D), of the layer that was trained on.
            targets: N labels in the form of those that were trained on.
            sample_num, low_shot_kvalue: which training.

        Raises:
            DataError: that sample is not trained, or data that does not fit what was trained.
            OutputError: a result cannot be written.
        """
        _check_numbers((sample_num,), (low_shot_kvalue,))
        _, record = self._trained(sample_num, low_shot_kvalue)
        rows = read_test_rows(features, targets, record)
        numbers = (sample_num, low_shot_kvalue)
        return self._test_sample(rows, numbers, self._load_models(numbers))

    def aggregate_stats(
        self, k_values: Sequence[int], sample_inds: Sequence[int]
    ) -> dict[str, dict[str, float]]:
        """Sum the samples up: ``{"k=1": {"mean": 31.42, "max": ..., "min": ..., "std": ...}}``.

        In percent with two decimals, over the samples, at one cost for each k; the deviation is the
        population's. The cost is chosen as published: it has the highest mean test AP over the
        samples, **so the choice has looked at the test data**; ``cost`` says which. Beside it,
        ``crossval_mean`` and ``crossval_std`` are free of that: each sample's cost is chosen by
        its own cross-validation. They are missing where k permits none.

        Writes ``test_ap_{mean,max,min,std}.npy``, (k values, costs) in 0..1.

        Raises:
            ConfigError: a list is empty, or names a number twice or one out of range.
            DataError: a sample is not trained or not tested, or the samples were trained on other
                classes or settings or tested on other rows than each other.
            OutputError: a result cannot be written.
        """
        points = self.aggregate(k_values, sample_inds).points
        return {f"k={point.low_shot_kvalue}": point.percent() for point in points}

    def aggregate(self, k_values: Sequence[int], sample_inds: Sequence[int]) -> LowShotResult:
        """As :meth:`aggregate_stats`, with all there is to know."""
        _check_numbers(sample_inds, k_values)
        tested: dict[tuple[int, int], tuple[TrainingRecord, TestedSample]] = {}
        for kvalue in k_values:
            for sample_num in sample_inds:
                _, record = self._trained(sample_num, kvalue)
                tested[kvalue, sample_num] = (
                    record,
                    self._samples.load_test(sample_num, kvalue, record),
                )
        class_ids = common_classes(tested)
        shape = (len(k_values), len(sample_inds), len(class_ids), len(self.settings.costs))
        result = summarise_low_shot(
            self.layer,
            class_ids,
            np.array(self.settings.costs),
            tuple(k_values),
            tuple(sample_inds),
            np.stack([each.test_ap for _, each in tested.values()]).reshape(shape),
            np.stack([each.crossval_ap for _, each in tested.values()]).reshape(shape),
        )
        for statistic in STATISTICS:
            matrix = getattr(result.mean_ap, statistic)(axis=1)
            self._samples.save_statistic(statistic, matrix)
        return result

    def sweep(
        self,
        train: LabelledFeatures,
        test: LabelledFeatures,
        *,
        seed: int = 0,
        progress: Callable[[int], None] | None = None,
    ) -> LowShotResult:
        """Draw, train, test and sum up all samples and k values of the settings.

        Args:
            train: the full training set, of which :func:`draw_low_shot_sample` takes the samples.
            test: the test set.
            seed: of the drawing.
            progress: called with 1 after each of the samples x k values trainings.

        Raises:
            DataError, ConfigError, OutputError: as of drawing, training and testing.
        """
        features = read_features(train.features, name="training features")
        labels = read_targets(train.targets, name="training targets")
        check_lengths(features, labels, "training features and targets")
        wanted = select_classes(labels, self.settings)
        # One class id a row: images of the other classes are the negatives, whatever is wanted.
        class_ids = wanted if labels.multi_label else None
        # All before the first training: a class with too few images is told at once.
        samples = [
            draw_low_shot_sample(labels.values, number, kvalue, class_ids=class_ids, seed=seed)
            for number in self.low_shot.sample_inds
            for kvalue in self.low_shot.k_values
        ]
        rows = None
        for sample in samples:
            numbers = (sample.sample_num, sample.low_shot_kvalue)
            models = self._train_sample(
                features[sample.rows], sample.targets, numbers, progress=None
            )
            # Once: all samples have the same classes.
            rows = rows or read_test_rows(test.features, test.targets, self._trained(*numbers)[1])
            self._test_sample(rows, numbers, models)
            if progress is not None:
                progress(1)
        return self.aggregate(self.low_shot.k_values, self.low_shot.sample_inds)

    def load_low_shot_model(
        self, cls_num: int, cost: float, sample_num: int, low_shot_kvalue: int
    ) -> LinearModel:
        """The SVM of one class at one cost, trained on one sample.

        Raises:
            DataError: it is not there, or was trained with other settings.
        """
        store, record = self._trained(sample_num, low_shot_kvalue)
        if cls_num not in record.class_ids:
            raise DataError(f"class {cls_num} is not trained: {some_of(record.class_ids, 20)} are.")
        model = linear_model(load_trained_class(store, record, cls_num), cost)
        if model is None:
            raise DataError(f"no SVM was trained at cost {cost:g}: there are {self.costs_list}.")
        return model

    def _train_sample(
        self,
        features: Any,
        targets: Any,
        numbers: tuple[int, int],
        progress: Callable[[int], None] | None,
    ) -> list[ClassModels]:
        """Train one sample, or take it over; its models by class."""
        data, settings = read_low_shot_sample(
            features, targets, self.settings, self.low_shot, cross_validate=self.cross_validate
        )
        self._samples.forget_tests(*numbers)
        trained = train_stored(
            self._samples.of_sample(*numbers),
            data,
            data.record.class_ids,
            settings,
            title=f"layer {self.layer}, sample {numbers[0]}, k = {numbers[1]}",
            workers=self.workers,
            progress=progress,
        )
        return list(trained.values())

    def _load_models(self, numbers: tuple[int, int]) -> list[ClassModels]:
        store, record = self._trained(*numbers)
        return [load_trained_class(store, record, each) for each in record.class_ids]

    def _test_sample(
        self, rows: TestRows, numbers: tuple[int, int], models: Sequence[ClassModels]
    ) -> NDArray[np.float64]:
        _, record = self._trained(*numbers)
        test_ap = aps_at_every_cost(models, rows)
        message = undefined_message(f"layer {self.layer}", record.class_ids, test_ap[:, 0])
        if message is not None:
            warnings.warn(message, AssayWarning, stacklevel=3)
        mean_ap = mean_over_classes(test_ap, axis=0)[np.newaxis]
        self._samples.save_test(*numbers, record, test_ap, mean_ap, rows.digest)
        _LOG.info(
            "layer %s, sample %d, k = %d: mean AP %s at costs %s",
            *(self.layer, *numbers, np.round(mean_ap[0], 4).tolist(), self.costs_list),
        )
        return mean_ap

    def _trained(self, sample_num: int, kvalue: int) -> tuple[SVMStore, TrainingRecord]:
        """The training of one sample, by the present settings."""
        if not self._samples.sample_folder(sample_num, kvalue).is_dir():
            raise DataError(
                f"sample {sample_num} at k = {kvalue} is not trained in {self.folder}: train it."
            )
        store = self._samples.of_sample(sample_num, kvalue)
        # Folds change nothing about the models, and are none where k does not permit them.
        record = store.record()
        no_folds = record is not None and record.settings.get("cross_val_folds") == 0
        folds = 0 if no_folds else self.settings.cross_val_folds
        return store, trained_record(store, replace(self.settings, cross_val_folds=folds))


def _check_numbers(sample_inds: Sequence[int], k_values: Sequence[int]) -> None:
    # The settings' own rules, so that what a file may say a call may say too.
    LowShotSettings.from_config({"sample_inds": sample_inds, "k_values": k_values})
