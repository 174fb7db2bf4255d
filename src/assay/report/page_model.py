"""What the page shows of a run: which figures, rows and images, within which limits."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.report import figures
from assay.report.results import ClassScore, LayerScore, Results
from assay.report.sheet import ClassSheet, build_sheet
from assay.report.thumbnails import Thumbnails
from assay.report.wording import format_duration

__all__ = ["LayerView", "PageLimits", "PageModel", "Plot", "Stage", "build_page"]


@dataclass(frozen=True)
class PageLimits:
    """How much one page holds, so that it stays below 5 MB; it says what it leaves out."""

    image_bytes: int = 2_200_000
    bar_rows: int = 40  # with more classes: the weakest and the strongest 20, and a histogram
    sheet_classes: int = 40
    other_layers: int = 8
    other_sheet_classes: int = 10
    table_rows: int = 2_000
    other_table_rows: int = 100
    stages: int = 16
    skipped: int = 200
    settings_characters: int = 60_000


@dataclass(frozen=True)
class Plot:
    """One figure as inline SVG, drawn for a wide page and for a phone."""

    wide: str
    narrow: str


@dataclass(frozen=True)
class Stage:
    """One part of the run's time."""

    name: str
    elapsed_s: float
    share: float  # 0..1


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
    stages: tuple[Stage, ...]
    total_s: float
    time: Plot | None
    settings: str
    versions: Mapping[str, Any]
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
    stages = tuple(_stages(run.timings, limits.stages))
    return PageModel(
        run=run,
        headline=views[0],
        others=tuple(views[1:]),
        chance=sum(chances) / len(chances) if chances else math.nan,
        stages=stages,
        total_s=sum(seconds for _, seconds in run.timings),
        time=_time_plot(stages) if stages else None,
        settings="\n".join(_flat("", run.settings)),
        versions={"assay": run.assay_version, **run.versions},
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
    return _plot([figures.ap_bars(rows, width_px=px, key=f"{key}-bars-{px}") for px in widths])


def _histogram(layer: LayerScore, key: str, widths: Sequence[int], most_rows: int) -> Plot | None:
    if len(layer.classes) <= most_rows:
        return None
    values = [entry.ap for entry in layer.classes]
    return _plot(
        [figures.ap_histogram(values, width_px=px, key=f"{key}-histogram-{px}") for px in widths]
    )


def _curves(layer: LayerScore, key: str, widths: Sequence[int]) -> Plot:
    crossval_ap = np.array([entry.crossval_ap for entry in layer.classes], dtype=np.float64)
    chosen = [entry.chosen_cost for entry in layer.classes]
    return _plot(
        [
            figures.cost_curves(
                layer.costs, crossval_ap, chosen, width_px=px, key=f"{key}-curves-{px}"
            )
            for px in widths
        ]
    )


def _time_plot(stages: Sequence[Stage]) -> Plot:
    rows = [
        (stage.name, stage.elapsed_s, f"{format_duration(stage.elapsed_s)} · {stage.share:.0%}")
        for stage in stages
    ]
    return _plot(
        [
            figures.time_bars(rows, width_px=px, key=f"time-{px}")
            for px in (figures.WIDE_PX, figures.NARROW_PX)
        ]
    )


def _plot(drawings: Sequence[str]) -> Plot:
    return Plot(wide=drawings[0] if len(drawings) > 1 else "", narrow=drawings[-1])


def _table(layer: LayerScore, most_rows: int) -> tuple[tuple[ClassScore, float], ...]:
    places = {cost: place for place, cost in enumerate(layer.costs)}
    rows = []
    for entry in layer.weakest_first()[:most_rows]:
        place = places.get(entry.chosen_cost)
        rows.append((entry, math.nan if place is None else entry.crossval_ap[place]))
    return tuple(rows)


def _chance(run: Results, entry: ClassScore) -> float:
    """The AP that a random ranking has on average, nearly: the share of positives."""
    images = run.split("test").num_images
    return entry.num_test_positives / images if images else math.nan


def _stages(timings: Sequence[tuple[str, float]], most: int) -> Iterator[Stage]:
    """In the order in which they ran; of many, the longest, and the rest as one."""
    total = sum(seconds for _, seconds in timings) or 1.0
    places = range(len(timings))
    if len(timings) > most:
        longest = sorted(places, key=lambda place: -timings[place][1])[: most - 1]
        rest = sum(timings[place][1] for place in set(places) - set(longest))
        shown = [timings[place] for place in sorted(longest)]
        shown.append((f"{len(timings) - len(longest)} shorter stages", rest))
    else:
        shown = list(timings)
    for name, seconds in shown:
        yield Stage(name, seconds, seconds / total)


def _flat(prefix: str, value: Any) -> Iterator[str]:
    """Nested settings as ``a.b=value`` lines, as the command line takes them."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else str(key), item)
    else:
        yield f"{prefix}={json.dumps(value, ensure_ascii=False, default=str)}"
