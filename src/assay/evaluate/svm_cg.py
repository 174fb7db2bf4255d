"""Newton systems of many linear SVMs by preconditioned conjugate gradients, all at once.

The Hessian of a problem is H = I + X_S^T diag(c) X_S, S being the rows that violate their margin
and c their curvatures. Conjugate gradients need it as products with X alone, which one matrix
product does for all problems; they run in single precision, since what a direction is worth is
measured in full precision by its user.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from assay.evaluate.svm_feature_space import FeatureSpace

__all__ = ["GalerkinPreconditioner", "conjugate_gradients"]

# Directions whose mean curvature is below this add next to nothing to the identity.
_NEGLIGIBLE_CURVATURE = 0.5
_ROWS_AT_ONCE = 16384


@dataclass(frozen=True)
class GalerkinPreconditioner:
    """The inverse of H on the longest directions of X, and of its mean on all others."""

    vectors: Tensor  # (D, k) float32, orthonormal
    inverses: Tensor  # (P, k, k) float32: of H restricted to them, for each problem
    rest: Tensor  # (P,) float32: the mean eigenvalue of H elsewhere

    @classmethod
    def of(cls, space: FeatureSpace, curvature: Tensor) -> GalerkinPreconditioner:
        """For problems whose rows have the curvatures (N, P) float32, 0 outside of S."""
        basis = space.basis
        mean = curvature.mean(dim=0)
        # The directions that matter are treated exactly, the others of the basis as if S were a
        # fair sample of all rows.
        count = int((mean.max() * basis.values > _NEGLIGIBLE_CURVATURE).sum())
        inverses = torch.diag_embed(1 / (1 + mean[:, None] * basis.values))
        projected = basis.projected[:, :count]
        roots = curvature.T.sqrt()
        hessians = torch.eye(count, device=curvature.device).repeat(len(roots), 1, 1)
        for hessian, root in zip(hessians, roots, strict=True):
            for index in root.nonzero()[:, 0].split(_ROWS_AT_ONCE):
                rows = projected.index_select(0, index) * root[index, None]
                hessian.addmm_(rows.T, rows)
        inverses[:, :count, :count] = torch.cholesky_inverse(torch.linalg.cholesky(hessians))
        return cls(basis.vectors, inverses, 1 + mean * basis.rest)

    def select(self, problems: Tensor) -> GalerkinPreconditioner:
        """For some of the problems."""
        return GalerkinPreconditioner(self.vectors, self.inverses[problems], self.rest[problems])

    def __call__(self, residuals: Tensor) -> Tensor:
        """(D, P) -> (D, P)."""
        inside = self.vectors.T @ residuals
        solved = torch.bmm(self.inverses, inside.T.unsqueeze(2))[:, :, 0].T
        return (self.vectors @ (solved - inside / self.rest)).addcdiv_(residuals, self.rest)


def conjugate_gradients(
    space: FeatureSpace,
    curvature: Tensor,
    right_sides: Tensor,
    tolerances: Tensor,
    limit: int,
    precondition: GalerkinPreconditioner,
) -> tuple[Tensor, Tensor]:
    """Solve H d = b for P problems.

    Args:
        space: X.
        curvature: (N, P) float32, 0 outside of S.
        right_sides: b, (D, P) float32.
        tolerances: (P,) how far the preconditioned residual has to fall.
        limit: the number of steps after which a problem is left as it is.
        precondition: an approximate inverse of H.

    Returns:
        d (D, P), and the number of steps that each problem took (P,).
    """
    solution = torch.zeros_like(right_sides)
    steps = torch.zeros(right_sides.shape[1], dtype=torch.int64, device=right_sides.device)
    # The problems still worked on, and their columns of everything below.
    live = torch.arange(len(steps), device=steps.device)
    found = torch.zeros_like(right_sides)
    residual = right_sides.clone()
    advance = precondition(residual)
    heights = (residual * advance).sum(dim=0)
    goals = heights * tolerances.square()
    running = heights > 0
    while bool(running.any()):
        if int(running.sum()) <= 0.8 * len(live):
            solution[:, live] = found
            kept = running.nonzero()[:, 0]
            live, goals, heights, running = live[kept], goals[kept], heights[kept], running[kept]
            found, residual, advance = found[:, kept], residual[:, kept], advance[:, kept]
            curvature, precondition = curvature[:, kept], precondition.select(kept)
        image = advance + space.curvature_product(curvature, advance)
        # A problem that is done stands still until the columns are next thinned out.
        lengths = torch.where(running, heights / (advance * image).sum(dim=0), 0.0)
        found += lengths * advance
        residual -= lengths * image
        steps[live] += running
        corrected = precondition(residual)
        fallen = (residual * corrected).sum(dim=0)
        running = running & (fallen > goals) & (steps[live] < limit)
        advance = corrected + torch.where(running, fallen / heights, 0.0) * advance
        heights = torch.where(running, fallen, heights)
    solution[:, live] = found
    return solution, steps
