"""Newton systems of linear SVMs by Cholesky factors, problem by problem.

With S the rows that violate their margin and c their curvatures, the step of Newton's method is
known from a matrix over S, X_S X_S^T + diag(1/c), or from one over the features,
I + X_S^T diag(c) X_S. Factors are of single precision where that may do.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from assay.evaluate.svm_feature_space import FeatureSpace

__all__ = ["DualSystem", "primal_directions"]

# Rounding of a factor in single precision, relative to the smallest eigenvalue, that further Newton
# steps still make good.
_TRUSTED_ROUNDING = 4.0
# Times that a matrix is made heavier; the last time by far more than rounding can ask.
_DAMPINGS = 12
# A change of S by more than one row in so many is worth a new factor.
_WORTH_UPDATING = 6
# Factors of up to this many rows are taken in double precision without asking.
_CHEAP_IN_DOUBLE = 512


class DualSystem:
    """The Newton systems of one problem at one cost, while its S changes.

    Each asks for a beta on S with (X_S X_S^T + diag(1/c)) beta = b. The first set is factored; the
    sets after it are reached from it by the rows that came and went, until these are so many that
    a new factor costs less.

    Args:
        space: X, with a Gram matrix.
        curvature: (N,) c, used on S.
        precise: whether single precision has proved too coarse.
    """

    def __init__(self, space: FeatureSpace, curvature: Tensor, *, precise: bool = False) -> None:
        self._space = space
        self._curvature = curvature
        self._precise = precise
        # Whether the last two systems solved had the same S.
        self.repeated = False
        self._inside = torch.zeros_like(curvature, dtype=torch.bool)
        self._factored = self._inside
        self._index = torch.empty(0, dtype=torch.int64, device=curvature.device)
        self._root = torch.empty(0, 0, dtype=curvature.dtype, device=curvature.device)

    def in_double_precision(self) -> DualSystem:
        """The same systems, to be solved without single precision."""
        return DualSystem(self._space, self._curvature, precise=True)

    def solve(self, inside: Tensor, right_side: Tensor, outside: Tensor) -> Tensor:
        """beta (N,) on S = ``inside`` (N,).

        Args:
            inside: (N,) bool.
            right_side: (N,) used on S.
            outside: (N,) 0 on S: what beta is elsewhere; its margins are taken off ``right_side``.

        Returns:
            beta (N,), 0 outside of S.
        """
        self.repeated = torch.equal(inside, self._inside)
        self._inside = inside
        index = inside.nonzero()[:, 0]
        values = right_side[index]
        leaving = outside.nonzero()[:, 0]
        if len(leaving):
            entries = self._space.gram_entries(index, leaving)
            values = values - entries.to(values.dtype) @ outside[leaving]
        solution = torch.zeros_like(right_side)
        scale = values.abs().amax() if len(values) else values.new_tensor(0.0)
        if not scale > 0:
            return solution
        # Scaled, so that a small right side does not vanish in single precision.
        solution[index] = values / scale
        added, removed = self._reach(inside)
        kept, new = self._solve_bordered(solution.to(self._root.dtype), added, removed)
        solution[self._index] = kept.to(solution.dtype) * scale
        solution[added] = new.to(solution.dtype) * scale
        return solution

    def _reach(self, inside: Tensor) -> tuple[Tensor, Tensor]:
        """The rows added to those factored, and the places among these of the rows removed."""
        added = (inside & ~self._factored).nonzero()[:, 0]
        removed = (~inside)[self._index].nonzero()[:, 0]
        if (len(added) + len(removed)) * _WORTH_UPDATING <= len(self._index):
            return added, removed
        self._factor(inside)
        return added[:0], removed[:0]

    def _solve_bordered(
        self, values: Tensor, added: Tensor, removed: Tensor
    ) -> tuple[Tensor, Tensor]:
        """beta on the rows factored, 0 at the places ``removed``, and on the rows ``added``."""
        columns = values[self._index, None]
        if len(added) + len(removed) == 0:
            return torch.cholesky_solve(columns, self._root)[:, 0], values[:0]
        # Multipliers keep beta at 0 on the rows removed; the rows added border the matrix.
        start = len(removed)
        border = values.new_zeros(len(self._index), start + len(added))
        border[removed, torch.arange(start, device=border.device)] = 1
        border[:, start:] = self._cross(self._index, added)
        solved = torch.cholesky_solve(torch.cat([columns, border], dim=1), self._root)
        corner = border.T @ solved
        corner[start:, 0] -= values[added]
        corner[start:, 1 + start :] -= self._cross(added, added)
        ridge = (1 / self._curvature[added]).to(corner.dtype)
        corner[start:, 1 + start :].diagonal().sub_(ridge)
        extra = torch.linalg.solve_ex(corner[:, 1:], corner[:, 0]).result
        kept = solved[:, 0] - solved[:, 1:] @ extra
        kept[removed] = 0
        return kept, extra[start:]

    def _factor(self, inside: Tensor) -> None:
        self._factored = inside
        self._index = inside.nonzero()[:, 0]
        ridge = 1 / self._curvature[self._index]

        def matrix(dtype: torch.dtype) -> Tensor:
            if dtype is torch.float32:
                block = self._space.gram_block(self._index)
            else:
                rows = self._space.rows(self._index, dtype)
                block = rows @ rows.T
            block.diagonal().add_(ridge.to(dtype))
            return block

        self._root = _factor(matrix, ridge.dtype, float(ridge.min()), precise=self._precise)

    def _cross(self, rows: Tensor, columns: Tensor) -> Tensor:
        dtype = self._root.dtype
        if dtype is torch.float32:
            return self._space.gram_entries(rows, columns)
        return self._space.rows(rows, dtype) @ self._space.rows(columns, dtype).T


def primal_directions(space: FeatureSpace, curvature: Tensor, gradient: Tensor) -> Tensor:
    """(D, P) the Newton direction of each problem's weights.

    Args:
        space: X.
        curvature: (N, P), 0 outside of S.
        gradient: (D, P).
    """
    directions = torch.empty_like(gradient)
    for problem, weights in enumerate(curvature.T):
        index = weights.nonzero()[:, 0]
        directions[:, problem] = _primal_direction(
            space, index, weights[index], gradient[:, problem]
        )
    return directions


def _primal_direction(
    space: FeatureSpace, index: Tensor, curvature: Tensor, gradient: Tensor
) -> Tensor:
    def matrix(dtype: torch.dtype) -> Tensor:
        hessian = torch.eye(space.dim, dtype=dtype, device=gradient.device)
        step = max(1, (1 << 21) // space.dim)
        for start in range(0, len(index), step):
            part = slice(start, start + step)
            rows = space.rows(index[part], dtype)
            hessian.addmm_(rows.T, rows * curvature[part, None].to(dtype))
        return hessian

    root = _factor(matrix, gradient.dtype, 1.0, precise=space.dim <= _CHEAP_IN_DOUBLE)
    scale = gradient.abs().amax()
    scaled = (-gradient / scale).to(root.dtype)
    return torch.cholesky_solve(scaled[:, None], root)[:, 0].to(gradient.dtype) * scale


def _factor(
    matrix: Callable[[torch.dtype], Tensor], dtype: torch.dtype, smallest: float, *, precise: bool
) -> Tensor:
    """The Cholesky factor of a matrix that has no eigenvalue below ``smallest``."""
    if not precise and dtype is not torch.float32:
        single = matrix(torch.float32)
        rounding = torch.finfo(torch.float32).eps * float(single.trace())
        if rounding <= _TRUSTED_ROUNDING * smallest:
            root: Tensor
            root, failed = torch.linalg.cholesky_ex(single)
            if not failed:
                return root
    return _damped_factor(matrix(dtype))


def _damped_factor(matrix: Tensor) -> Tensor:
    """The Cholesky factor of ``matrix``, made heavier (in place) where rounding asks for it."""
    damping = torch.finfo(matrix.dtype).eps * float(matrix.trace())
    root: Tensor
    root, failed = torch.linalg.cholesky_ex(matrix)
    for _ in range(_DAMPINGS):
        if not failed:
            break
        matrix.diagonal().add_(damping)
        damping *= 10
        root, failed = torch.linalg.cholesky_ex(matrix)
    return root
