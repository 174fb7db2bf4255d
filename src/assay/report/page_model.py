"""What the page shows of linear SVMs: which figures, rows and images, within which limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from assay.report import figures
from assay.report.results import ClassScore, LayerScore, Results
from assay.report.run_page import PageLimits, Plot, draw_plot
from assay.report.sheet import ClassSheet, build_sheet
from assay.report.thumbnails import Thumbnails

__all__ = ["LayerView", "PageModel", "build_page"]


@dataclass(frozen=True)
class LayerView:
    """What the page shows of one layer."""

    score: LayerScore
    bar_layers: tuple[str, ...]  # the layers whose bars stand in ``bars``, this one first
    bars: Plot | None
    histogram: Plot | None
    curves: Plot
    table: tuple[tuple[ClassScore, float], ...]  # with cross-validated AP at the chosen cost
    sheet: tuple[ClassSheet, ...]


@dataclass(frozen=True)
class PageModel:
    """The whole page."""

    run: Results
    headline: LayerView
    others: tuple[LayerView, ...]
    chance: float  # the mean AP of a random ranking
    thumbnails: Thumbnails
    limits: PageLimits


def build_page(run: Results, thumbnails: Thumbnails, limits: PageLimits) -> PageModel:
    """The page of a run; makes the figures and, through ``thumbnails``, the images."""
    headline = run.headline
    others = [layer for layer in run.layers if layer is not headline]
    together = len(others) <= 2
    views = [_headline_view(run, others if together else [], thumbnails, limits)]
    for place, layer in enumerate(others[: limits.other_layers], start=1):
        views.append(_other_view(run, layer, place, thumbnails, limits, bars=not together))
    chances = [_chance(run, entry) for entry in headline.defined()]
    return PageModel(
        run=run,
        headline=views[0],
        others=tuple(views[1:]),
        chance=sum(chances) / len(chances) if chances else math.nan,
        thumbnails=thumbnails,
        limits=limits,
    )


def _headline_view(
    run: Results, beside: Sequence[LayerScore], thumbnails: Thumbnails, limits: PageLimits
) -> LayerView:
    layer = run.headline
    widths = (figures.WIDE_PX, figures.NARROW_PX)
    return LayerView(
        score=layer,
        bar_layers=tuple(entry.layer for entry in (layer, *beside)),
        bars=_bars(run, layer, beside, "headline", widths, limits.bar_rows),
        histogram=_histogram(layer, "headline", widths, limits.bar_rows),
        curves=_curves(layer, "headline", widths),
        table=_table(layer, limits.table_rows),
        sheet=build_sheet(layer, thumbnails, max_classes=limits.sheet_classes),
    )


def _other_view(
    run: Results,
    layer: LayerScore,
    place: int,
    thumbnails: Thumbnails,
    limits: PageLimits,
    *,
    bars: bool,
) -> LayerView:
    # These figures stand two in a row on a wide page, so the narrow drawing serves both.
    widths = (figures.NARROW_PX,)
    key = f"layer{place}"
    return LayerView(
        score=layer,
        bar_layers=(layer.layer,),
        bars=_bars(run, layer, [], key, widths, limits.bar_rows) if bars else None,
        histogram=_histogram(layer, key, widths, limits.bar_rows),
        curves=_curves(layer, key, widths),
        table=_table(layer, limits.other_table_rows),
        sheet=build_sheet(layer, thumbnails, max_classes=limits.other_sheet_classes),
    )


def _bars(
    run: Results,
    layer: LayerScore,
    beside: Sequence[LayerScore],
    key: str,
    widths: Sequence[int],
    most_rows: int,
) -> Plot:
    ordered = layer.weakest_first()
    others = [{entry.class_id: entry.ap for entry in other.classes} for other in beside]

    def row(entry: ClassScore) -> figures.BarRow:
        values = [entry.ap, *(aps.get(entry.class_id, math.nan) for aps in others)]
        return figures.BarRow(entry.name, tuple(values), _chance(run, entry))

    if len(ordered) <= most_rows:
        rows = [row(entry) for entry in ordered]
    else:
        # Only classes with an AP can be strongest; those without stand in the table.
        defined, half = layer.defined(), most_rows // 2
        weak, strong = defined[:half], defined[half:][-half:]
        between = f"{len(ordered) - len(weak) - len(strong):,} more classes"
        rows = [*map(row, weak), figures.BarRow(between, ()), *map(row, strong)]
    return draw_plot(partial(figures.ap_bars, rows), f"{key}-bars", widths)


def _histogram(layer: LayerScore, key: str, widths: Sequence[int], most_rows: int) -> Plot | None:
    if len(layer.classes) <= most_rows:
        return None
    values = [entry.ap for entry in layer.classes]
    return draw_plot(partial(figures.ap_histogram, values), f"{key}-histogram", widths)


def _curves(layer: LayerScore, key: str, widths: Sequence[int]) -> Plot:
    crossval_ap = np.array([entry.crossval_ap for entry in layer.classes], dtype=np.float64)
    chosen = [entry.chosen_cost for entry in layer.classes]
    draw = partial(figures.cost_curves, layer.costs, crossval_ap, chosen)
    return draw_plot(draw, f"{key}-curves", widths)


def _table(layer: LayerScore, most_rows: int) -> tuple[tuple[ClassScore, float], ...]:
    places = {cost: place for place, cost in enumerate(layer.costs)}
    rows = []
    for entry in layer.weakest_first()[:most_rows]:
        place = places.get(entry.chosen_cost)
        rows.append((entry, math.nan if place is None else entry.crossval_ap[place]))
    return tuple(rows)


def _chance(run: Results, entry: ClassScore) -> float:
    """The AP that a random ranking has on average, nearly: the share of positives."""
    images = run.facts.split("test").num_images
    return entry.num_test_positives / images if images else math.nan
