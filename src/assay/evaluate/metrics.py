"""Average precision of ranked scores, each convention under its own name.

Two conventions are in use, and they differ in the second or third decimal:

* **interpolated** (Pascal VOC from 2010 on, "all points"): the area under the precision envelope,
  in which the precision at a recall is the best that any higher recall still reaches.
  :func:`calculate_ap` and :func:`get_precision_recall`; test scores of SVMs are given in it.
* **step** (Manning et al., Introduction to Information Retrieval; scikit-learn): the precision at
  each threshold weighted by the recall gained there, without an envelope.
  :func:`average_precision`; cross-validation compares costs in it.

Everything is computed in float64. Samples of one score pass one threshold together, so that no
result depends on the order of the samples.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import AssayWarning, MetricError
from assay.evaluate.arrays import as_numpy, some_of

__all__ = [
    "MeanAP",
    "PrecisionRecall",
    "average_precision",
    "calculate_ap",
    "get_precision_recall",
    "mean_average_precision",
    "precision_recall",
]

# Recall and precision may leave 0..1 by this much, as those computed in float32 do.
_ROUNDING = 1e-5


@dataclass(frozen=True)
class PrecisionRecall:
    """Precision and recall at each of the M distinct scores, highest first."""

    precision: NDArray[np.float64]  # (M,) in 0..1
    recall: NDArray[np.float64]  # (M,) in 0..1, rising to 1; NaN if there is no positive
    thresholds: NDArray[np.float64]  # (M,) strictly falling; "score >= threshold" is retrieved
    num_positives: int  # samples that count and are positive
    num_samples: int  # samples that count

    @property
    def interpolated_ap(self) -> float:
        """Area under the precision envelope, 0..1; NaN if there is no positive."""
        return calculate_ap(self.recall, self.precision) if self.num_positives else float("nan")

    @property
    def step_ap(self) -> float:
        """Sum of precision times the recall gained, 0..1; NaN if there is no positive."""
        if not self.num_positives:
            return float("nan")
        return _area_of_steps(self.recall, self.precision)


@dataclass(frozen=True)
class MeanAP:
    """The mean over the classes whose AP is defined."""

    value: float  # NaN if no class has a defined AP
    num_defined: int
    num_undefined: int  # classes whose AP is NaN


def precision_recall(targets: Any, scores: Any, weights: Any = None) -> PrecisionRecall:
    """Precision and recall of ranking by ``scores``, at each distinct score.

    Args:
        targets: (N,) numbers; a sample is positive if its number is above 0.
        scores: (N,) numbers; infinities are scores like any other.
        weights: (N,) of 0 and 1, or None for all 1; samples of weight 0 are left out.

    Raises:
        MetricError: the lengths differ, a score or target is NaN, a weight is neither 0 nor 1.
    """
    positive, scores_kept = _counted_samples(targets, scores, weights)
    order = np.argsort(-scores_kept)
    ranked = scores_kept[order]
    # The last sample of each run of equal scores: there the whole run has been retrieved.
    ends = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True)[: len(ranked)])
    hits = np.cumsum(positive[order], dtype=np.int64)[ends]
    num_positives = int(positive.sum())
    recall = hits / num_positives if num_positives else np.full(len(ends), np.nan)
    return PrecisionRecall(
        precision=hits / (ends + 1),
        recall=recall,
        thresholds=ranked[ends],
        num_positives=num_positives,
        num_samples=len(ranked),
    )


def get_precision_recall(
    targets: Any, scores: Any, weights: Any = None
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float]:
    """Precision, recall, the score at which they hold, and the interpolated AP.

    Args:
        targets: (N,) how often the class occurs in each image; above 0 is positive.
        scores: (N,) score of each image; lists, tensors, integers and half precision will do.
        weights: (N,) of 0 and 1, where 0 leaves the image out; None counts all.

    Returns:
        ``(P, R, score, ap)``: three float64 arrays (M,), one entry for each distinct score from the
        highest down, and a float. Without a positive, R and ap are NaN and an
        :class:`~assay.errors.AssayWarning` says so.

    Raises:
        MetricError: the lengths differ, a score or target is NaN, a weight is neither 0 nor 1.

    >>> P, R, score, ap = get_precision_recall([1, 0, 1], [0.9, 0.8, 0.7])
    >>> R.tolist(), score.tolist(), round(ap, 4)
    ([0.5, 0.5, 1.0], [0.9, 0.8, 0.7], 0.8333)
    """
    curve = precision_recall(targets, scores, weights)
    _warn_if_undefined(curve)
    return curve.precision, curve.recall, curve.thresholds, curve.interpolated_ap


def calculate_ap(rec: Any, prec: Any) -> float:
    """The interpolated AP: the area under the envelope of a precision-recall curve.

    Pascal VOC's measure from 2010 on, over all points. The curve is continued by the precision of
    its first point down to recall 0 and by precision 0 up to recall 1.

    Args:
        rec: (M,) recall in 0..1, never falling.
        prec: (M,) precision in 0..1 at each recall.

    Returns:
        The area in 0..1.

    Raises:
        MetricError: the curve is empty, its lengths differ, a value is NaN or outside 0..1, or
            recall falls somewhere.

    >>> calculate_ap([0.5, 0.5, 1.0], [1.0, 0.5, 0.75])
    0.875
    """
    recall, precision = _vector(rec, "rec"), _vector(prec, "prec")
    if len(recall) != len(precision):
        raise MetricError(
            f"rec has {len(recall)} values but prec has {len(precision)}: give one of each per "
            f"threshold."
        )
    if not len(recall):
        raise MetricError("rec and prec are empty: a curve has at least one point.")
    for values, name in ((recall, "rec"), (precision, "prec")):
        _refuse_nan(values, name)
        outside = np.flatnonzero((values < -_ROUNDING) | (values > 1 + _ROUNDING))
        if len(outside):
            raise MetricError(
                f"{name} is outside 0..1 at {some_of(outside)} (there {values[outside[0]]:g}): "
                f"give fractions, not percent."
            )
    falls = np.flatnonzero(np.diff(recall) < 0)
    if len(falls):
        raise MetricError(
            f"rec falls after {some_of(falls)}: sort the curve from the highest score down."
        )
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    return _area_of_steps(recall, envelope)


def average_precision(targets: Any, scores: Any, weights: Any = None) -> float:
    """The step AP, as scikit-learn's ``average_precision_score`` defines it.

    The sum over thresholds of precision times the recall gained; arguments and errors as for
    :func:`get_precision_recall`. NaN with an :class:`~assay.errors.AssayWarning` where no sample is
    positive (scikit-learn gives 0 there).

    >>> average_precision([1, 0, 1], [0.9, 0.8, 0.7])
    0.8333333333333333
    """
    curve = precision_recall(targets, scores, weights)
    _warn_if_undefined(curve)
    return curve.step_ap


def mean_average_precision(aps: Any) -> MeanAP:
    """The mean of the classes' APs; classes without one (NaN) are left out and counted.

    Args:
        aps: (C,) or (C, 1).

    Raises:
        MetricError: there is no class.

    >>> mean_average_precision([0.5, float("nan"), 1.0])
    MeanAP(value=0.75, num_defined=2, num_undefined=1)
    """
    values = _vector(aps, "aps")
    if not len(values):
        raise MetricError("aps is empty: a mean needs at least one class.")
    defined = values[~np.isnan(values)]
    return MeanAP(
        value=float(defined.mean()) if len(defined) else float("nan"),
        num_defined=len(defined),
        num_undefined=len(values) - len(defined),
    )


def _area_of_steps(recall: NDArray[np.float64], heights: NDArray[np.float64]) -> float:
    """Sum over i of ``(recall[i] - recall[i - 1]) * heights[i]``; recall starts at 0."""
    gains = np.flatnonzero(np.diff(recall, prepend=0.0) > 0)
    # Summed by parts: what a perfect ranking then adds up is 1 exactly, not 1 less some rounding.
    drops = -np.diff(heights[gains], append=0.0)
    return min(1.0, float(np.sum(recall[gains] * drops)))


def _counted_samples(
    targets: Any, scores: Any, weights: Any
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which samples are positive, and their scores, of those whose weight is 1."""
    labels, values = _vector(targets, "targets"), _vector(scores, "scores")
    if len(labels) != len(values):
        raise MetricError(
            f"there are {len(labels)} targets but {len(values)} scores: give one of each per image."
        )
    _refuse_nan(labels, "targets")
    _refuse_nan(values, "scores")
    # -0.0 equals 0.0; adding 0.0 gives both one sign, so that the thresholds too keep to no order.
    values = values + 0.0
    if weights is None:
        return labels > 0, values
    counts = _vector(weights, "weights")
    if len(counts) != len(values):
        raise MetricError(
            f"there are {len(counts)} weights but {len(values)} scores: give one of each per image."
        )
    strange = np.flatnonzero((counts != 0) & (counts != 1))
    if len(strange):
        raise MetricError(
            f"weights are neither 0 nor 1 at {some_of(strange)} (there {counts[strange[0]]:g}): "
            f"give 1 to count an image, 0 to ignore it."
        )
    return labels[counts == 1] > 0, values[counts == 1]


def _vector(values: Any, name: str) -> NDArray[np.float64]:
    """``values`` (N,) or (N, 1) as float64 (N,)."""
    try:
        array = as_numpy(values)
    except (TypeError, ValueError) as error:
        raise MetricError(f"{name} cannot be read as an array: {error}.") from error
    if array.dtype.kind not in "biuf":
        raise MetricError(f"{name} holds {array.dtype}: give real numbers.")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise MetricError(f"{name} has the shape {array.shape}: give one value per image, (N,).")
    return array.astype(np.float64)


def _refuse_nan(values: NDArray[np.float64], name: str) -> None:
    rows = np.flatnonzero(np.isnan(values))
    if len(rows):
        raise MetricError(
            f"{len(rows)} of {len(values)} values of {name} are NaN (at {some_of(rows)}): NaN has "
            f"no place in a ranking. Find out what computed it."
        )


def _warn_if_undefined(curve: PrecisionRecall) -> None:
    if not curve.num_positives:
        warnings.warn(
            f"none of the {curve.num_samples} samples that count is positive: the average "
            f"precision is undefined (NaN).",
            AssayWarning,
            stacklevel=3,
        )
