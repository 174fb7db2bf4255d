"""Real features for the tests of SVMs: scikit-learn's digits as raw pixels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
from sklearn.datasets import load_digits

from assay.evaluate import SVMTrainer, svm_stored_training, svm_training


@pytest.fixture(scope="session")
def digits():
    """600 digits to train on, then 400 to test on."""
    images, labels = load_digits(return_X_y=True)
    images = images.astype(np.float32)
    return tuple(
        SimpleNamespace(features=images[rows], targets=labels[rows])
        for rows in (slice(600), slice(600, 1000))
    )


@pytest.fixture(scope="session")
def some_digits(digits):
    """The digits 3, 5 and 8 alone: few enough for many trainings."""
    return tuple(
        SimpleNamespace(features=rows.features[kept], targets=rows.targets[kept])
        for rows in digits
        for kept in [np.isin(rows.targets, [3, 5, 8])]
    )


@pytest.fixture
def fits_made():
    """A context that gives a list of how many SVMs each call of the solver was asked for."""

    @contextmanager
    def counting() -> Iterator[list[int]]:
        sizes: list[int] = []

        def fit_many(features, problems, *args, **keywords):
            sizes.append(len(problems))
            return solve(features, problems, *args, **keywords)

        solve = svm_training.fit_many
        with patch.object(svm_training, "fit_many", fit_many):
            yield sizes

    return counting


@pytest.fixture
def class_by_class(monkeypatch):
    """One class is solved at a time, as if there were too many for one call."""
    monkeypatch.setattr(svm_stored_training, "problems_at_once", lambda *_: 1)


@pytest.fixture
def trainer(tmp_path):
    """Makes trainers on one core, whose results stand in the test's own folder.

    Three costs out of order, and the primal form, in which LinearSVC converges fast.
    """

    def make(config=None, layer="layer4", **keywords):
        settings = {"costs": {"costs_list": [1.0, 0.1, 10.0]}, "dual": False, **(config or {})}
        return SVMTrainer(settings, layer, tmp_path / "svm", num_workers=1, **keywords)

    return make
