"""The report's figures, as inline SVG: one drawing for a wide page, one for a phone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from assay.report.axes import (
    COLUMN_PX,
    log_limits,
    names_column_px,
    paint_log_ticks,
    paint_name,
    paint_y_grid,
    score_range,
)
from assay.report.inline_svg import ACCENT, INK, LINE, MUTED, PAPER, QUIET, Drawing, draw_svg
from assay.report.wording import display_width, format_score

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["NARROW_PX", "WIDE_PX", "BarRow", "ap_bars", "ap_histogram", "cost_curves", "time_bars"]

WIDE_PX = 800
NARROW_PX = 340

_SERIES_COLOURS = (ACCENT, MUTED, QUIET)
_MAX_CURVES = 40  # more classes than this are drawn as bands


@dataclass(frozen=True)
class BarRow:
    """One row of horizontal bars."""

    name: str
    values: tuple[float, ...]  # 0..1, one a layer, NaN where undefined; () for a row of text alone
    chance: float = math.nan  # what a random ranking scores, marked by a tick


def ap_bars(
    rows: Sequence[BarRow], *, width_px: int, key: str, score: str = "average precision"
) -> str:
    """Scores as horizontal bars, a row a class, at most three bars a row."""
    num_bars = max((len(row.values) for row in rows), default=1)
    pitch = 17 + 8 * num_bars
    top, bottom = 24, 4
    room_px = names_column_px([row.name for row in rows if row.values], width_px)

    def paint(drawing: Drawing) -> None:
        axes = drawing.axes(room_px, top, 56, bottom)
        axes.set_xlim(0, 1)
        axes.set_ylim(len(rows) * pitch, 0)
        for tick in (0, 0.25, 0.5, 0.75, 1):
            axes.axvline(tick, color=LINE, linewidth=1, zorder=0)
            drawing.text(axes, tick, 0, f"{tick:g}", ha="center", shift=(0, 11))
        for place, row in enumerate(rows):
            _paint_bar_row(drawing, axes, row, (place + 0.5) * pitch, room_px)

    label = f"Bars of {score} for {sum(bool(row.values) for row in rows)} classes."
    height = top + bottom + len(rows) * pitch
    return draw_svg(paint, key=key, label=label, width_px=width_px, height_px=height)


def _paint_bar_row(
    drawing: Drawing, axes: Axes, row: BarRow, middle: float, room_px: float
) -> None:
    if not row.values:
        drawing.text(axes, 0, middle, row.name, shift=(8, 0))
        return
    heights = [10] + [5] * (len(row.values) - 1)
    y = middle - (sum(heights) + 2 * (len(heights) - 1)) / 2
    first_middle = y + heights[0] / 2
    paint_name(drawing, axes, row.name, first_middle, room_px)
    for value, height, colour in zip(row.values, heights, _SERIES_COLOURS, strict=False):
        if not math.isnan(value):
            axes.barh(y + height / 2, value, height=height, color=colour, linewidth=0, zorder=2)
        y += height + 2
    if math.isnan(row.values[0]):
        drawing.text(axes, 0, first_middle, "no positive test image", shift=(8, 0))
        return
    if not math.isnan(row.chance):
        notch = ([row.chance] * 2, [first_middle - 8, first_middle + 8])
        axes.plot(*notch, color=PAPER, linewidth=3.5, clip_on=False)
        axes.plot(*notch, color=INK, linewidth=1.25, clip_on=False)
    drawing.text(axes, 1, first_middle, format_score(row.values[0]), color=INK, shift=(10, 0))


def ap_histogram(values: Sequence[float], *, width_px: int, key: str) -> str:
    """How many classes have which average precision, in 20 bins of 0..1; NaN is left out."""
    defined = np.array([value for value in values if not math.isnan(value)])
    counts, edges = np.histogram(defined, bins=20, range=(0, 1))

    def paint(drawing: Drawing) -> None:
        axes = drawing.axes(46, 16, 14, 30)
        axes.set_xlim(0, 1)
        paint_y_grid(drawing, axes, 0, max(1, counts.max()), integer=True)
        axes.bar(edges[:-1] + 0.025, counts, width=0.043, color=ACCENT, linewidth=0, zorder=2)
        for tick in (0, 0.25, 0.5, 0.75, 1):
            drawing.text(axes, tick, 0, f"{tick:g}", ha="center", shift=(0, -14))

    label = f"Histogram of the average precision of {len(defined)} classes."
    return draw_svg(paint, key=key, label=label, width_px=width_px, height_px=210)


def cost_curves(
    costs: Sequence[float],
    crossval_ap: NDArray[np.float64],
    chosen_cost: Sequence[float],
    *,
    width_px: int,
    key: str,
) -> str:
    """Cross-validated average precision against cost, and how many classes chose each cost.

    Args:
        costs: (K,) positive; the axis is logarithmic.
        crossval_ap: (C, K), NaN where undefined. Up to 40 classes are drawn as thin curves, more as
            bands that hold the middle 50 % and 90 % of them.
        chosen_cost: (C,).
        width_px: width in CSS pixels.
        key: begins every id in the drawing.
    """
    order = np.argsort(costs)
    x = np.asarray(costs, dtype=np.float64)[order]
    y = np.asarray(crossval_ap, dtype=np.float64)[:, order]
    height, strip_px, left, right = 330, 34, 46, 18
    limits = log_limits(x)
    mean = _nan_mean(y)
    bands = _bands(y) if len(y) > _MAX_CURVES else []

    def paint(drawing: Drawing) -> None:
        curves = drawing.axes(left, 10, right, strip_px + 66)
        curves.set_xscale("log")
        curves.set_xlim(*limits)
        paint_y_grid(drawing, curves, *score_range(np.vstack([mean, *(bands or y)])))
        for low, high in bands:
            curves.fill_between(x, low, high, color=QUIET, alpha=0.35, linewidth=0)
        if not bands:
            _paint_curves(curves, x, y, chosen_cost)
        marker = "o" if len(x) == 1 else None
        curves.plot(x, mean, color=ACCENT, linewidth=3, marker=marker, clip_on=False)
        strip = drawing.axes(left, height - strip_px - 42, right, 42)
        strip.set_xscale("log")
        strip.set_xlim(*limits)
        _paint_choices(drawing, strip, x, chosen_cost)
        paint_log_ticks(drawing, strip, x, width_px - left - right, "cost C, log scale")

    label = (
        f"Curves of cross-validated average precision against {len(x)} costs, for {len(y)} classes."
    )
    return draw_svg(paint, key=key, label=label, width_px=width_px, height_px=height)


def _paint_curves(
    axes: Axes, x: NDArray[np.float64], y: NDArray[np.float64], chosen_cost: Sequence[float]
) -> None:
    for curve, cost in zip(y, chosen_cost, strict=True):
        axes.plot(x, curve, color=QUIET, linewidth=1, clip_on=False)
        at = np.flatnonzero(x == cost)
        axes.plot(x[at], curve[at], color=QUIET, marker="o", markersize=5, clip_on=False)


def _bands(y: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Lower and upper edges, each (2, K), of the middle 90 % and 50 % of the columns of ``y``."""
    known = y[~np.isnan(y).any(axis=1)]
    if not len(known):
        return [np.full((2, y.shape[1]), np.nan)]
    return [np.percentile(known, [tail, 100 - tail], axis=0) for tail in (5, 25)]


def _paint_choices(
    drawing: Drawing, axes: Axes, x: NDArray[np.float64], chosen_cost: Sequence[float]
) -> None:
    counts = [sum(cost == value for cost in chosen_cost) for value in x]
    axes.set_ylim(0, max(counts, default=1) or 1)
    axes.axhline(0, color=LINE, linewidth=1, zorder=0, clip_on=False)
    for value, count in zip(x, counts, strict=True):
        if count:
            axes.plot([value] * 2, [0, count], color=ACCENT, linewidth=8, solid_capstyle="butt")
            drawing.text(axes, value, count, f"{count:,}", color=INK, ha="center", shift=(0, 9))


def time_bars(stages: Sequence[tuple[str, float, str]], *, width_px: int, key: str) -> str:
    """How long each stage took: name, seconds, and the text beside its bar."""
    pitch = 28
    height = max(1, len(stages)) * pitch
    longest = max((seconds for _, seconds, _ in stages), default=0.0) or 1.0
    room_px = names_column_px([name for name, _, _ in stages], width_px)
    texts_px = 14 + max((display_width(text) for *_, text in stages), default=0) * COLUMN_PX

    def paint(drawing: Drawing) -> None:
        axes = drawing.axes(room_px, 0, texts_px, 0)
        axes.set_xlim(0, longest)
        axes.set_ylim(height, 0)
        axes.axvline(0, color=LINE, linewidth=1, zorder=0)
        for place, (name, seconds, text) in enumerate(stages):
            middle = (place + 0.5) * pitch
            paint_name(drawing, axes, name, middle, room_px)
            axes.barh(middle, seconds, height=10, color=ACCENT, linewidth=0, zorder=2)
            drawing.text(axes, seconds, middle, text, color=INK, shift=(10, 0))

    label = f"Bars of the time that {len(stages)} stages took."
    return draw_svg(paint, key=key, label=label, width_px=width_px, height_px=height)


def _nan_mean(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of each column over its defined entries; NaN, without a warning, where none is."""
    defined = ~np.isnan(y)
    counts = defined.sum(axis=0)
    mean = np.full(y.shape[1], np.nan)
    np.divide(np.where(defined, y, 0).sum(axis=0), counts, out=mean, where=counts > 0)
    return mean
