"""Many linear SVMs over one feature matrix, solved together and exactly.

Each problem is 1/2 ||w||^2 + sum_i C_i max(0, 1 - y_i w.x_i)^2, as ``LinearSVC`` with its squared
hinge loss has it; the bias is the weight of a constant feature and regularised like the others.
Problems that differ in labels, rows and costs alone share X, its Gram matrix and all products with
it; those that differ in cost alone lead to one another.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from assay.errors import AssayWarning
from assay.evaluate.linear_svc import SVMProblem
from assay.evaluate.svm_feature_space import FeatureSpace
from assay.evaluate.svm_paths import cost_paths
from assay.evaluate.svm_problem_checks import (
    check_features,
    check_problems,
    check_sample_weight,
    check_settings,
)
from assay.evaluate.svm_sweep import Progress, SVMSolution, Sweep

__all__ = ["SVMSolution", "solve_svms"]

# Wide enough for products at full speed, narrow enough for the caches.
_WIDEST_BATCH = {"cpu": 48}
_WIDEST_ON_ACCELERATOR = 256
# Arrays of (N, P) that a batch of P problems holds at once.
_ARRAYS_PER_BATCH = 24
_TOLERANCE = {"float64": 1e-5, "float32": 1e-3}


def solve_svms(
    features: NDArray[Any] | Tensor,
    problems: Sequence[SVMProblem],
    *,
    class_weight: tuple[float, float] = (2.0, 1.0),
    sample_weight: NDArray[np.floating] | None = None,
    intercept_scaling: float = 1.0,
    tolerance: float | None = None,
    max_iter: int = 100,
    dtype: Literal["float64", "float32"] = "float64",
    device: str | torch.device | None = None,
    threads: int | None = None,
    memory_bytes: int = 1 << 30,
    progress: Progress | None = None,
) -> SVMSolution:
    """Solve all problems. Nothing is drawn at random; inputs are never written.

    Args:
        features: (N, D) of any real type, an array, e.g. memory-mapped, or a tensor.
        problems: labels, rows and cost of each. Those with equal labels and rows follow one path
            up their costs, which is where time is saved.
        class_weight: what the cost is multiplied by for rows labelled +1, and for those labelled
            -1.
        sample_weight: (N,) what each row's cost is multiplied by; 0 or more.
        intercept_scaling: the value of the constant feature; 0 for no bias.
        tolerance: a problem has converged when its weights are certain to be within this of the
            solution, relative to their norm: when the norm of the gradient is, which bounds the
            distance, or the last Newton decrement was. 1e-5 by default, 1e-3 in float32.
        max_iter: Newton steps for each problem.
        dtype: of margins, gradients and weights. Directions are found in float32 where that will
            do, whatever this is.
        device: where to compute; the device of ``features`` if they are a tensor, else the CPU.
        threads: cores to use on the CPU; those of torch by default.
        memory_bytes: what X and its Gram matrix may take, and as much again for the problems. Where
            X takes more, it is read in chunks from where it lies, which is slower. Beside that
            stand 128 numbers for each row of X.
        progress: called with the number of problems newly solved, in this thread.

    Raises:
        DataError: features, labels, rows or sample weights that cannot be used.
        ConfigError: a cost or setting that cannot be used.

    Warns:
        AssayWarning: some problems did not converge.
    """
    check_features(features)
    check_problems(problems, int(features.shape[0]))
    target = check_settings(
        class_weight=class_weight,
        intercept_scaling=intercept_scaling,
        tolerance=tolerance,
        max_iter=max_iter,
        dtype=dtype,
        device=features.device if device is None and isinstance(features, Tensor) else device,
        threads=threads,
        memory_bytes=memory_bytes,
    )
    row_weights = check_sample_weight(sample_weight, int(features.shape[0]))
    solution = _empty_solution(len(problems), int(features.shape[1]))
    if not problems:
        return solution
    # An accelerator works through one batch at a time.
    cores = (threads or torch.get_num_threads()) if target.type == "cpu" else 1
    with torch.inference_mode(), _torch_threads(cores):
        space = FeatureSpace(
            features,
            intercept_scaling=intercept_scaling,
            dtype=getattr(torch, dtype),
            device=target,
            memory_bytes=memory_bytes,
        )
        width = min(
            _WIDEST_BATCH.get(target.type, _WIDEST_ON_ACCELERATOR),
            max(1, memory_bytes // (cores * _ARRAYS_PER_BATCH * 8 * space.num_rows)),
        )
        sweep = Sweep(
            space=space,
            class_weight=class_weight,
            sample_weight=row_weights,
            intercept_scaling=intercept_scaling,
            tolerance=_TOLERANCE[dtype] if tolerance is None else tolerance,
            max_iter=max_iter,
            solution=solution,
        )
        sweep.run(cost_paths(problems), cores, width, progress)
    _warn_unconverged(solution)
    return solution


def _empty_solution(count: int, dim: int) -> SVMSolution:
    return SVMSolution(
        weights=np.empty((count, dim)),
        biases=np.empty(count),
        objectives=np.empty(count),
        gradient_norms=np.empty(count),
        converged=np.zeros(count, np.bool_),
        iterations=np.zeros(count, np.int64),
    )


@contextmanager
def _torch_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        # Also for the threads that torch will be used on from now on.
        torch.set_num_threads(before)


def _warn_unconverged(solution: SVMSolution) -> None:
    count = int((~solution.converged).sum())
    if count:
        worst = float(solution.gradient_norms[~solution.converged].max())
        warnings.warn(
            f"{count} of {len(solution.converged)} SVMs did not converge (gradient norm up to "
            f"{worst:.2g}): raise max_iter or the tolerance, compute in float64, or leave the "
            f"highest costs out.",
            AssayWarning,
            stacklevel=3,
        )
