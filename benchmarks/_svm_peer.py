"""The peer of the benchmarks of SVMs: scikit-learn's `LinearSVC` over all cores.

In a module of its own, so that its worker processes find it from wherever they were started.
"""

from __future__ import annotations

import warnings

import joblib
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from assay.evaluate.linear_svc import SVMProblem


def solve_peer(features: np.ndarray, problems: list[SVMProblem]) -> np.ndarray:
    """(P, D + 1) weights with the bias last."""
    parallel = joblib.Parallel(n_jobs=-1)
    # The longest first, so that no core is left with one at the end.
    order = np.argsort([-problem.cost for problem in problems], kind="stable")
    solved = parallel(joblib.delayed(_fit_one)(features, problems[place]) for place in order)
    weights = np.empty((len(problems), features.shape[1] + 1))
    weights[order] = solved
    return weights


def _fit_one(features: np.ndarray, problem: SVMProblem) -> np.ndarray:
    svc = LinearSVC(C=problem.cost, class_weight={1: 2.0, -1: 1.0}, max_iter=2000, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        svc.fit(features[problem.rows], problem.labels[problem.rows])
    return np.append(svc.coef_[0], svc.intercept_[0])
