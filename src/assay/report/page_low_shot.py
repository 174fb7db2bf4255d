"""What the page shows of low-shot SVMs: the curve, and which tables, within which limits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from assay.report.k_curves import MAX_SERIES, Series, k_curves
from assay.report.results_low_shot import LowShotClass, LowShotLayer, LowShotResults
from assay.report.run_page import PageLimits, Plot, draw_plot

__all__ = ["LowShotPage", "LowShotView", "build_low_shot_page"]


@dataclass(frozen=True)
class LowShotView:
    """What the page shows of one layer."""

    score: LowShotLayer
    classes: tuple[LowShotClass, ...]  # the weakest, as many as the page holds


@dataclass(frozen=True)
class LowShotPage:
    """The parts of the page that other kinds of runs lack."""

    curves: Plot
    curve_layers: tuple[str, ...]  # the layers whose curves are drawn, the headline first
    views: tuple[LowShotView, ...]  # the headline first


def build_low_shot_page(run: LowShotResults, limits: PageLimits) -> LowShotPage:
    """The page of a run; makes the figure."""
    others = [layer for layer in run.layers if layer is not run.headline]
    drawn = [run.headline, *others][:MAX_SERIES]
    draw = partial(
        k_curves,
        [_series(layer) for layer in drawn],
        title="images a class, log scale",
        score="mean average precision",
    )
    views = [LowShotView(run.headline, run.headline.classes[: limits.table_rows])]
    views += [
        LowShotView(layer, layer.classes[: limits.other_table_rows])
        for layer in others[: limits.other_layers]
    ]
    return LowShotPage(
        curves=draw_plot(draw, "curves"),
        curve_layers=tuple(layer.layer for layer in drawn),
        views=tuple(views),
    )


def _series(layer: LowShotLayer) -> Series:
    return Series(
        name=layer.layer,
        k_values=tuple(point.k for point in layer.points),
        scores=tuple(point.mean_ap for point in layer.points),
        low=tuple(point.mean_ap - point.std for point in layer.points),
        high=tuple(point.mean_ap + point.std for point in layer.points),
    )
