"""Differences of two scores with their intervals, as inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.report.axes import names_column_px, paint_name
from assay.report.inline_svg import ACCENT, INK, LINE, QUIET, Drawing, draw_svg
from assay.report.wording import format_difference

__all__ = ["DifferenceRow", "difference_bars"]


@dataclass(frozen=True)
class DifferenceRow:
    """One difference; scores are 0..1, so it is -1..1."""

    name: str
    value: float
    low: float
    high: float
    is_real: bool  # 0 is outside


def difference_bars(rows: Sequence[DifferenceRow], *, width_px: int, key: str) -> str:
    """A line from low to high and a dot at the difference, a row each; 0 is marked."""
    pitch, top, bottom = 28, 24, 4
    height = top + bottom + len(rows) * pitch
    names_px = names_column_px([row.name for row in rows], width_px)
    reach = max((max(abs(row.low), abs(row.high)) for row in rows), default=0.0) or 0.01

    def paint(drawing: Drawing) -> None:
        axes = drawing.axes(names_px, top, 74, bottom)
        axes.set_xlim(-1.05 * reach, 1.05 * reach)
        axes.set_ylim(len(rows) * pitch, 0)
        axes.axvline(0, color=INK, linewidth=1, zorder=1)
        for tick in (-reach, reach):
            axes.axvline(tick, color=LINE, linewidth=1, zorder=0)
            drawing.text(axes, tick, 0, format_difference(tick), ha="center", shift=(0, 11))
        drawing.text(axes, 0, 0, "0", ha="center", shift=(0, 11))
        left = axes.get_xlim()[0]
        for place, row in enumerate(rows):
            middle = (place + 0.5) * pitch
            colour = ACCENT if row.is_real else QUIET
            axes.plot([row.low, row.high], [middle] * 2, color=colour, linewidth=3)
            axes.plot([row.value], [middle], color=colour, marker="o", markersize=8)
            paint_name(drawing, axes, row.name, middle, names_px, x=left)
            text = format_difference(row.value)
            drawing.text(axes, axes.get_xlim()[1], middle, text, color=INK, shift=(10, 0))

    label = f"{len(rows)} differences with their intervals."
    return draw_svg(paint, key=key, label=label, width_px=width_px, height_px=height)
