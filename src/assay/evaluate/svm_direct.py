"""Linear SVMs that are small enough to be solved one by one, each in the smaller of two spaces.

With n rows of D features, Newton's method needs a matrix over D weights, or over the n rows, whose
Gram matrix then takes the place of X: the weights are X^T beta. Either fits the caches here, so
that problems have nothing to gain from company except that those on the same rows share these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from assay.evaluate.svm_line_search import line_search

__all__ = ["PathSolution", "choose_space", "is_direct", "solve_path"]

# Multiplications that a Newton step may take where all problems are on the same rows; how many
# times as many where the rows of each are few among those of all; values of X that may be copied.
_MOST_WORK = 1e8
_MOST_GAIN = 5.0
_MOST_VALUES = 1 << 23
_DAMPINGS = 12
_WORTH_HALVING = 128


@dataclass(frozen=True)
class PathSolution:
    """One problem at K costs."""

    weights: NDArray[np.float64]  # (K, D)
    objectives: NDArray[np.float64]  # (K,)
    gradient_norms: NDArray[np.float64]  # (K,)
    converged: NDArray[np.bool_]  # (K,)
    iterations: NDArray[np.int64]  # (K,) Newton steps


def is_direct(num_rows: int, dim: int, all_rows: int) -> bool:
    """Whether problems on so many rows of so many features are best solved here.

    Args:
        num_rows: of one problem.
        dim: features, the constant one among them.
        all_rows: of all problems; solved together, each would look at those of the others too.
    """
    smaller = min(num_rows, dim)
    gain = min(_MOST_GAIN, all_rows / num_rows)
    return num_rows * smaller**2 <= gain * _MOST_WORK and num_rows * dim <= _MOST_VALUES


class Space(Protocol):
    """Where weights are sought: a state v stands for them, and its image gives inner products."""

    def margins(self, state: Tensor) -> Tensor:
        """(n,) X w."""

    def image(self, state: Tensor, margins: Tensor) -> Tensor:
        """What the inner product of ``state`` with another is taken with."""

    def pulled(self, duals: Tensor) -> Tensor:
        """The state of X^T duals."""

    def direction(self, curvature: Tensor, gradient: Tensor) -> Tensor:
        """-H^-1 gradient, for H = 1 + X^T diag(curvature) X."""

    def weights(self, states: Tensor) -> Tensor:
        """(K, D) w of K states."""


class WeightSpace:
    """States are the weights themselves.

    Args:
        rows: X, (n, D) float64.
    """

    def __init__(self, rows: Tensor) -> None:
        self._rows = rows

    def margins(self, state: Tensor) -> Tensor:
        return self._rows @ state

    def image(self, state: Tensor, margins: Tensor) -> Tensor:
        return state

    def pulled(self, duals: Tensor) -> Tensor:
        return self._rows.T @ duals

    def direction(self, curvature: Tensor, gradient: Tensor) -> Tensor:
        inside = curvature.nonzero()[:, 0]
        rows = self._rows[inside]
        hessian = rows.T @ (rows * curvature[inside, None])
        hessian.diagonal().add_(1)
        return -_solve(hessian, gradient)

    def weights(self, states: Tensor) -> Tensor:
        return states


class RowSpace:
    """States are beta (n,) with w = X^T beta.

    Args:
        rows: X, (n, D) float64.
    """

    def __init__(self, rows: Tensor) -> None:
        self._rows = rows
        self._gram = _gram(rows)

    def margins(self, state: Tensor) -> Tensor:
        return self._gram @ state

    def image(self, state: Tensor, margins: Tensor) -> Tensor:
        return margins

    def pulled(self, duals: Tensor) -> Tensor:
        return duals

    def direction(self, curvature: Tensor, gradient: Tensor) -> Tensor:
        # (1 + diag(c) K) d = -g. Off S, where c is 0, d is -g; on S it solves a symmetric system.
        inside = curvature.nonzero()[:, 0]
        change = -gradient
        if len(inside) == 0:
            return change
        outside = change.index_fill(0, inside, 0)
        rows = self._gram.index_select(0, inside)
        right_side = change[inside] / curvature[inside] - rows @ outside
        block = rows.index_select(1, inside)
        block.diagonal().add_(1 / curvature[inside])
        change[inside] = _solve(block, right_side)
        return change

    def weights(self, states: Tensor) -> Tensor:
        return states @ self._rows


def choose_space(rows: Tensor) -> Space:
    """The smaller space for X = ``rows`` (n, D) float64."""
    return RowSpace(rows) if rows.shape[0] < rows.shape[1] else WeightSpace(rows)


def solve_path(
    space: Space,
    labels: Tensor,
    row_weights: Tensor,
    costs: Sequence[float],
    *,
    tolerance: float,
    max_iter: int,
    stopped: Callable[[], bool],
) -> PathSolution | None:
    """Solve one problem at all its costs, each from the solution of the one before.

    Args:
        space: of X.
        labels: (n,) float64, +1 and -1.
        row_weights: (n,) float64, what a row's cost is multiplied by.
        costs: ascending.
        tolerance: how near the weights have to be to the solution, relative to their norm.
        max_iter: Newton steps at each cost.
        stopped: asked before each step; a true answer ends the path, and there is no solution.
    """
    points = []
    state = torch.zeros_like(space.pulled(torch.zeros_like(labels)))
    for cost in costs:
        curvature = 2 * cost * row_weights
        here = _look(space, labels, curvature, state)
        settled = stuck = False
        iterations = 0
        while not (settled or stuck or here.is_solution(tolerance) or iterations == max_iter):
            if stopped():
                return None
            change, decrement = _newton_step(space, labels, curvature, here)
            settled = 0 < decrement <= tolerance**2 * here.square
            stuck = decrement == 0
            here = _look(space, labels, curvature, here.state + change)
            iterations += 1
        state = here.state
        objective = 0.5 * (here.square + float(here.pull @ here.slack))
        converged = settled or here.is_solution(tolerance)
        points.append((state, objective, here.gradient_square**0.5, converged, iterations))
    states, objectives, gradient_norms, convergence, steps = zip(*points, strict=True)
    return PathSolution(
        weights=space.weights(torch.stack(states)).numpy(),
        objectives=np.array(objectives),
        gradient_norms=np.array(gradient_norms),
        converged=np.array(convergence),
        iterations=np.array(steps),
    )


@dataclass(frozen=True)
class _Place:
    """Where a problem stands."""

    state: Tensor
    image: Tensor  # of the state
    slack: Tensor  # (n,) 1 - y w.x
    pull: Tensor  # (n,) curvature x slack where that is positive
    gradient: Tensor  # a state
    gradient_image: Tensor
    square: float  # ||w||^2
    gradient_square: float

    def is_solution(self, tolerance: float) -> bool:
        """The objective is at least as curved as 1/2 ||w||^2, which bounds the distance."""
        return self.gradient_square <= tolerance**2 * self.square


def _look(space: Space, labels: Tensor, curvature: Tensor, state: Tensor) -> _Place:
    margins = space.margins(state)
    image = space.image(state, margins)
    slack = 1 - labels * margins
    pull = slack.clamp_min(0) * curvature
    gradient = state - space.pulled(pull * labels)
    gradient_image = space.image(gradient, space.margins(gradient))
    return _Place(
        state,
        image,
        slack,
        pull,
        gradient,
        gradient_image,
        square=float(state @ image),
        gradient_square=max(0.0, float(gradient @ gradient_image)),
    )


def _newton_step(
    space: Space, labels: Tensor, curvature: Tensor, here: _Place
) -> tuple[Tensor, float]:
    """The change of state, and what the quadratic model expects of it; 0 where it leads nowhere."""
    direction = space.direction(curvature * (here.slack > 0), here.gradient)
    ahead = space.margins(direction)
    slope = here.gradient_image @ direction
    length = line_search(
        here.slack[:, None],
        (-labels * ahead)[:, None],
        curvature[:, None],
        (here.image @ direction)[None],
        (direction @ space.image(direction, ahead))[None],
        slope[None],
    )
    return length * direction, float(-slope * length)


def _gram(rows: Tensor) -> Tensor:
    """(n, n) X X^T, of which no product is computed twice where that would take long."""
    count = len(rows)
    if count <= _WORTH_HALVING:
        return rows @ rows.T
    half = count // 2
    gram = rows.new_empty(count, count)
    gram[:half, :half] = _gram(rows[:half])
    gram[half:, half:] = _gram(rows[half:])
    gram[half:, :half] = rows[half:] @ rows[:half].T
    gram[:half, half:] = gram[half:, :half].T
    return gram


def _solve(matrix: Tensor, right_side: Tensor) -> Tensor:
    """The solution of a positive definite system; ``matrix`` is made heavier if rounding asks."""
    root: Tensor
    root, failed = torch.linalg.cholesky_ex(matrix)
    damping = torch.finfo(matrix.dtype).eps * float(matrix.trace())
    for _ in range(_DAMPINGS):
        if not failed:
            break
        matrix.diagonal().add_(damping)
        damping *= 10
        root, failed = torch.linalg.cholesky_ex(matrix)
    return torch.cholesky_solve(right_side[:, None], root)[:, 0]
