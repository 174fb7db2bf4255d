"""A sweep over many SVMs: how they are shared out over threads, and gathered again."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from assay.evaluate.svm_direct import PathSolution, choose_space, is_direct, solve_path
from assay.evaluate.svm_feature_space import FeatureSpace
from assay.evaluate.svm_newton import PathBatch, Solved
from assay.evaluate.svm_paths import CostPath, share_out, share_rows

__all__ = ["Progress", "SVMSolution", "Sweep"]

Progress = Callable[[int], None]

# Problems that use less than this part of all rows are solved over these rows alone.
_SPARSE = 0.5


@dataclass(frozen=True)
class SVMSolution:
    """The solutions of P problems, in their order."""

    weights: NDArray[np.float64]  # (P, D)
    biases: NDArray[np.float64]  # (P,)
    objectives: NDArray[np.float64]  # (P,)
    gradient_norms: NDArray[np.float64]  # (P,) of the objective, over weights and bias
    converged: NDArray[np.bool_]  # (P,)
    iterations: NDArray[np.int64]  # (P,) Newton steps


@dataclass(frozen=True)
class Sweep:
    """What all batches of a call share."""

    space: FeatureSpace
    class_weight: tuple[float, float]
    sample_weight: NDArray[np.float64]
    intercept_scaling: float
    tolerance: float
    max_iter: int
    solution: SVMSolution

    def run(self, paths: list[CostPath], cores: int, width: int, progress: Progress | None) -> None:
        """Solve ``paths`` on as many ``cores``, up to ``width`` together."""
        small, large = self._by_size(paths)
        batches = share_out(large, cores, width)
        groups = share_rows(small, cores)
        solved: SimpleQueue[int] = SimpleQueue()
        stopped = Event()

        def start(task: Callable[..., None], *arguments: Any) -> None:
            with torch.inference_mode():
                task(*arguments)

        expected = sum(len(path.places) for path in paths)
        each = max(1, cores // (len(batches) + len(groups)))
        with ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(each,)) as pool:
            if batches:
                self.space.load()
            if not all(self._is_sparse(batch) for batch in batches):
                list(pool.map(start, self.space.preparations()))
            futures = [pool.submit(start, self._solve, batch, solved, stopped) for batch in batches]
            futures += [
                pool.submit(start, self._solve_directly, group, solved, stopped) for group in groups
            ]
            for future in futures:
                # Wakes the loop below when a task fails.
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

    def _by_size(self, paths: list[CostPath]) -> tuple[list[CostPath], list[CostPath]]:
        """The small problems, and the others."""
        sizes: tuple[list[CostPath], list[CostPath]] = ([], [])
        for path in paths:
            small = is_direct(len(path.rows), self.space.dim, self.space.num_rows)
            sizes[not small].append(path)
        return sizes

    def _solve_directly(
        self, group: list[CostPath], solved: SimpleQueue[int], stopped: Event
    ) -> None:
        """Solve small problems over the same rows, one by one."""
        chosen = torch.tensor(group[0].rows)
        # So small that an accelerator would wait for orders most of the time.
        rows = self.space.rows(chosen, self.space.dtype).to("cpu", torch.float64)
        space = choose_space(rows)
        for path in group:
            found = solve_path(
                space,
                torch.from_numpy(path.labels[path.rows]).double(),
                torch.from_numpy(self._row_weights(path)[path.rows]),
                [cost / self.space.scale**2 for cost in path.costs],
                tolerance=self.tolerance,
                max_iter=self.max_iter,
                stopped=stopped.is_set,
            )
            if found is None:
                return
            self._keep_path(path, found)
            solved.put(len(path.places))

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

    def _keep_path(self, path: CostPath, found: PathSolution) -> None:
        """As :meth:`_keep`, of one path."""
        scale, solution, places = self.space.scale, self.solution, list(path.places)
        solution.weights[places] = found.weights[:, :-1] * scale
        solution.biases[places] = found.weights[:, -1] * (scale * self.intercept_scaling)
        solution.objectives[places] = found.objectives * scale**2
        solution.gradient_norms[places] = found.gradient_norms * scale
        solution.converged[places] = found.converged
        solution.iterations[places] = found.iterations


def _rows_used(batch: list[CostPath]) -> NDArray[np.int64]:
    return np.unique(np.concatenate([path.rows for path in batch]))


def _tensor(array: NDArray[Any], space: FeatureSpace) -> Tensor:
    return torch.from_numpy(array).to(space.dtype).to(space.device)
