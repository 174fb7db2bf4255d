"""Many linear SVMs over one feature matrix, by scikit-learn's ``LinearSVC`` in parallel.

:func:`fit_many` is the seam between what is trained and how: it takes the shared features and a
list of problems, and gives weights and biases back. Whatever solves the same problems may take its
place.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay._optional import require

__all__ = [
    "CLASS_WEIGHT",
    "SVMFits",
    "SVMProblem",
    "SolverOptions",
    "fit_many",
    "solver_name",
]

CLASS_WEIGHT = {1: 2.0, -1: 1.0}

# A pool of processes costs some seconds to start; rows x features x problems below this are quicker
# alone.
_WORTH_PROCESSES = 20_000_000
_SEED = 0


@dataclass(frozen=True)
class SolverOptions:
    """What all problems of one call share; names and values are those of ``LinearSVC``."""

    loss: str = "squared_hinge"
    penalty: str = "l2"
    dual: bool = True
    max_iter: int = 2000


@dataclass(frozen=True)
class SVMProblem:
    """One SVM: ``1/2 ||w||^2 + sum over its rows of cost x class weight x loss``.

    The bias is the weight of a constant feature of value 1 and regularised like the others.
    Problems that share labels or rows share the arrays.
    """

    labels: NDArray[np.int8]  # (N,) +1 or -1 for each row of the features
    rows: NDArray[np.int64]  # (n,) sorted, unique: the rows it is fitted on; both labels occur
    cost: float


@dataclass(frozen=True)
class SVMFits:
    """The solutions of P problems, in their order."""

    weights: NDArray[np.float64]  # (P, D)
    biases: NDArray[np.float64]  # (P,)
    converged: NDArray[np.bool_]  # (P,) False where max_iter came first


def solver_name() -> str:
    """What solves, with its version: results of another solver are not this one's."""
    return f"LinearSVC {require('sklearn', extra='evaluate', purpose='train SVMs').__version__}"


def fit_many(
    features: NDArray[np.float64],
    problems: Sequence[SVMProblem],
    options: SolverOptions,
    *,
    num_workers: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> SVMFits:
    """Solve each problem; the answer depends neither on the others nor on ``num_workers``.

    Args:
        features: (N, D) finite, C-contiguous.
        problems: P problems over these features.
        options: loss, penalty, form and limit of iterations.
        num_workers: processes to use; None takes as many as this process may use cores.
        progress: called with the number of problems newly solved, in this thread.
    """
    joblib = require("joblib", extra="evaluate", purpose="train SVMs in parallel")
    fits = SVMFits(
        weights=np.empty((len(problems), features.shape[1])),
        biases=np.empty(len(problems)),
        converged=np.empty(len(problems), np.bool_),
    )
    workers = _num_workers(features, len(problems), num_workers, joblib.cpu_count())
    # Processes, not threads: liblinear draws from one random generator per process, so that threads
    # would disturb each other and no run could be repeated.
    parallel = joblib.Parallel(n_jobs=workers, backend="loky", return_as="generator")
    solved = parallel(joblib.delayed(_fit_one)(features, problem, options) for problem in problems)
    for place, (weights, bias, converged) in enumerate(solved):
        fits.weights[place] = weights
        fits.biases[place] = bias
        fits.converged[place] = converged
        if progress is not None:
            progress(1)
    return fits


def _num_workers(
    features: NDArray[np.float64], num_problems: int, wanted: int | None, cores: int
) -> int:
    if wanted is None and features.size * num_problems < _WORTH_PROCESSES:
        return 1
    return max(1, min(wanted or cores, num_problems))


def _fit_one(
    features: NDArray[np.float64], problem: SVMProblem, options: SolverOptions
) -> tuple[NDArray[np.float64], float, bool]:
    svm = require("sklearn.svm", extra="evaluate", purpose="train SVMs")
    model: Any = svm.LinearSVC(
        C=problem.cost,
        loss=options.loss,
        penalty=options.penalty,
        dual=options.dual,
        max_iter=options.max_iter,
        class_weight=CLASS_WEIGHT,
        intercept_scaling=1.0,
        random_state=_SEED,
    )
    everything = len(problem.rows) == len(features)
    with warnings.catch_warnings():
        # Told by the number of iterations, and said once for all problems by the caller.
        warnings.filterwarnings("ignore", message="Liblinear failed to converge")
        model.fit(
            features if everything else features[problem.rows],
            problem.labels if everything else problem.labels[problem.rows],
        )
    return model.coef_[0], float(model.intercept_[0]), int(model.n_iter_) < options.max_iter
