"""Which solver solves: ours wherever it covers the problem, ``LinearSVC`` for the rest."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.errors import AssayWarning
from assay.evaluate import linear_svc
from assay.evaluate.linear_svc import CLASS_WEIGHT, SolverOptions, SVMFits, SVMProblem

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ANY_WORKERS", "Workers", "fit_many", "problems_at_once", "solver_name"]

_NEWTON = "newton 1"  # the number rises when solutions change beyond the tolerance
# Far below what moves a rank: solutions do not depend on which problems were solved together.
_TOLERANCE = 1e-7
# Rows and labels that one core solves together, each at all costs.
_PATHS_AT_ONCE = 48
_FITS_AT_ONCE = 4
# Types of device that compute in single precision alone.
_SINGLE_PRECISION = ("mps",)


@dataclass(frozen=True)
class Workers:
    """What solves."""

    cores: int | None = None  # None takes as many as are worth it, of those there are
    # For our solver; LinearSVC knows the CPU alone, and some accelerators no double precision.
    device: str = "cpu"

    @property
    def exact_device(self) -> str:
        """The device, or the CPU in place of one that cannot compute in double precision."""
        return "cpu" if self.device.partition(":")[0] in _SINGLE_PRECISION else self.device


ANY_WORKERS = Workers()


def solver_name(options: SolverOptions) -> str:
    """What solves, with its version: results of another solver are not this one's."""
    return _NEWTON if _is_ours(options) else linear_svc.solver_name()


def problems_at_once(options: SolverOptions, num_costs: int, workers: Workers) -> int:
    """How many problems one call of :func:`fit_many` should have to keep its workers busy.

    Args:
        num_costs: how many problems differ in cost alone.
    """
    cores = workers.cores or os.cpu_count() or 1
    return cores * (_PATHS_AT_ONCE * num_costs if _is_ours(options) else _FITS_AT_ONCE)


def fit_many(
    features: NDArray[np.float64],
    problems: Sequence[SVMProblem],
    options: SolverOptions,
    *,
    workers: Workers = ANY_WORKERS,
    progress: Callable[[int], None] | None = None,
) -> SVMFits:
    """Solve each problem; see :func:`assay.evaluate.linear_svc.fit_many`.

    The squared hinge loss with an l2 penalty has one solution, and its primal and dual forms share
    it: ``options.dual`` then makes no difference.
    """
    if not _is_ours(options):
        return linear_svc.fit_many(
            features, problems, options, num_workers=workers.cores, progress=progress
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
            device=workers.exact_device,
            threads=workers.cores,
            progress=progress,
        )
    return SVMFits(solution.weights, solution.biases, solution.converged)


def _is_ours(options: SolverOptions) -> bool:
    return options.loss == "squared_hinge" and options.penalty == "l2"
