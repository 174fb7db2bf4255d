"""Training whose classes stand on disk: those that are missing are trained, the rest taken over."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from assay.errors import AssayWarning, DataError
from assay.evaluate.svm_data import TrainingData, check_settings
from assay.evaluate.svm_fits import ANY_WORKERS, Workers, problems_at_once
from assay.evaluate.svm_settings import SVMSettings
from assay.evaluate.svm_store import SVMStore, TrainingRecord
from assay.evaluate.svm_training import ClassModels, check_classes, fits_per_class, train_classes

__all__ = ["load_trained_class", "train_stored", "trained_record"]


def train_stored(
    store: SVMStore,
    data: TrainingData,
    wanted: tuple[int, ...],
    settings: SVMSettings,
    *,
    title: str,
    workers: Workers = ANY_WORKERS,
    progress: Callable[[int], None] | None = None,
) -> dict[int, ClassModels]:
    """Train the ``wanted`` classes that the store lacks, then write the results over all it has.

    Results of an earlier training or test are removed first; a class is stored as soon as it is
    done. Warns of fits that did not converge.

    Args:
        store: where classes and results go.
        data: what to train on.
        wanted: some or all of the classes of ``data.record``.
        settings: costs, folds, solver; ``force_retrain`` takes nothing over.
        title: what the warning calls the training.
        workers: what solves.
        progress: called with the number of SVMs newly done, taken over or trained.

    Returns:
        The models of all classes of ``data.record`` that the store now has.

    Raises:
        DataError: a class that cannot be trained.
        OutputError: a result cannot be written.
    """
    columns = {class_id: data.labels.column(class_id) for class_id in wanted}
    check_classes(columns, settings)
    store.forget_results()
    fingerprints = data.record.fingerprint_of
    known = {} if settings.force_retrain else _load_classes(store, data.record, wanted)
    todo = [class_id for class_id in wanted if class_id not in known]
    per_class = fits_per_class(settings)
    if progress is not None and known:
        progress(len(known) * per_class)
    at_once = problems_at_once(settings.solver_options, len(settings.costs), workers)
    for batch in _batches(todo, max(1, at_once // per_class)):
        for models in train_classes(
            data.features,
            {class_id: columns[class_id] for class_id in batch},
            settings,
            workers=workers,
            progress=progress,
        ):
            store.save_class(models, fingerprints[models.class_id])
            known[models.class_id] = models
    others = [class_id for class_id in data.record.class_ids if class_id not in known]
    known |= _load_classes(store, data.record, others)
    trained = {class_id: known[class_id] for class_id in data.record.class_ids if class_id in known}
    _publish(store, data.record, trained)
    _warn_unconverged([trained[class_id] for class_id in wanted], settings, title)
    return trained


def trained_record(store: SVMStore, settings: SVMSettings) -> TrainingRecord:
    """The record of the training that the store holds.

    Raises:
        DataError: there is none that came to its end, or it was with other settings.
    """
    record = store.record()
    if record is None:
        raise DataError(f"{store.folder} holds no training that came to its end: train first.")
    check_settings(record, settings, store.folder)
    return record


def load_trained_class(store: SVMStore, record: TrainingRecord, class_id: int) -> ClassModels:
    """The models of one class of ``record``.

    Raises:
        DataError: they are gone, or of another training.
    """
    models = store.load_class(class_id, record.fingerprint_of[class_id])
    if models is None:
        raise DataError(
            f"{store.folder} has lost the models of class {class_id}, or they are of another "
            f"training: train again; classes that are whole will be taken over."
        )
    return models


def _load_classes(
    store: SVMStore, record: TrainingRecord, class_ids: Iterable[int]
) -> dict[int, ClassModels]:
    """Those of ``class_ids`` that the store has as ``record`` wants them."""
    found = {each: store.load_class(each, record.fingerprint_of[each]) for each in class_ids}
    return {class_id: models for class_id, models in found.items() if models is not None}


def _publish(store: SVMStore, record: TrainingRecord, trained: dict[int, ClassModels]) -> None:
    """Write the results over all classes of ``record`` that are trained by now."""
    store.save_training(
        record.subset(trained), np.stack([each.crossval_ap for each in trained.values()])
    )


def _warn_unconverged(trained: list[ClassModels], settings: SVMSettings, title: str) -> None:
    unconverged = sum(each.num_unconverged for each in trained)
    if unconverged:
        warnings.warn(
            f"{title}: {unconverged} of {sum(each.num_fits for each in trained)} SVM fits stopped "
            f"at max_iter={settings.max_iter} before they converged; their APs may be off. Raise "
            f"max_iter (config.SVM.max_iter), or leave the highest costs out.",
            AssayWarning,
            stacklevel=5,
        )


def _batches(items: list[int], size: int) -> Iterator[list[int]]:
    return (items[start : start + size] for start in range(0, len(items), size))
