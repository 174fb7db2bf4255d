"""The figures of a timed program: how a name's intervals spread, and what an iteration holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assay.report.axes import COLUMN_PX, names_column_px, paint_name
from assay.report.inline_svg import ACCENT, INK, LINE, MUTED, PAPER, QUIET, Drawing, draw_svg
from assay.report.time_units import format_ms

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ShareRow", "SpreadRow", "share_cascade", "spread_strips"]

_PITCH = 28
_LEAST_MS = 1e-6  # a nanosecond: where a logarithmic axis has to start
_SEPARATED: dict[str, Any] = {"edgecolor": PAPER, "linewidth": 1.5, "zorder": 2}
_BOX: dict[str, Any] = {"color": ACCENT, "linewidth": 0, "zorder": 2}


@dataclass(frozen=True)
class SpreadRow:
    """How long the intervals of one name were, in milliseconds."""

    name: str
    min: float
    p5: float
    p25: float
    median: float
    p75: float
    p95: float
    max: float
    mean: float


@dataclass(frozen=True)
class ShareRow:
    """What one name takes of an iteration."""

    name: str
    share: float  # 0..1
    text: str  # beside the bar
    is_rest: bool = False  # the time under no name


def spread_strips(rows: Sequence[SpreadRow], *, width_px: int, key: str) -> str:
    """A strip a name on one logarithmic axis: the range, the middle 90 % and 50 %, the median."""
    top, bottom = 26, 4
    height = top + bottom + max(1, len(rows)) * _PITCH
    names_px = names_column_px([row.name for row in rows], width_px)
    texts_px = 14 + COLUMN_PX * max((len(format_ms(row.median)) for row in rows), default=0)
    low = min((max(row.min, _LEAST_MS) for row in rows), default=1.0)
    high = max(max((row.max for row in rows), default=1.0), 1.01 * low)

    def paint(drawing: Drawing) -> None:
        axes = drawing.axes(names_px, top, texts_px, bottom)
        axes.set_xscale("log")
        margin = (high / low) ** 0.03
        axes.set_xlim(low / margin, high * margin)
        axes.set_ylim(len(rows) * _PITCH, 0)
        _paint_time_ticks(drawing, axes, width_px - names_px - texts_px)
        left = axes.get_xlim()[0]
        for place, row in enumerate(rows):
            middle = (place + 0.5) * _PITCH
            paint_name(drawing, axes, row.name, middle, names_px, x=left)
            _paint_strip(axes, row, middle)
            text = format_ms(row.median)
            drawing.text(axes, axes.get_xlim()[1], middle, text, color=INK, shift=(10, 0))

    label = f"Strips of the durations of {len(rows)} names, on a logarithmic axis."
    return draw_svg(paint, key=key, label=label, width_px=width_px, height_px=height)


def share_cascade(rows: Sequence[ShareRow], *, width_px: int, key: str) -> str:
    """One iteration as a stacked bar, and below it a row a name, each where its part lies.

    Where parts overlap (names within names, other threads) their sum exceeds the iteration; then
    all rows start at 0 and there is no stacked bar.
    """
    total = sum(row.share for row in rows)
    is_stacked = total <= 1.005
    reach = max(1.0, max((row.share for row in rows), default=1.0))
    top, bottom, first = 24, 4, 34 if is_stacked else 0
    height = top + bottom + first + max(1, len(rows)) * _PITCH
    names_px = names_column_px([row.name for row in rows], width_px)
    texts_px = 14 + COLUMN_PX * max((len(row.text) for row in rows), default=0)

    def paint(drawing: Drawing) -> None:
        axes = drawing.axes(names_px, top, texts_px, bottom)
        axes.set_xlim(0, reach)
        axes.set_ylim(first + len(rows) * _PITCH, 0)
        for tick in (0, 0.5, 1) if width_px < 500 else (0, 0.25, 0.5, 0.75, 1):
            axes.axvline(tick, color=LINE, linewidth=1, zorder=0)
            drawing.text(axes, tick, 0, f"{100 * tick:g} %", ha="center", shift=(0, 11))
        done = 0.0
        for place, row in enumerate(rows):
            middle = first + (place + 0.5) * _PITCH
            colour = QUIET if row.is_rest else ACCENT
            start = done if is_stacked else 0.0
            paint_name(drawing, axes, row.name, middle, names_px)
            axes.barh(middle, row.share, left=start, height=10, color=colour, linewidth=0, zorder=2)
            drawing.text(axes, reach, middle, row.text, color=INK, shift=(10, 0))
            if is_stacked:
                axes.barh(14, row.share, left=start, height=18, color=colour, **_SEPARATED)
                done += row.share

    label = f"Shares of an iteration, for {len(rows)} names."
    return draw_svg(paint, key=key, label=label, width_px=width_px, height_px=height)


def _paint_strip(axes: Axes, row: SpreadRow, middle: float) -> None:
    ends = [max(value, _LEAST_MS) for value in (row.min, row.max)]
    axes.plot(ends, [middle] * 2, color=QUIET, linewidth=1, zorder=1)
    for low, high, height, alpha in ((row.p5, row.p95, 8, 0.35), (row.p25, row.p75, 12, 1.0)):
        low, high = max(low, _LEAST_MS), max(high, _LEAST_MS)
        # Never so thin that it cannot be seen.
        left, right = axes.get_xlim()
        least = (right / left) ** 0.004
        if high / low < least:
            center = math.sqrt(low * high)
            low, high = center / math.sqrt(least), center * math.sqrt(least)
        axes.barh(middle, high - low, left=low, height=height, alpha=alpha, **_BOX)
    mean = max(row.mean, _LEAST_MS)
    axes.plot([max(row.median, _LEAST_MS)] * 2, [middle - 9, middle + 9], color=INK, linewidth=1.5)
    axes.plot([mean], [middle], color=PAPER, marker="o", markersize=7, zorder=4)
    axes.plot([mean], [middle], color=MUTED, marker="o", markersize=4.5, zorder=5)


def _paint_time_ticks(drawing: Drawing, axes: Axes, pixels: float) -> None:
    """Lines at 1, 10, 100, ... of a unit, with as many of their texts as there is room for."""
    low, high = (math.log10(limit) for limit in axes.get_xlim())
    decades = range(math.ceil(low), math.floor(high) + 1)
    ticks = [10.0**decade for decade in decades]
    if len(ticks) < 2:  # within a decade: 1, 2, 5
        steps = [
            step * 10.0**d for d in range(math.floor(low), math.ceil(high)) for step in (1, 2, 5)
        ]
        ticks = [step for step in steps if low <= math.log10(step) <= high]
    if not ticks:
        ticks = [10 ** ((low + high) / 2)]
    free_from = -math.inf
    for tick in ticks:
        axes.axvline(tick, color=LINE, linewidth=1, zorder=0)
        text = _tick_text(tick)
        center = (math.log10(tick) - low) / (high - low) * pixels
        half = 0.5 * COLUMN_PX * len(text)
        if center - half >= free_from:
            drawing.text(axes, tick, 0, text, ha="center", shift=(0, 11))
            free_from = center + half + 8


def _tick_text(milliseconds: float) -> str:
    """A round duration without needless digits: 10 µs, not 10.0 µs."""
    value, _, unit = format_ms(milliseconds).partition(" ")
    try:
        return f"{float(value):g} {unit}"
    except ValueError:
        return format_ms(milliseconds)
