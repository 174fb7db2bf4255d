"""Tables for the terminal, at most 80 columns wide where their texts allow it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from assay.report.results import LayerScore, read_results
from assay.report.wording import (
    display_width,
    format_number,
    format_score,
    printable,
    shorten,
    shorten_middle,
)

if TYPE_CHECKING:
    from rich.console import JustifyMethod, RenderableType

__all__ = ["environment_table", "results_table"]

_WIDTH = 80
_LAYER_COLUMNS = 20
_HEADINGS = ("Layer", "mAP", "Dim", "Cost", "Weakest class", "Strongest class")
_GAP = 2


def results_table(results: Mapping[str, Any]) -> RenderableType:
    """One row a layer: mAP, feature dimension, chosen costs, weakest and strongest class.

    Args:
        results: what ``results.json`` holds. An undefined AP may be ``None`` or NaN.

    Raises:
        DataError: a key is missing, or another version or kind of run wrote the results.
    """
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    run = read_results(results)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, _GAP - 1, 0, 0))
    for heading in _HEADINGS:
        justify: JustifyMethod = "right" if heading in ("mAP", "Dim", "Cost") else "left"
        table.add_column(heading, justify=justify, no_wrap=True)
    for layer, cells in zip(run.layers, _rows(run.layers), strict=True):
        style = "bold" if layer is run.headline and len(run.layers) > 1 else ""
        # Text, not str: a class may be called "[red]".
        table.add_row(*map(Text, cells), style=style)
    notes = [Text(note) for note in _notes(run.headline)]
    return Group(Text(run.title, style="bold"), Text(), table, *notes)


def environment_table(rows: Mapping[str, str]) -> RenderableType:
    """Two columns, name and value; long values wrap."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False, padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(Text(printable(name), style="bold"), Text(printable(value)))
    return table


def _rows(layers: Sequence[LayerScore]) -> list[list[str]]:
    """The cells of each row; the names of classes share what the numbers leave of the width."""
    numbers = [_number_cells(layer) for layer in layers]
    columns = zip(_HEADINGS, *numbers, strict=False)
    used = sum(max(map(display_width, column)) for column in columns)
    room = (_WIDTH - used - _GAP * (len(_HEADINGS) - 1)) // 2
    return [cells + _class_cells(layer, room) for layer, cells in zip(layers, numbers, strict=True)]


def _number_cells(layer: LayerScore) -> list[str]:
    return [
        shorten_middle(layer.layer, _LAYER_COLUMNS),
        format_score(layer.mean_ap, 4),
        str(layer.feature_dim),
        _cost_range(layer),
    ]


def _class_cells(layer: LayerScore, columns: int) -> list[str]:
    defined = layer.defined()
    ends = (defined[0], defined[-1]) if defined else ()
    return [shorten(f"{format_score(entry.ap)} {entry.name}", columns) for entry in ends] or [
        "none",
        "none",
    ]


def _cost_range(layer: LayerScore) -> str:
    costs = [entry.chosen_cost for entry in layer.classes]
    if not costs:
        return "none"
    low, high = format_number(min(costs)), format_number(max(costs))
    return low if low == high else f"{low}..{high}"


def _notes(headline: LayerScore) -> list[str]:
    if not headline.num_undefined:
        return []
    return [
        f"\n{headline.num_undefined} of {len(headline.classes)} classes have no positive test "
        f"image; the mean leaves them out."
    ]
