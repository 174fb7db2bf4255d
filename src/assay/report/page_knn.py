"""What the page shows of nearest neighbours: figures and tables, within which limits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from assay.report import figures
from assay.report.k_curves import MAX_SERIES, Series, k_curves
from assay.report.results_knn import KNNClass, KNNLayer, KNNPoint, KNNResults
from assay.report.run_page import PageLimits, Plot, draw_plot

__all__ = ["METRIC_NAMES", "KNNPage", "KNNView", "build_knn_page"]

METRIC_NAMES = {"top1": "top-1 accuracy", "mean_ap": "mean average precision"}


@dataclass(frozen=True)
class KNNView:
    """What the page shows of one layer."""

    score: KNNLayer
    classes: tuple[KNNClass, ...]  # the weakest, as many as the page holds


@dataclass(frozen=True)
class KNNPage:
    """The parts of the page that other kinds of runs lack."""

    metric: str  # for people
    curves: Plot
    curve_layers: tuple[str, ...]  # the layers whose curves are drawn, the headline first
    bars: Plot
    views: tuple[KNNView, ...]  # the headline first


def build_knn_page(run: KNNResults, limits: PageLimits) -> KNNPage:
    """The page of a run; makes the figures."""
    others = [layer for layer in run.layers if layer is not run.headline]
    drawn = [run.headline, *others][:MAX_SERIES]
    metric = METRIC_NAMES[run.metric]
    draw = partial(
        k_curves,
        [_series(layer) for layer in drawn],
        title="neighbours that vote, log scale",
        score=metric,
    )
    views = [KNNView(run.headline, run.headline.classes[: limits.table_rows])]
    views += [
        KNNView(layer, layer.classes[: limits.other_table_rows])
        for layer in others[: limits.other_layers]
    ]
    return KNNPage(
        metric=metric,
        curves=draw_plot(draw, "curves"),
        curve_layers=tuple(layer.layer for layer in drawn),
        bars=_bars(run, limits.bar_rows),
        views=tuple(views),
    )


def _series(layer: KNNLayer) -> Series:
    def edges(place: int) -> tuple[float, ...]:
        return tuple(_edge(point, place) for point in layer.points)

    return Series(
        name=layer.layer,
        k_values=tuple(point.k for point in layer.points),
        scores=tuple(point.score for point in layer.points),
        low=edges(0),
        high=edges(1),
    )


def _edge(point: KNNPoint, place: int) -> float:
    if point.interval is None:
        return math.nan
    return (point.interval.low, point.interval.high)[place]


def _bars(run: KNNResults, most_rows: int) -> Plot:
    """The classes of the headline; of many, the weakest and the strongest."""
    classes = run.headline.classes
    if len(classes) <= most_rows:
        rows = [_row(each) for each in classes]
    else:
        defined, half = run.headline.defined(), most_rows // 2
        weak, strong = defined[:half], defined[half:][-half:]
        between = f"{len(classes) - len(weak) - len(strong):,} more classes"
        rows = [*map(_row, weak), figures.BarRow(between, ()), *map(_row, strong)]
    name = "average precision" if run.metric == "mean_ap" else "top-1 accuracy"
    return draw_plot(partial(figures.ap_bars, rows, score=name), "bars")


def _row(each: KNNClass) -> figures.BarRow:
    return figures.BarRow(each.name, (each.value,))
