"""Many linear SVMs over one feature matrix, solved together and exactly.

Each problem is 1/2 ||w||^2 + sum_i C_i max(0, 1 - y_i w.x_i)^2, as ``LinearSVC`` with its squared
hinge loss has it; the bias is the weight of a constant feature and regularised like the others.
Problems that differ in labels, rows and costs alone share X, its Gram matrix and all products with
it; those that differ in cost alone lead to one another.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from assay.errors import AssayWarning
from assay.evaluate.linear_svc import SVMProblem
from assay.evaluate.svm_feature_space import FeatureSpace
from assay.evaluate.svm_newton import PathBatch, Solved
from assay.evaluate.svm_paths import CostPath, cost_paths, share_out
from assay.evaluate.svm_problem_checks import (
    check_features,
    check_problems,
    check_sample_weight,
    check_settings,
)

__all__ = ["SVMSolution", "solve_svms"]

Progress = Callable[[int], None]

# Wide enough for products at full speed, narrow enough for the caches.
_WIDEST_BATCH = {"cpu": 48}
_WIDEST_ON_ACCELERATOR = 256
# Arrays of (N, P) that a batch of P problems holds at once.
_ARRAYS_PER_BATCH = 24
# Problems that use less than this part of all rows are solved over these rows alone.
_SPARSE = 0.5
_TOLERANCE = {"float64": 1e-5, "float32": 1e-3}


@dataclass(frozen=True)
class SVMSolution:
    """The solutions of P problems, in their order."""

    weights: NDArray[np.float64]  # (P, D)
    biases: NDArray[np.float64]  # (P,)
    objectives: NDArray[np.float64]  # (P,)
    gradient_norms: NDArray[np.float64]  # (P,) of the objective, over weights and bias
    converged: NDArray[np.bool_]  # (P,)
    iterations: NDArray[np.int64]  # (P,) Newton steps


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
            X takes more, it is read in chunks from where it lies, which is slower.
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
        sweep = _Sweep(
            space=space,
            class_weight=class_weight,
            sample_weight=row_weights,
            intercept_scaling=intercept_scaling,
            tolerance=_TOLERANCE[dtype] if tolerance is None else tolerance,
            max_iter=max_iter,
            solution=solution,
        )
        sweep.run(share_out(cost_paths(problems), cores, width), cores, progress)
    _warn_unconverged(solution)
    return solution


@dataclass(frozen=True)
class _Sweep:
    """What all batches of a call share."""

    space: FeatureSpace
    class_weight: tuple[float, float]
    sample_weight: NDArray[np.float64]
    intercept_scaling: float
    tolerance: float
    max_iter: int
    solution: SVMSolution

    def run(self, batches: list[list[CostPath]], cores: int, progress: Progress | None) -> None:
        """Solve ``batches``, each on a core of its own."""
        solved: SimpleQueue[int] = SimpleQueue()
        stopped = Event()

        def work(batch: list[CostPath]) -> None:
            with torch.inference_mode():
                self._solve(batch, solved, stopped)

        def prepare(task: Callable[[], None]) -> None:
            with torch.inference_mode():
                task()

        expected = sum(len(path.places) for batch in batches for path in batch)
        each = max(1, cores // len(batches))
        with ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(each,)) as pool:
            if not all(self._is_sparse(batch) for batch in batches):
                list(pool.map(prepare, self.space.preparations()))
            futures = [pool.submit(work, batch) for batch in batches]
            for future in futures:
                # Wakes the loop below when a batch fails.
                future.add_done_callback(lambda _: solved.put(0))
            try:
                while expected and not any(f.done() and f.exception() for f in futures):
                    count = solved.get()
                    expected -= count
                    if count and progress is not None:
                        progress(count)
            finally:
                if expected:
                    stopped.set()
            for future in futures:
                future.result()

    def _solve(self, batch: list[CostPath], solved: SimpleQueue[int], stopped: Event) -> None:
        space = self.space
        keep = np.arange(space.num_rows)
        if self._is_sparse(batch):
            keep = _rows_used(batch)
            space = space.subset(torch.from_numpy(keep))
            for task in space.preparations():
                task()
        # The costs of X times the scale of its space.
        costs = [tuple(cost / space.scale**2 for cost in path.costs) for path in batch]
        longest = max(len(path.costs) for path in batch)
        padded = np.array([each + each[-1:] * (longest - len(each)) for each in costs])
        labels = np.stack([path.labels[keep] for path in batch], axis=1)
        weights = np.stack([self._row_weights(path)[keep] for path in batch], axis=1)
        paths = PathBatch(
            space,
            _tensor(labels, space),
            _tensor(weights, space),
            _tensor(padded, space),
            torch.tensor([len(path.costs) for path in batch], device=space.device),
            tolerance=self.tolerance,
            max_iter=self.max_iter,
        )

        def keep_solved(found: Solved) -> None:
            if not stopped.is_set():
                self._keep(batch, space.scale, found)
                solved.put(len(found.problems))

        paths.run(keep_solved, stopped.is_set)

    def _is_sparse(self, batch: list[CostPath]) -> bool:
        return len(_rows_used(batch)) < _SPARSE * self.space.num_rows

    def _row_weights(self, path: CostPath) -> NDArray[np.float64]:
        """(N,) class weight x sample weight on the rows of a path, else 0."""
        positive, negative = self.class_weight
        weights = np.zeros(len(path.labels))
        by_class = np.where(path.labels[path.rows] > 0, positive, negative)
        weights[path.rows] = by_class * self.sample_weight[path.rows]
        return weights

    def _keep(self, batch: list[CostPath], scale: float, found: Solved) -> None:
        """Write solutions over X x ``scale`` down as solutions over X."""
        pairs = zip(found.problems.tolist(), found.cost_places.tolist(), strict=True)
        places = [batch[problem].places[cost] for problem, cost in pairs]
        weights = found.weights.cpu().numpy().astype(np.float64) * scale
        self.solution.weights[places] = weights[:, :-1]
        self.solution.biases[places] = weights[:, -1] * self.intercept_scaling
        self.solution.objectives[places] = found.objectives.cpu().numpy() * scale**2
        self.solution.gradient_norms[places] = found.gradient_norms.cpu().numpy() * scale
        self.solution.converged[places] = found.converged.cpu().numpy()
        self.solution.iterations[places] = found.iterations.cpu().numpy()


def _rows_used(batch: list[CostPath]) -> NDArray[np.int64]:
    return np.unique(np.concatenate([path.rows for path in batch]))


def _tensor(array: NDArray[Any], space: FeatureSpace) -> Tensor:
    return torch.from_numpy(array).to(space.dtype).to(space.device)


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
