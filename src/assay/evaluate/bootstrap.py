"""How far a score could be off: percentile bootstrap over test images (pure).

A score on N test images stands for the same score on other images like them. The bootstrap (Efron,
1979) draws N of the N images with replacement, many times, and takes the score of each draw; the
middle 95 % of these scores is the interval. The models, and with them each image's score, stay as
they are: the interval tells of the choice of test images, not of training. Two models are compared
on the same draws, so that what makes an image hard for both cancels.

Draw number b of a seed is ``np.random.default_rng(seed).integers(0, N, (B, N))[b]``, whatever is
scored; scores of the same images and seed are on the same draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import MetricError
from assay.evaluate.bootstrap_scores import MeanAPScore, MeanScore, ResampledScore, one_column

__all__ = [
    "BootstrapInterval",
    "PairedDifference",
    "bootstrap_mean",
    "bootstrap_mean_ap",
    "bootstrap_mean_ap_difference",
    "bootstrap_mean_difference",
]

_CHUNK_BYTES = 16 << 20


@dataclass(frozen=True)
class BootstrapInterval:
    """A score and the range that its draws leave it in; in the score's own unit."""

    value: float  # on the images as they are
    low: float  # NaN where the score is undefined
    high: float
    confidence: float  # share of the draws between low and high, 0..1
    std: float  # population standard deviation of the draws: the standard error of the value
    resampled: NDArray[np.float64]  # (B,) the score of each draw; NaN: undefined, and left out
    num_degenerate: int  # draws that lack every positive of some class: their mean is without it

    @property
    def num_undefined(self) -> int:
        """Draws left out, for no class had a positive."""
        return int(np.isnan(self.resampled).sum())


@dataclass(frozen=True)
class PairedDifference:
    """How much the first score is above the second on the same images; in the score's own unit."""

    value: float  # first less second, on the images as they are
    low: float
    high: float
    confidence: float
    p_value: float  # see bootstrap_mean_ap_difference
    resampled: NDArray[np.float64]  # (B,) the difference in each draw
    num_degenerate: int  # as in BootstrapInterval

    @property
    def is_real(self) -> bool:
        """Whether 0 is outside the interval."""
        return self.low > 0 or self.high < 0


def bootstrap_mean(
    values: Any,
    *,
    num_resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    chunk_bytes: int = _CHUNK_BYTES,
) -> BootstrapInterval:
    """The mean over images and its interval: top-1 accuracy of hits, mean AP over queries.

    Args:
        values: (N,) truth values or numbers, one an image.
        num_resamples: B draws.
        confidence: above 0, below 1.
        seed: of the draws.
        chunk_bytes: about how much memory to use; it changes nothing about the answer.

    Raises:
        MetricError: no values or NaN among them, or an option out of range.
    """
    means = MeanScore(one_column(values, "values"))
    draws = _Draws(len(means.values), num_resamples, confidence, seed, chunk_bytes)
    return draws.interval(means)


def bootstrap_mean_ap(
    targets: Any,
    scores: Any,
    *,
    num_resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    chunk_bytes: int = _CHUNK_BYTES,
) -> BootstrapInterval:
    """The mean interpolated AP over classes and its interval.

    The value is that of :func:`~assay.evaluate.mean_average_precision` over the APs of
    :func:`~assay.evaluate.get_precision_recall`; each draw is scored in the same way, an image
    drawn twice counting twice. A class that has no positive in a draw is left out of that draw's
    mean, as a class without any is left out of the value.

    Args:
        targets: (N, C) or (N,) for one class: above 0 is positive, -1 leaves the image out.
        scores: as ``targets``, the classes' scores.
        num_resamples, confidence, seed, chunk_bytes: as for :func:`bootstrap_mean`.

    Raises:
        MetricError: shapes that differ, NaN, no class with a positive, or an option out of range.
    """
    score = MeanAPScore.of(targets, scores)
    draws = _Draws(score.num_images, num_resamples, confidence, seed, chunk_bytes)
    return draws.interval(score)


def bootstrap_mean_difference(
    first: Any,
    second: Any,
    *,
    num_resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    chunk_bytes: int = _CHUNK_BYTES,
) -> PairedDifference:
    """The mean of ``first`` less that of ``second`` over the same images, with its interval.

    For the p value and its reading see :func:`bootstrap_mean_ap_difference`.

    Args:
        first, second: (N,) truth values or numbers, entry i of both of one image.
        num_resamples, confidence, seed, chunk_bytes: as for :func:`bootstrap_mean`.

    Raises:
        MetricError: as :func:`bootstrap_mean`, or the lengths differ.
    """
    pair = MeanScore(one_column(first, "first")), MeanScore(one_column(second, "second"))
    lengths = [len(each.values) for each in pair]
    if lengths[0] != lengths[1]:
        raise MetricError(
            f"first has {lengths[0]} values but second has {lengths[1]}: give one of each an image."
        )
    draws = _Draws(lengths[0], num_resamples, confidence, seed, chunk_bytes)
    return draws.difference(*pair)


def bootstrap_mean_ap_difference(
    targets: Any,
    first_scores: Any,
    second_scores: Any,
    *,
    num_resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    chunk_bytes: int = _CHUNK_BYTES,
) -> PairedDifference:
    """The mean AP by ``first_scores`` less that by ``second_scores``, with its interval.

    ``p_value`` is twice the smaller of two shares: that of draws in which the first is not above
    the second, and that of draws in which it is not below; the value itself counts as one draw
    more, so it is never 0. A draw is not made under the hypothesis of no difference, so this is
    the level at which the interval touches 0 rather than the p value of an exact test. Differences
    over several pairs are not corrected for being several.

    Args:
        targets: (N, C) or (N,): above 0 is positive, -1 leaves the image out.
        first_scores, second_scores: as ``targets``, of the same images and classes.
        num_resamples, confidence, seed, chunk_bytes: as for :func:`bootstrap_mean`.

    Raises:
        MetricError: as :func:`bootstrap_mean_ap`.
    """
    first = MeanAPScore.of(targets, first_scores, "first_scores")
    second = MeanAPScore.of(targets, second_scores, "second_scores")
    draws = _Draws(first.num_images, num_resamples, confidence, seed, chunk_bytes)
    return draws.difference(first, second)


@dataclass(frozen=True)
class _Draws:
    num_images: int
    num_resamples: int
    confidence: float
    seed: int
    chunk_bytes: int

    def __post_init__(self) -> None:
        if self.num_resamples < 1:
            raise MetricError(f"num_resamples is {self.num_resamples}: give at least 1.")
        if not 0 < self.confidence < 1:
            raise MetricError(
                f"confidence is {self.confidence}: give a share above 0 and below 1, such as 0.95."
            )

    def interval(self, score: ResampledScore) -> BootstrapInterval:
        parts = [score(counts) for counts in self._counts()]
        resampled = np.concatenate([values for values, _ in parts])
        low, high = self._middle(resampled)
        defined = resampled[~np.isnan(resampled)]
        return BootstrapInterval(
            value=self._as_they_are(score),
            low=low,
            high=high,
            confidence=self.confidence,
            std=float(defined.std()) if len(defined) else float("nan"),
            resampled=resampled,
            num_degenerate=int(sum(degenerate.sum() for _, degenerate in parts)),
        )

    def difference(self, first: ResampledScore, second: ResampledScore) -> PairedDifference:
        parts = [(first(counts), second(counts)) for counts in self._counts()]
        resampled = np.concatenate([ours[0] - theirs[0] for ours, theirs in parts])
        low, high = self._middle(resampled)
        return PairedDifference(
            value=self._as_they_are(first) - self._as_they_are(second),
            low=low,
            high=high,
            confidence=self.confidence,
            p_value=_two_sided(resampled[~np.isnan(resampled)]),
            resampled=resampled,
            num_degenerate=int(sum(ours[1].sum() for ours, _ in parts)),
        )

    def _counts(self) -> Iterator[NDArray[np.int32]]:
        """How often each image is in each draw, (N, b), some draws at a time."""
        random = np.random.default_rng(self.seed)
        # The draws, their counts, and the scores' copies of these.
        step = max(1, self.chunk_bytes // (40 * self.num_images))
        for start in range(0, self.num_resamples, step):
            number = min(step, self.num_resamples - start)
            drawn = random.integers(0, self.num_images, (number, self.num_images))
            cells = drawn * number + np.arange(number)[:, np.newaxis]
            counts = np.bincount(cells.ravel(), minlength=number * self.num_images)
            yield counts.astype(np.int32).reshape(self.num_images, number)

    def _as_they_are(self, score: ResampledScore) -> float:
        return float(score(np.ones((self.num_images, 1), np.int32))[0][0])

    def _middle(self, resampled: NDArray[np.float64]) -> tuple[float, float]:
        defined = resampled[~np.isnan(resampled)]
        if not len(defined):
            return float("nan"), float("nan")
        tail = (1 - self.confidence) / 2
        low, high = np.quantile(defined, [tail, 1 - tail])
        return float(low), float(high)


def _two_sided(differences: NDArray[np.float64]) -> float:
    not_above = int((differences <= 0).sum())
    not_below = int((differences >= 0).sum())
    return min(1.0, 2 * (1 + min(not_above, not_below)) / (1 + len(differences)))
