"""APs of every sample, k, class and cost -> the curve of mean AP against k (pure)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["LowShotPoint", "LowShotResult", "mean_over_classes", "summarise_low_shot"]


@dataclass(frozen=True)
class LowShotPoint:
    """Mean AP at one k, over S samples; all APs in 0..1.

    ``cost``, and with it ``mean``, ``max``, ``min``, ``std`` and ``class_ap``, is chosen as
    published: it maximises the mean test AP, so it has looked at the test data. The ``crossval_``
    figures have not: each sample's cost is the one of its own best cross-validated mean AP. They
    are NaN where some class has fewer positives than folds.
    """

    low_shot_kvalue: int
    cost: float  # the lowest of those whose mean over samples is highest
    mean: float  # over samples, of the mean test AP over classes at that cost
    max: float
    min: float
    std: float  # population standard deviation over samples
    class_ap: NDArray[np.float64]  # (C,) test AP at that cost, mean over samples; NaN = undefined
    crossval_costs: NDArray[np.float64]  # (S,) chosen by cross-validation, for each sample
    crossval_mean: float  # over samples, of the mean test AP at these costs
    crossval_std: float  # population standard deviation over samples

    def percent(self) -> dict[str, float]:
        """The figures in percent with two decimals, and the cost.

        ``crossval_mean`` and ``crossval_std`` are there only where k permits cross-validation.
        """
        names = ["mean", "max", "min", "std"]
        if not math.isnan(self.crossval_mean):
            names += ["crossval_mean", "crossval_std"]
        figures = {name: round(100 * float(getattr(self, name)), 2) for name in names}
        return {**figures, "cost": self.cost}


@dataclass(frozen=True)
class LowShotResult:
    """How well the features of one layer tell classes apart after V numbers of images a class."""

    layer: str
    class_ids: tuple[int, ...]  # C
    costs: NDArray[np.float64]  # (K,)
    k_values: tuple[int, ...]  # V
    sample_inds: tuple[int, ...]  # S
    test_ap: NDArray[np.float64]  # (V, S, C, K) interpolated AP in 0..1; NaN: no positive test row
    crossval_ap: NDArray[np.float64]  # (V, S, C, K) step AP in 0..1; NaN: k is below the folds
    points: tuple[LowShotPoint, ...]  # V, in the order of k_values

    @property
    def mean_ap(self) -> NDArray[np.float64]:
        """(V, S, K) mean test AP over the classes that have one."""
        return mean_over_classes(self.test_ap, axis=2)


def mean_over_classes(aps: NDArray[np.float64], *, axis: int) -> NDArray[np.float64]:
    """The mean over ``axis`` of what is not NaN; NaN where all is."""
    defined = ~np.isnan(aps)
    sums = np.where(defined, aps, 0.0).sum(axis=axis)
    counts = defined.sum(axis=axis)
    means = np.full(sums.shape, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means


def summarise_low_shot(
    layer: str,
    class_ids: tuple[int, ...],
    costs: NDArray[np.float64],
    k_values: tuple[int, ...],
    sample_inds: tuple[int, ...],
    test_ap: NDArray[np.float64],
    crossval_ap: NDArray[np.float64],
) -> LowShotResult:
    """One point for each k; shapes are those of :class:`LowShotResult`."""
    points = tuple(
        _point(k, costs, tested, crossval)
        for k, tested, crossval in zip(k_values, test_ap, crossval_ap, strict=True)
    )
    return LowShotResult(
        layer, class_ids, costs, k_values, sample_inds, test_ap, crossval_ap, points
    )


def _point(
    kvalue: int,
    costs: NDArray[np.float64],
    test_ap: NDArray[np.float64],
    crossval_ap: NDArray[np.float64],
) -> LowShotPoint:
    """Of one k: ``test_ap`` and ``crossval_ap`` are (S, C, K)."""
    mean_ap = mean_over_classes(test_ap, axis=1)
    best = _best(mean_ap.mean(axis=0)[np.newaxis], costs)[0]
    at_best = mean_ap[:, best]
    # Whole rows or none: a sample is cross-validated for all classes or not at all.
    chosen = _best(crossval_ap.mean(axis=1), costs)
    permitted = not np.isnan(crossval_ap).any()
    honest = mean_ap[np.arange(len(chosen)), chosen] if permitted else np.full(len(chosen), np.nan)
    return LowShotPoint(
        low_shot_kvalue=kvalue,
        cost=float(costs[best]),
        mean=float(at_best.mean()),
        max=float(at_best.max()),
        min=float(at_best.min()),
        std=float(at_best.std()),
        class_ap=mean_over_classes(test_ap[:, :, best], axis=0),
        crossval_costs=np.where(permitted, costs[chosen], np.nan),
        crossval_mean=float(honest.mean()),
        crossval_std=float(honest.std()),
    )


def _best(aps: NDArray[np.float64], costs: NDArray[np.float64]) -> NDArray[np.int64]:
    """The place of the highest AP in each row (R, K), of equals that of the lowest cost."""
    by_cost = np.argsort(costs, kind="stable")
    comparable = np.where(np.isnan(aps), -np.inf, aps)
    return np.asarray(by_cost[np.argmax(comparable[:, by_cost], axis=1)], np.int64)
