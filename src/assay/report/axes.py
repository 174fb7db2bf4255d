"""What the figures share: names, grids, limits and ticks, painted in CSS pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from assay.report.inline_svg import INK, LINE, Drawing
from assay.report.wording import display_width, format_number, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "COLUMN_PX",
    "log_limits",
    "names_column_px",
    "paint_log_ticks",
    "paint_name",
    "paint_y_grid",
    "score_range",
]

COLUMN_PX = 7.2  # a column of a name, at the size in which names are set


def names_column_px(names: Sequence[str], width_px: int) -> int:
    """The width of a column that holds these names, at most 36 % of the figure."""
    widest = max((display_width(name) for name in names), default=0) * COLUMN_PX
    return round(min(widest, 0.36 * width_px)) + 14


def paint_name(
    drawing: Drawing, axes: Axes, name: str, y: float, room_px: float, *, x: float = 0
) -> None:
    """A name left of ``x``, the left edge of the axes, cut to its column of ``room_px`` pixels."""
    short = shorten(name, int((room_px - 14) / COLUMN_PX) + 1)
    tooltip = name if short != name else ""
    drawing.text(axes, x, y, short, tooltip=tooltip, color=INK, ha="right", shift=(-10, 0))


def paint_y_grid(
    drawing: Drawing, axes: Axes, low: float, high: float, *, integer: bool = False
) -> None:
    """Give y the round limits that hold ``low`` and ``high``, and lines at round values."""
    from matplotlib.ticker import MaxNLocator

    locator = MaxNLocator(4, steps=[1, 2, 2.5, 5, 10], integer=integer)
    ticks = np.asarray(locator.tick_values(low, high))
    if not integer:
        ticks = ticks[ticks < 1 + 1e-9]  # each of these steps has a tick at 1
    axes.set_ylim(ticks[0], ticks[-1])
    for tick in ticks:
        axes.axhline(tick, color=LINE, linewidth=1, zorder=0, clip_on=False)
        text = f"{tick:,.0f}" if integer else format_number(round(tick, 6))
        drawing.text(axes, axes.get_xlim()[0], tick, text, ha="right", shift=(-10, 0))


def score_range(y: NDArray[np.float64]) -> tuple[float, float]:
    """The least and the greatest of the defined scores, at least 0.02 apart; 0..1 if none is."""
    defined = y[~np.isnan(y)]
    if not defined.size:
        return 0.0, 1.0
    low, high = float(defined.min()), float(defined.max())
    return max(0.0, min(low, high - 0.02)), high


def log_limits(x: NDArray[np.float64]) -> tuple[float, float]:
    """The ends of a logarithmic axis that holds ``x`` with a margin."""
    low, high = math.log10(x.min()), math.log10(x.max())
    margin = 0.04 * (high - low) or 0.5
    return 10 ** (low - margin), 10 ** (high + margin)


def paint_log_ticks(
    drawing: Drawing, axes: Axes, x: NDArray[np.float64], pixels: float, title: str
) -> None:
    """The values ``x`` below an axis of a logarithmic scale, as many as ``pixels`` hold."""
    low, high = np.log10(axes.get_xlim())
    bottom = axes.get_ylim()[0]
    free_from = -math.inf
    for value in x:
        text = format_number(value)
        center = (math.log10(value) - low) / (high - low) * pixels
        half = 0.5 * len(text) * COLUMN_PX
        if center - half >= free_from:
            drawing.text(axes, value, bottom, text, ha="center", shift=(0, -14))
            free_from = center + half + 8
    drawing.text(axes, 10 ** ((low + high) / 2), bottom, title, ha="center", shift=(0, -33))
