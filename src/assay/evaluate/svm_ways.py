"""By which way each of many linear SVMs is solved, and the Newton directions it gives.

Conjugate gradients serve all problems of a batch at once, and best where many rows violate their
margin; factors over these rows, in the dual, where they are few; factors over the features where
those are few. A problem that has moved to the dual stays there: at higher costs fewer rows violate.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from assay.evaluate.svm_cg import GalerkinPreconditioner, conjugate_gradients
from assay.evaluate.svm_factors import DualSystem, primal_directions
from assay.evaluate.svm_feature_space import FeatureSpace

__all__ = ["Place", "SolvingWays", "columns_of"]

# How far conjugate gradients reduce the residual of a Newton system, at least and at most.
_LOOSEST, _TIGHTEST = 0.1, 1e-2
_CG_LIMIT = 400
_FIRST_CG_GUESS = 8.0
# A product with fewer columns than this costs as much as with these.
_NARROW = 16
# Times the mean square of a row: what the residual weighs against the multiplier in the guess of
# who violates the margin.
_RESIDUAL_WEIGHT = 16.0


@dataclass(frozen=True)
class Place:
    """Some problems where they stand; columns are problems."""

    labels: Tensor  # (N, P)
    curvature: Tensor  # (N, P) 2 x cost x weight of the row
    weights: Tensor  # (D, P)
    slack: Tensor  # (N, P) 1 - y f
    pull: Tensor  # (N, P) curvature x slack where that is positive, else 0
    gradient: Tensor  # (D, P)

    def select(self, chosen: Tensor) -> Place:
        """Some of the problems."""
        return Place(*(columns_of(each, chosen) for each in vars(self).values()))


class SolvingWays:
    """The way of each of P problems, and what was learnt of it.

    Args:
        space: X.
        count: P.
        tolerance: how near the solution weights have to come, relative to their norm.
    """

    def __init__(self, space: FeatureSpace, count: int, tolerance: float) -> None:
        self._space = space
        self._tolerance = tolerance
        none = torch.zeros(count, dtype=torch.bool, device=space.device)
        self.in_dual = none
        # In the dual: whether the guess of who violates the margin has proved wrong.
        self.cautious = none.clone()
        self._cg_failed = none.clone()
        self._cg_steps = torch.full(
            (count,), _FIRST_CG_GUESS, dtype=space.dtype, device=space.device
        )
        self._gradient_norms = torch.full_like(self._cg_steps, torch.inf)
        self._systems: list[DualSystem | None] = [None] * count

    def begin_cost(self, problems: Tensor, growth: Tensor) -> None:
        """Forget what held at the last cost; the new ones are ``growth`` (P,) times as high."""
        self.cautious[problems] = False
        self._gradient_norms[problems] = torch.inf
        self._cg_steps[problems] *= growth.sqrt()
        for problem in problems.tolist():
            self._systems[problem] = None

    def move_to_dual(self, problems: Tensor, num_violating: Tensor) -> Tensor:
        """Those of ``problems`` (P,) for which the dual is the cheaper from here on."""
        if not self._space.has_gram:
            return problems[:0]
        dual, primal = self._factor_costs(num_violating)
        cg = self._cg_costs(problems)
        left = int(((cg <= dual) & (cg <= primal)).sum())
        cg = cg * max(1.0, _NARROW / max(1, left))
        moved = problems[(dual < torch.minimum(primal, cg)) & ~self.in_dual[problems]]
        self.in_dual[moved] = True
        return moved

    def doubt(self, problems: Tensor, gradient_norms: Tensor) -> None:
        """Turn to double precision where a step that did not change its set brought little."""
        slow = self.in_dual[problems] & (gradient_norms > 0.5 * self._gradient_norms[problems])
        for problem in problems[slow].tolist():
            system = self._systems[problem]
            if system is not None and system.repeated:
                self._systems[problem] = system.in_double_precision()
        self._gradient_norms[problems] = gradient_norms

    def directions(self, problems: Tensor, here: Place, beta: Tensor) -> tuple[Tensor, Tensor]:
        """(D, P) changes of the weights, and (N, P) of ``beta`` (N, P) for those in the dual."""
        change = torch.zeros_like(here.weights)
        beta_change = torch.zeros_like(here.slack)
        dual = self.in_dual[problems]
        _, primal_costs = self._factor_costs((here.pull > 0).sum(dim=0))
        primal = ~dual & (primal_costs < self._cg_costs(problems))
        chosen = dual.nonzero()[:, 0]
        if len(chosen):
            found = self._dual_changes(
                problems[chosen], here.select(chosen), columns_of(beta, chosen)
            )
            beta_change[:, chosen] = found
            change[:, chosen] = self._space.pull(found)
        chosen = primal.nonzero()[:, 0]
        if len(chosen):
            part = here.select(chosen)
            curvature = part.curvature * (part.pull > 0)
            change[:, chosen] = primal_directions(self._space, curvature, part.gradient)
        chosen = (~dual & ~primal).nonzero()[:, 0]
        if len(chosen):
            change[:, chosen] = self._cg_directions(problems[chosen], here.select(chosen))
        return change, beta_change

    def _cg_directions(self, problems: Tensor, here: Place) -> Tensor:
        curvature = (here.curvature * (here.pull > 0)).float()
        aims = 0.3 * self._tolerance * here.weights.norm(dim=0) / here.gradient.norm(dim=0)
        # Scaled, so that a small gradient does not vanish in single precision.
        scale = here.gradient.abs().amax(dim=0)
        found, steps = conjugate_gradients(
            self._space,
            curvature,
            (-here.gradient / scale).float(),
            aims.clamp(_TIGHTEST, _LOOSEST).float(),
            _CG_LIMIT,
            GalerkinPreconditioner.of(self._space, curvature),
        )
        known = self._cg_steps[problems]
        self._cg_steps[problems] = torch.maximum(steps.to(known.dtype), 0.7 * known)
        self._cg_failed[problems] = steps >= _CG_LIMIT
        return found.to(scale.dtype) * scale

    def _dual_changes(self, problems: Tensor, here: Place, beta: Tensor) -> Tensor:
        """(N, P) changes of beta."""
        least = torch.finfo(here.slack.dtype).tiny
        curvature = here.curvature.clamp_min(least)
        # At the solution the multipliers y beta are curvature x slack on S. On the way there, a row
        # belongs to S if its multiplier, corrected a little towards that, is positive.
        multipliers = here.labels * beta
        weight = here.curvature.clamp(max=_RESIDUAL_WEIGHT / self._space.mean_square)
        expected = multipliers + weight * (here.slack - multipliers / curvature)
        expected = torch.where(self.cautious[problems], here.slack, expected)
        inside = ((expected > 0) & (here.curvature > 0)).T.contiguous()
        outside = torch.where(inside, 0.0, -beta.T)
        right_side = (here.labels * here.slack - beta / curvature).T.contiguous()
        change = outside.clone()
        for place, problem in enumerate(problems.tolist()):
            system = self._systems[problem]
            if system is None:
                system = DualSystem(self._space, here.curvature[:, place].contiguous())
                self._systems[problem] = system
            change[place] += system.solve(inside[place], right_side[place], outside[place])
        return change.T.contiguous()

    def _factor_costs(self, counts: Tensor) -> tuple[Tensor, Tensor]:
        """What solving with a matrix over S, of ``counts`` (P,) rows, and over features costs."""
        counts = counts.to(self._space.dtype)
        dim = self._space.dim
        # Measured, in operations of a large matrix product; a few steps, each with its products.
        dual = 2.2 * counts**3 + 800 * counts**2
        return dual, 3 * (2.0 * counts * dim**2 + dim**3) + 800 * counts

    def _cg_costs(self, problems: Tensor) -> Tensor:
        size = float(self._space.num_rows * self._space.dim)
        costs = size * (18 * self._cg_steps[problems] + 60)
        return torch.where(self._cg_failed[problems], torch.inf, costs)


def columns_of(matrix: Tensor, chosen: Tensor) -> Tensor:
    """Columns ``chosen`` of (M, P); ``matrix`` itself when all are."""
    return matrix if len(chosen) == matrix.shape[1] else matrix.index_select(1, chosen)
