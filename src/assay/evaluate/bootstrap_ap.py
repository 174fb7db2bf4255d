"""The interpolated AP of many resamples of one ranking at once (pure).

A resample only changes how often each image counts, never their order. So a class is ranked once,
and what its AP is made of, positives and images retrieved down to each positive, are sums of counts
over stretches of that ranking: a product with a sparse matrix of ones. Precision rises at positives
alone, so that its envelope, too, needs to be known there only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay._optional import require

__all__ = ["RankedClass", "rank_classes", "resampled_aps"]


@dataclass(frozen=True)
class RankedClass:
    """The ranking of N images by one class's scores, down to the last positive.

    It is cut into T stretches, each ending with a run of equal scores that holds a positive. Both
    matrices are sparse, (T, N) int32, with a 1 for each image that counts.
    """

    images: Any  # which images are in which stretch
    positives: Any  # which of them are positive


def rank_classes(
    targets: NDArray[np.float64], scores: NDArray[np.float64]
) -> tuple[RankedClass, ...]:
    """The classes that have a positive.

    Args:
        targets: (N, C), above 0 is positive, -1 leaves the image out for that class.
        scores: (N, C) without NaN.
    """
    ranked = (_rank(*columns) for columns in zip(targets.T, scores.T, strict=True))
    return tuple(each for each in ranked if each is not None)


def resampled_aps(ranked: RankedClass, counts: NDArray[np.int32]) -> NDArray[np.float64]:
    """(b,) the AP where image i counts ``counts[i, j]`` times; NaN where no positive counts.

    Args:
        ranked: a class of N images.
        counts: (N, b) at least 0, C-contiguous.
    """
    retrieved = np.cumsum(ranked.images @ counts, axis=0, dtype=np.int32)
    gained = ranked.positives @ counts
    hits = np.cumsum(gained, axis=0, dtype=np.int32)
    precision = np.divide(hits, retrieved, out=np.zeros(hits.shape), where=retrieved > 0)
    envelope = np.maximum.accumulate(precision[::-1], axis=0)[::-1]
    # Summed by parts, as the AP of one ranking is: a perfect one comes to 1 exactly.
    drops = -np.diff(envelope, axis=0, append=0.0)
    # The last of the running sums: a plain sum may add in another order where b is 1.
    areas = np.cumsum(hits * drops, axis=0)[-1]
    totals = hits[-1]
    aps = np.divide(areas, totals, out=np.full(len(totals), np.nan), where=totals > 0)
    return np.asarray(np.minimum(aps, 1.0))


def _rank(targets: NDArray[np.float64], scores: NDArray[np.float64]) -> RankedClass | None:
    counted = np.flatnonzero(targets != -1)
    order = counted[np.argsort(-scores[counted], kind="stable")]
    positive = targets[order] > 0
    if not positive.any():
        return None
    ranked = scores[order]
    run_ends = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))
    hits = np.cumsum(positive)[run_ends]
    with_positive = np.diff(hits, prepend=0) > 0
    ends = np.concatenate([[0], run_ends[with_positive] + 1])
    return RankedClass(
        images=_ones(order[: ends[-1]], ends, len(targets)),
        positives=_ones(order[positive], np.append(0, hits[with_positive]), len(targets)),
    )


def _ones(columns: NDArray[np.int64], row_ends: NDArray[np.int64], num_columns: int) -> Any:
    """Ones at ``columns``, row t's being those from ``row_ends[t]`` to ``row_ends[t + 1]``."""
    sparse = require("scipy.sparse", extra="evaluate", purpose="resample average precisions")
    ones = np.ones(len(columns), np.int32)
    return sparse.csr_array((ones, columns, row_ends), shape=(len(row_ends) - 1, num_columns))
