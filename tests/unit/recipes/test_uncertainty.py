from __future__ import annotations

import numpy as np
import pytest

from assay.recipes.stored_scores import StoredScores
from assay.recipes.uncertainty import CONFIDENCE, RESAMPLES, difference, interval, interval_of


def ranking(noise: float, seed: int = 0) -> StoredScores:
    random = np.random.default_rng(seed)
    targets = np.eye(3, dtype=np.int64)[random.integers(0, 3, size=90)]
    scores = targets + noise * np.random.default_rng(7).normal(size=targets.shape)
    return StoredScores(scores, targets, np.arange(90), np.arange(3))


def test_the_interval_holds_the_score_and_says_how_it_was_made() -> None:
    stored = ranking(0.7)
    found = interval(stored.scores, stored.targets, seed=3)
    whole = interval_of(stored, seed=3)

    assert whole is not None
    assert found["interval"] == [whole.low, whole.high]
    assert whole.low < whole.value < whole.high
    assert {**found, "interval": None} == {
        "interval": None,
        "confidence": CONFIDENCE,
        "resamples": RESAMPLES,
        "seed": 3,
    }


def test_an_undefined_score_has_no_interval() -> None:
    assert interval(np.zeros((4, 2)), np.zeros((4, 2)), seed=0) == {"interval": None}


def test_hits_have_the_interval_of_their_mean() -> None:
    hits = np.array([1.0, 0.0, 1.0, 1.0] * 20)
    low, high = interval(hits, np.zeros(80), seed=0)["interval"]

    assert low < 0.75 < high
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(0.75 * 0.25 / 80), rel=0.15)


def test_a_difference_is_that_of_the_scores_and_of_nothing_is_none() -> None:
    better, worse = ranking(0.3), ranking(1.5)
    scores = [interval_of(each, seed=0) for each in (better, worse)]

    found = difference(better, worse, seed=0)
    nothing = difference(better, better, seed=0)

    assert scores[0] is not None
    assert scores[1] is not None
    assert found.value == pytest.approx(scores[0].value - scores[1].value)
    assert found.is_real
    assert (nothing.value, nothing.low, nothing.high) == (0, 0, 0)
    assert not nothing.is_real
