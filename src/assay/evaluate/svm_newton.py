"""Newton's method on a batch of linear SVMs that share X, each on its way up its costs.

Every problem is 1/2 ||w||^2 + sum_i C_i max(0, 1 - y_i w.x_i)^2, convex and piecewise quadratic:
Newton steps with a line search end at its one minimum, from any start and after finitely many
steps. In each round every problem takes one step, so that products with X are shared by all of
them, whatever their cost; one that has converged goes on to its next cost, and starts there from
where its last two solutions lead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from assay.evaluate.svm_feature_space import FeatureSpace
from assay.evaluate.svm_line_search import line_search
from assay.evaluate.svm_ways import Place, SolvingWays, columns_of

__all__ = ["PathBatch", "Solved"]

# Times the mean square of a row: the cost at which solutions begin to grow more slowly.
_BENDING_COST = 6.0
# A step shorter than this says that the guess of who violates the margin was wrong.
_SHORT = 0.1


@dataclass(frozen=True)
class Solved:
    """Solutions of M problems, each at one cost."""

    problems: Tensor  # (M,) int64: their places in the batch
    cost_places: Tensor  # (M,) int64
    weights: Tensor  # (M, D)
    objectives: Tensor  # (M,)
    gradient_norms: Tensor  # (M,)
    converged: Tensor  # (M,) bool
    iterations: Tensor  # (M,) int64: Newton steps


class PathBatch:
    """P problems, each with its labels, rows and costs.

    Args:
        space: X.
        labels: (N, P) of +1 and -1.
        row_weights: (N, P) what a row's cost is multiplied by; 0 leaves it out.
        costs: (P, K) ascending; a problem with fewer costs has its last repeated.
        num_costs: (P,) how many of them are its own.
        tolerance: a problem has converged when its weights are certain to be this near to the
            solution's, relative to their norm.
        max_iter: Newton steps at each cost.
    """

    def __init__(
        self,
        space: FeatureSpace,
        labels: Tensor,
        row_weights: Tensor,
        costs: Tensor,
        num_costs: Tensor,
        *,
        tolerance: float,
        max_iter: int,
    ) -> None:
        self._space = space
        self._labels = labels
        self._row_weights = row_weights
        self._costs = costs
        self._num_costs = num_costs
        self._tolerance = tolerance
        self._max_iter = max_iter
        count = labels.shape[1]
        # Weights, their margins, and beta such that the weights are X^T beta: exactly so for
        # problems solved in the dual, as good as solved for the others.
        self._weights = labels.new_zeros(space.dim, count)
        self._margins = torch.zeros_like(labels)
        self._beta = torch.zeros_like(labels) if space.has_gram else labels[:0]
        self._last = tuple(each.clone() for each in self._state)
        self._curvature = 2 * costs[:, 0] * row_weights
        self._cost_places = torch.zeros_like(num_costs)
        self._iterations = torch.zeros_like(num_costs)
        self._settled = torch.zeros(count, dtype=torch.bool, device=labels.device)
        self._stuck = torch.zeros_like(self._settled)
        self._ways = SolvingWays(space, count, tolerance)

    @property
    def _state(self) -> tuple[Tensor, Tensor, Tensor]:
        return self._weights, self._margins, self._beta

    def run(self, report: Callable[[Solved], None], stopped: Callable[[], bool]) -> None:
        """Solve all; ``report`` is called with solutions as they come, till ``stopped`` is true."""
        live = torch.arange(self._labels.shape[1], device=self._labels.device)
        self._choose_ways(live)
        while len(live) and not stopped():
            here = self._look(live)
            finished = self._judge(live, here, report)
            if bool(finished.any()):
                chosen = finished.nonzero()[:, 0]
                duals = columns_of(here.pull, chosen) * columns_of(here.labels, chosen)
                self._go_on(live[chosen], duals)
                done = self._cost_places[live] >= self._num_costs[live]
                # In the dual the first step at a cost needs no gradient and is taken at once.
                stepping = ~done & (~finished | self._ways.in_dual[live])
                here = self._look(
                    live[stepping], columns_of(here.gradient, stepping.nonzero()[:, 0])
                )
                self._take_step(live[stepping], here)
                live = live[~done]
            else:
                self._take_step(live, here)

    def _look(self, live: Tensor, gradient: Tensor | None = None) -> Place:
        """Where problems stand; ``gradient`` if that is known or will not be used."""
        labels = columns_of(self._labels, live)
        curvature = columns_of(self._curvature, live)
        weights = columns_of(self._weights, live)
        slack = 1 - labels * columns_of(self._margins, live)
        pull = slack.clamp_min(0).mul_(curvature)
        if gradient is None:
            gradient = weights - self._space.pull(pull * labels)
        return Place(labels, curvature, weights, slack, pull, gradient)

    def _judge(self, live: Tensor, here: Place, report: Callable[[Solved], None]) -> Tensor:
        """(P,) bool: which problems are through with their cost; they are reported."""
        norms = here.weights.norm(dim=0)
        gradient_norms = here.gradient.norm(dim=0)
        self._ways.doubt(live, gradient_norms)
        # The objective is at least as curved as 1/2 ||w||^2: the solution is no farther away than
        # the gradient is long.
        good = (gradient_norms <= self._tolerance * norms) | self._settled[live]
        iterations = self._iterations[live]
        finished: Tensor = good | self._stuck[live] | (iterations >= self._max_iter)
        if bool(finished.any()):
            objectives = 0.5 * (norms.square() + (here.pull * here.slack).sum(dim=0))
            report(
                Solved(
                    problems=live[finished],
                    cost_places=self._cost_places[live[finished]],
                    weights=here.weights[:, finished].T,
                    objectives=objectives[finished],
                    gradient_norms=gradient_norms[finished],
                    converged=good[finished],
                    iterations=iterations[finished],
                )
            )
        return finished

    def _go_on(self, arrived: Tensor, duals: Tensor) -> None:
        """Take problems that are through with a cost to where their next one starts."""
        if self._space.has_gram:
            solved_otherwise = ~self._ways.in_dual[arrived]
            self._beta[:, arrived[solved_otherwise]] = duals[:, solved_otherwise]
        self._cost_places[arrived] += 1
        going = arrived[self._cost_places[arrived] < self._num_costs[arrived]]
        if len(going) == 0:
            return
        places = self._cost_places[going]
        costs, reached = self._costs[going, places], self._costs[going, places - 1]
        left = torch.where(places > 1, self._costs[going, (places - 2).clamp_min(0)], 0.0)
        self._curvature[:, going] = 2 * costs * columns_of(self._row_weights, going)
        self._iterations[going] = 0
        self._settled[going] = False
        self._stuck[going] = False
        self._ways.begin_cost(going, costs / reached)
        self._follow_path(going, self._smooth_length(left, reached, costs))
        self._choose_ways(going)

    def _smooth_length(self, left: Tensor, reached: Tensor, costs: Tensor) -> Tensor:
        """How far a step from cost ``left`` to ``reached`` leads on to ``costs``; all (P,)."""
        bend = _BENDING_COST / self._space.mean_square
        before = 1 / (left + bend) - 1 / (reached + bend)
        after = 1 / (reached + bend) - 1 / (costs + bend)
        return torch.where(before > 0, after / before, 0.0)

    def _follow_path(self, going: Tensor, smooth: Tensor) -> None:
        here = self._look(going, self._weights[:, :0])
        state = [each.index_select(1, going) for each in self._state]
        changes = [
            now - last.index_select(1, going) for now, last in zip(state, self._last, strict=True)
        ]
        ahead = -here.labels * changes[1]
        inner = (here.weights * changes[0]).sum(dim=0)
        searched = line_search(
            here.slack,
            ahead,
            here.curvature,
            inner,
            changes[0].square().sum(dim=0),
            inner + (here.pull * ahead).sum(dim=0),
            start=0.5,
        )
        length = torch.where(self._ways.in_dual[going], smooth, searched)
        for each, last, now, change in zip(self._state, self._last, state, changes, strict=True):
            last[:, going] = now
            each[:, going] = now + length * change

    def _choose_ways(self, problems: Tensor) -> None:
        """Move problems to the dual for which it is the cheaper from here on."""
        here = self._look(problems, self._weights[:, :0])
        moved = self._ways.move_to_dual(problems, (here.pull > 0).sum(dim=0))
        if len(moved):
            weights = self._space.pull(columns_of(self._beta, moved))
            self._weights[:, moved] = weights
            self._margins[:, moved] = self._space.margins(weights)

    def _take_step(self, problems: Tensor, here: Place) -> None:
        if len(problems) == 0:
            return
        dual = self._ways.in_dual[problems]
        fresh = dual & (self._iterations[problems] == 0)
        beta = columns_of(self._beta, problems)
        change, beta_change = self._ways.directions(problems, here, beta)
        margins_change = self._space.margins(change)
        slope = (here.gradient * change).sum(dim=0)
        length = line_search(
            here.slack,
            -here.labels * margins_change,
            here.curvature,
            (here.weights * change).sum(dim=0),
            change.square().sum(dim=0),
            torch.where(fresh, 0.0, slope),
        )
        # What the dual expects of a new cost is good enough to go there all the way.
        length = torch.where(fresh, 1.0, length)
        decrement = -slope * length
        aim = (self._tolerance * here.weights.norm(dim=0)).square()
        self._settled[problems] = ~fresh & (decrement > 0) & (decrement <= aim)
        self._stuck[problems] = (length == 0) & (self._ways.cautious[problems] | ~dual)
        self._ways.cautious[problems] |= dual & (length < _SHORT)
        self._iterations[problems] += 1
        _add(self._weights, problems, length * change)
        _add(self._margins, problems, length * margins_change)
        if bool(dual.any()):
            _add(self._beta, problems, length * beta_change)


def _add(matrix: Tensor, chosen: Tensor, change: Tensor) -> None:
    if len(chosen) == matrix.shape[1]:
        matrix += change
    else:
        matrix.index_add_(1, chosen, change)
