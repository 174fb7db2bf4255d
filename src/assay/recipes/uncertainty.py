"""How sure a score is: the bootstrap over test images as every command applies it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.evaluate.bootstrap import (
    BootstrapInterval,
    PairedDifference,
    bootstrap_mean,
    bootstrap_mean_ap,
    bootstrap_mean_ap_difference,
    bootstrap_mean_difference,
)
from assay.recipes.stored_scores import StoredScores
from assay.report.document import interval_facts

__all__ = ["CONFIDENCE", "RESAMPLES", "difference", "interval", "interval_of"]

CONFIDENCE = 0.95
RESAMPLES = 1000


def interval(scores: Any, targets: Any, *, seed: int) -> dict[str, Any]:
    """What ``results.json`` says of a score's interval.

    Args:
        scores: (N, C) with targets (N, C) of {1, 0, -1}: the score is the mean AP. (N,) of {1, 0}:
            it is their mean.
        targets: (N, C), or whatever for (N,) scores.
        seed: of the draws.
    """
    return interval_facts(_interval(np.asarray(scores), np.asarray(targets), seed), seed=seed)


def interval_of(stored: StoredScores, *, seed: int) -> BootstrapInterval | None:
    """The score of stored scores, and its interval; None if it is undefined."""
    return _interval(stored.scores, stored.targets, seed)


def difference(first: StoredScores, second: StoredScores, *, seed: int) -> PairedDifference:
    """How much the score of ``first`` is above that of ``second``, of the same images and classes.

    Raises:
        MetricError: no class has a positive image.
    """
    options: dict[str, Any] = {
        "num_resamples": RESAMPLES,
        "confidence": CONFIDENCE,
        "seed": seed,
    }
    if first.scores.ndim == 1:
        return bootstrap_mean_difference(first.scores, second.scores, **options)
    return bootstrap_mean_ap_difference(first.targets, first.scores, second.scores, **options)


def _interval(scores: NDArray[Any], targets: NDArray[Any], seed: int) -> BootstrapInterval | None:
    options: dict[str, Any] = {"num_resamples": RESAMPLES, "confidence": CONFIDENCE, "seed": seed}
    if scores.ndim == 1:
        return bootstrap_mean(scores, **options)
    if not (targets == 1).any():
        return None
    return bootstrap_mean_ap(targets, scores, **options)
