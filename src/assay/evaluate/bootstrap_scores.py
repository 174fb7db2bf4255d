"""Scores of many resamples of the same images at once (pure)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import MetricError
from assay.evaluate.arrays import as_numpy, some_of
from assay.evaluate.bootstrap_ap import RankedClass, rank_classes, resampled_aps

__all__ = ["MeanAPScore", "MeanScore", "ResampledScore", "one_column"]

# (N, b) how often each of N images occurs in each of b draws -> (b,) the scores, NaN where
# undefined, and in which draws a class is without a positive.
ResampledScore = Callable[[NDArray[np.int32]], tuple[NDArray[np.float64], NDArray[np.bool_]]]


@dataclass(frozen=True)
class MeanScore:
    """The mean over images of one value each."""

    values: NDArray[np.float64]  # (N,)

    def __call__(self, counts: NDArray[np.int32]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        # Draw by draw, not as a product: that would round differently for other numbers of draws.
        sums = np.ascontiguousarray((counts * self.values[:, np.newaxis]).T).sum(axis=1)
        return sums / len(self.values), np.zeros(counts.shape[1], np.bool_)


@dataclass(frozen=True)
class MeanAPScore:
    """The mean over classes of the interpolated AP."""

    num_images: int
    classes: Sequence[RankedClass]  # those that have a positive

    @classmethod
    def of(cls, targets: Any, scores: Any, name: str = "scores") -> MeanAPScore:
        """Rank ``scores`` (N, C) or (N,); ``targets`` likewise, -1 = ignored.

        Raises:
            MetricError: shapes that differ, NaN, or no class with a positive.
        """
        labels, values = _table(targets, "targets"), _table(scores, name)
        if labels.shape != values.shape:
            raise MetricError(
                f"targets have the shape {labels.shape} but {name} {values.shape}: give one of "
                f"each an image and class."
            )
        classes = rank_classes(labels, values)
        if not classes:
            raise MetricError(
                f"no class of the {labels.shape[1]} has a positive among the {len(labels)} images: "
                f"its average precision is undefined."
            )
        return cls(len(labels), classes)

    def __call__(self, counts: NDArray[np.int32]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        sums = np.zeros(counts.shape[1])
        defined = np.zeros(counts.shape[1], np.int64)
        for each in self.classes:
            aps = resampled_aps(each, counts)
            there = ~np.isnan(aps)
            sums[there] += aps[there]
            defined += there
        means = np.divide(sums, defined, out=np.full(len(sums), np.nan), where=defined > 0)
        return means, defined < len(self.classes)


def one_column(values: Any, name: str) -> NDArray[np.float64]:
    """``values`` (N,) or (N, 1) as (N,) float64.

    Raises:
        MetricError: another shape or type, no image, or NaN.
    """
    table = _table(values, name)
    if table.shape[1] != 1:
        raise MetricError(f"{name} have the shape {table.shape}: give one value an image, (N,).")
    return table[:, 0]


def _table(values: Any, name: str) -> NDArray[np.float64]:
    """(N, C) float64 without NaN; (N,) is one column."""
    try:
        array = as_numpy(values)
    except (TypeError, ValueError) as error:
        raise MetricError(f"{name} cannot be read as an array: {error}.") from error
    if array.dtype.kind not in "biuf" or array.ndim not in (1, 2) or 0 in array.shape:
        raise MetricError(
            f"{name} hold {array.dtype} in the shape {array.shape}: give real numbers, (N,) or "
            f"(N, C), for at least one image."
        )
    table = array.reshape(len(array), -1).astype(np.float64)
    rows = np.flatnonzero(np.isnan(table).any(axis=1))
    if len(rows):
        raise MetricError(
            f"{name} are NaN for {len(rows)} of {len(table)} images ({some_of(rows)}): NaN has no "
            f"place in a ranking or a mean. Find out what computed it."
        )
    return table
