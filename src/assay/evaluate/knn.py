"""Weighted nearest neighbours on frozen features: how well classes lie together, nothing trained.

As in DINO (Caron et al., "Emerging Properties in Self-Supervised Vision Transformers", 2021) and
DINOv2, after Wu et al., "Unsupervised Feature Learning via Non-Parametric Instance Discrimination"
(2018): the k training rows of highest cosine vote for their classes, each with the weight
``exp(cosine / temperature)``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import AssayWarning, DataError
from assay.evaluate.arrays import as_numpy, some_of
from assay.evaluate.knn_search import Neighbours, find_neighbours
from assay.evaluate.knn_settings import KNNSettings
from assay.evaluate.knn_votes import average_precisions, count_votes, vote_shares, vote_weights
from assay.evaluate.metrics import mean_average_precision
from assay.evaluate.svm_data import LabelledFeatures, check_lengths
from assay.evaluate.svm_features import read_features
from assay.evaluate.svm_result import undefined_message
from assay.evaluate.targets import LabelTable, read_targets

__all__ = ["KNNAccuracy", "KNNMeanAP", "KNNSettings", "evaluate_knn"]


@dataclass(frozen=True)
class KNNAccuracy:
    """How often the neighbours' vote is right, for V values of k; of one class id a row."""

    k_values: tuple[int, ...]  # V
    class_ids: tuple[int, ...]  # C classes of the training rows
    rows: NDArray[np.int64]  # (N,) test rows that count: those not labelled -1
    predictions: NDArray[np.int64]  # (V, N) class ids
    top1_hits: NDArray[np.bool_]  # (V, N) the class with the most votes is the row's
    top5_hits: NDArray[np.bool_]  # (V, N) the row's class has votes and is among the first five

    @property
    def top1(self) -> NDArray[np.float64]:
        """(V,) in 0..1."""
        return np.asarray(self.top1_hits.mean(axis=1))

    @property
    def top5(self) -> NDArray[np.float64]:
        """(V,) in 0..1."""
        return np.asarray(self.top5_hits.mean(axis=1))


@dataclass(frozen=True)
class KNNMeanAP:
    """How well the neighbours' vote ranks images, for V values of k; of one column a class."""

    k_values: tuple[int, ...]  # V
    class_ids: tuple[int, ...]  # C classes, those of the columns
    scores: NDArray[np.float64]  # (V, N, C) share of the votes that are for the class, 0..1
    targets: NDArray[np.int8]  # (N, C) of {1, 0, -1}; -1 = ignored
    test_ap: NDArray[np.float64]  # (V, C) interpolated AP in 0..1; NaN: no positive test row

    @property
    def mean_ap(self) -> NDArray[np.float64]:
        """(V,) over the classes whose AP is defined; NaN if there is none."""
        return np.array([mean_average_precision(aps).value for aps in self.test_ap])

    @property
    def num_undefined(self) -> int:
        """Classes whose AP is NaN."""
        return int(np.isnan(self.test_ap[0]).sum())


def evaluate_knn(
    train: LabelledFeatures,
    test: LabelledFeatures,
    settings: KNNSettings | None = None,
    *,
    train_ids: Any = None,
    test_ids: Any = None,
    device: str | None = None,
    query_chunk: int = 2048,
    database_chunk: int = 4096,
    progress: Callable[[int], None] | None = None,
) -> KNNAccuracy | KNNMeanAP:
    """Let each test row's nearest training rows vote.

    Similarities are exact (:mod:`assay.evaluate.knn_search` says how), so the answer depends on
    neither chunks nor device. Equally similar rows rank by their index, classes of equal votes by
    their id. Memory is that of one chunk of each beside the results.

    With one class id a row, rows labelled -1 are left out on both sides. With one column a class, a
    training row labelled -1 casts no vote for or against that class, and a test row labelled -1
    does not count for it.

    Args:
        train: the rows that vote.
        test: the rows that are classified; the same rows as ``train`` are fine, with ids.
        settings: k values, temperature and similarity; None takes those of DINO.
        train_ids, test_ids: (M,) and (N,) names or numbers of the images that the rows are of; a
            row has no vote on a row of its own id, wherever it ranks. Give both or neither.
        device: None computes in numpy; a torch device such as "cuda" computes there.
        query_chunk, database_chunk: rows that are compared at a time.
        progress: called with the number of test rows newly done.

    Returns:
        :class:`KNNAccuracy` for one class id a row, :class:`KNNMeanAP` for one column a class.

    Raises:
        DataError: features that are not finite, or labels, ids and features that do not fit.
        ConfigError: a k is larger than the number of rows that may vote.

    Warns:
        AssayWarning: rows of zeros, whose cosine with all rows is 0; classes without a positive
            test row, or with test rows alone.
    """
    chosen = settings or KNNSettings()
    database, queries = _read(train, "training"), _read(test, "test")
    if database.features.shape[1] != queries.features.shape[1]:
        raise DataError(
            f"test features have {queries.features.shape[1]} columns but training features "
            f"{database.features.shape[1]}: extract both from the same layer."
        )
    several_labels = _columns_agree(database.labels, queries.labels)
    _warn_of_unknown_classes(database.labels, queries.labels)
    if chosen.l2_norm:
        _warn_of_zeros(database.features, "training")
        _warn_of_zeros(queries.features, "test")
    query_ids, database_ids = _codes(test_ids, train_ids, queries, database)
    blocks = find_neighbours(
        queries.features,
        database.features,
        max(chosen.k_values),
        l2_norm=chosen.l2_norm,
        query_ids=query_ids,
        database_ids=database_ids,
        query_chunk=query_chunk,
        database_chunk=database_chunk,
        device=device,
    )
    grade = _mean_ap if several_labels else _accuracy
    return grade(blocks, database, queries, chosen, progress)


@dataclass(frozen=True)
class _Rows:
    """The rows of one side that take part."""

    features: NDArray[Any]  # (n, D)
    labels: LabelTable  # of these n rows
    places: NDArray[np.int64]  # (n,) which of the caller's rows they are
    total: int  # of the caller's


def _read(side: LabelledFeatures, name: str) -> _Rows:
    features = read_features(side.features, name=f"{name} features")
    labels = read_targets(side.targets, name=f"{name} targets")
    check_lengths(features, labels, f"{name} features and targets")
    everything = np.arange(len(features))
    if labels.multi_label or (labels.values != -1).all():
        return _Rows(features, labels, everything, len(features))
    kept = np.flatnonzero(labels.values != -1)
    if not len(kept):
        raise DataError(f"all {name} rows are labelled -1 (ignored): there is nothing to compare.")
    return _Rows(
        features[kept],
        LabelTable(labels.values[kept], labels.class_ids, multi_label=False),
        kept,
        len(features),
    )


def _columns_agree(train: LabelTable, test: LabelTable) -> bool:
    """Whether both have one column a class; refuses targets of two forms."""
    if train.multi_label != test.multi_label or (
        train.multi_label and train.class_ids != test.class_ids
    ):
        raise DataError(
            f"training targets have the shape {train.values.shape} and test targets "
            f"{test.values.shape}: give one class id a row in both, or the same columns in both."
        )
    return train.multi_label


def _warn_of_unknown_classes(train: LabelTable, test: LabelTable) -> None:
    unknown = sorted(set(test.class_ids) - set(train.class_ids))
    if unknown:
        warnings.warn(
            f"test targets name {len(unknown)} classes that no training row shows "
            f"({some_of(unknown)}): their rows count as misses.",
            AssayWarning,
            stacklevel=3,
        )


def _warn_of_zeros(features: NDArray[Any], name: str) -> None:
    zeros = np.flatnonzero(~features.any(axis=1))
    if len(zeros):
        warnings.warn(
            f"{len(zeros)} of {len(features)} {name} rows are all zeros (rows {some_of(zeros)}): "
            f"they are equally near to every row, and among equals the lowest index is taken.",
            AssayWarning,
            stacklevel=3,
        )


def _codes(
    test_ids: Any, train_ids: Any, queries: _Rows, database: _Rows
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
    """The ids of both sides as numbers that are equal where the ids are."""
    if test_ids is None and train_ids is None:
        return None, None
    if test_ids is None or train_ids is None:
        raise DataError(
            "ids were given for one side alone: give train_ids and test_ids, or neither."
        )
    own, theirs = as_numpy(test_ids), as_numpy(train_ids)
    for ids, rows, name in ((own, queries, "test_ids"), (theirs, database, "train_ids")):
        if ids.shape != (rows.total,):
            raise DataError(f"{name} have the shape {ids.shape}: give {rows.total}, one a row.")
    if own.dtype.kind != theirs.dtype.kind and not {own.dtype.kind, theirs.dtype.kind} <= {*"iu"}:
        raise DataError(
            f"test_ids hold {own.dtype} but train_ids {theirs.dtype}: give both in one type."
        )
    codes = np.unique(np.concatenate([own, theirs]), return_inverse=True)[1].reshape(-1)
    return codes[: len(own)][queries.places], codes[len(own) :][database.places]


def _accuracy(
    blocks: Iterator[Neighbours],
    database: _Rows,
    queries: _Rows,
    settings: KNNSettings,
    progress: Callable[[int], None] | None,
) -> KNNAccuracy:
    class_ids = np.array(database.labels.class_ids)
    votes_for = np.searchsorted(class_ids, database.labels.values)
    wanted = queries.labels.values
    shape = (len(settings.k_values), len(queries.features))
    predictions = np.empty(shape, np.int64)
    top1, top5 = np.empty(shape, np.bool_), np.empty(shape, np.bool_)
    for block in blocks:
        part = slice(block.start, block.start + len(block.indices))
        weights = vote_weights(block.similarities, settings.temperature)
        for place, k in enumerate(settings.k_values):
            votes = count_votes(votes_for[block.indices[:, :k]], weights[:, :k], len(class_ids))
            first = np.argsort(-votes, axis=1, kind="stable")[:, :5]
            right = class_ids[first] == wanted[part, np.newaxis]
            right &= np.take_along_axis(votes, first, axis=1) > 0
            predictions[place, part] = class_ids[first[:, 0]]
            top1[place, part], top5[place, part] = right[:, 0], right.any(axis=1)
        if progress is not None:
            progress(len(block.indices))
    return KNNAccuracy(
        settings.k_values,
        database.labels.class_ids,
        queries.places,
        predictions,
        top1,
        top5,
    )


def _mean_ap(
    blocks: Iterator[Neighbours],
    database: _Rows,
    queries: _Rows,
    settings: KNNSettings,
    progress: Callable[[int], None] | None,
) -> KNNMeanAP:
    class_ids = database.labels.class_ids
    labels = database.labels.columns(class_ids)
    targets = queries.labels.columns(class_ids)
    scores = np.empty((len(settings.k_values), len(targets), len(class_ids)))
    for block in blocks:
        part = slice(block.start, block.start + len(block.indices))
        weights = vote_weights(block.similarities, settings.temperature)
        for place, k in enumerate(settings.k_values):
            scores[place, part] = vote_shares(labels, block.indices[:, :k], weights[:, :k])
        if progress is not None:
            progress(len(block.indices))
    test_ap = np.array([average_precisions(targets, each) for each in scores])
    message = undefined_message("nearest neighbours", class_ids, test_ap[0])
    if message is not None:
        warnings.warn(message, AssayWarning, stacklevel=3)
    return KNNMeanAP(settings.k_values, class_ids, scores, targets, test_ap)
