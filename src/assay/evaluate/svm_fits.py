"""Which solver solves: ours wherever it covers the problem, ``LinearSVC`` for the rest."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from assay.errors import AssayWarning
from assay.evaluate import linear_svc
from assay.evaluate.linear_svc import CLASS_WEIGHT, SolverOptions, SVMFits, SVMProblem

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["fit_many", "solver_name"]

_NEWTON = "newton 1"  # the number rises when solutions change beyond the tolerance
# Far below what moves a rank: solutions do not depend on which problems were solved together.
_TOLERANCE = 1e-7


def solver_name(options: SolverOptions) -> str:
    """What solves, with its version: results of another solver are not this one's."""
    return _NEWTON if _is_ours(options) else linear_svc.solver_name()


def fit_many(
    features: NDArray[np.float64],
    problems: Sequence[SVMProblem],
    options: SolverOptions,
    *,
    num_workers: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> SVMFits:
    """Solve each problem; see :func:`assay.evaluate.linear_svc.fit_many`.

    The squared hinge loss with an l2 penalty has one solution, and its primal and dual forms share
    it: ``options.dual`` then makes no difference.
    """
    if not _is_ours(options):
        return linear_svc.fit_many(
            features, problems, options, num_workers=num_workers, progress=progress
        )
    from assay.evaluate.svm_solver import solve_svms

    with warnings.catch_warnings():
        # Said once for all calls by the trainer, which counts what did not converge.
        warnings.filterwarnings("ignore", r"\d+ of \d+ SVMs did not converge", AssayWarning)
        solution = solve_svms(
            features,
            problems,
            class_weight=(CLASS_WEIGHT[1], CLASS_WEIGHT[-1]),
            tolerance=_TOLERANCE,
            max_iter=options.max_iter,
            threads=num_workers,
            progress=progress,
        )
    return SVMFits(solution.weights, solution.biases, solution.converged)


def _is_ours(options: SolverOptions) -> bool:
    return options.loss == "squared_hinge" and options.penalty == "l2"
