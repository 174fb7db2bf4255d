"""Scores against the number k of images or neighbours, as inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assay.report.axes import log_limits, paint_log_ticks, paint_y_grid, score_range
from assay.report.inline_svg import ACCENT, MUTED, QUIET, Drawing, draw_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MAX_SERIES", "Series", "k_curves"]

_COLOURS = (ACCENT, MUTED, QUIET)
MAX_SERIES = len(_COLOURS)


@dataclass(frozen=True)
class Series:
    """One curve with its band; all V long, NaN where undefined."""

    name: str
    k_values: tuple[int, ...]  # rising
    scores: tuple[float, ...]  # 0..1
    low: tuple[float, ...]  # lower edge of the band
    high: tuple[float, ...]


def k_curves(series: Sequence[Series], *, width_px: int, key: str, title: str, score: str) -> str:
    """Up to three curves with bands; k is on a logarithmic axis.

    Args:
        series: the one that matters most first; those beyond the third are not drawn.
        width_px: width in CSS pixels.
        key: begins every id in the drawing.
        title: what stands below the axis of k.
        score: what is drawn, for people who do not see it.
    """
    shown = series[:MAX_SERIES]
    k_values = np.array(sorted({k for each in shown for k in each.k_values}), np.float64)
    left, right, height = 46, 18, 300
    edges = np.array([x for each in shown for x in (*each.scores, *each.low, *each.high)])

    def paint(drawing: Drawing) -> None:
        axes = drawing.axes(left, 10, right, 46)
        axes.set_xscale("log")
        axes.set_xlim(*log_limits(k_values))
        low, high = score_range(edges)
        paint_y_grid(drawing, axes, low, min(1.0, high))
        for place in reversed(range(len(shown))):
            _paint_series(axes, shown[place], _COLOURS[place])
        paint_log_ticks(drawing, axes, k_values, width_px - left - right, title)

    label = f"Curves of {score} against {len(k_values)} values of k, for {len(shown)} layers."
    return draw_svg(paint, key=key, label=label, width_px=width_px, height_px=height)


def _paint_series(axes: Axes, each: Series, colour: str) -> None:
    k_values = np.array(each.k_values, np.float64)
    # A mean less its deviation may lie beyond what a score can be.
    low, high = np.clip(each.low, 0, 1), np.clip(each.high, 0, 1)
    axes.fill_between(k_values, low, high, color=colour, alpha=0.18, linewidth=0)
    first = colour == _COLOURS[0]
    axes.plot(
        k_values,
        np.array(each.scores),
        color=colour,
        linewidth=3 if first else 1.5,
        marker="o",
        markersize=6 if first else 4,
        clip_on=False,
    )
