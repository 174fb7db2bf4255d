"""Tables for the terminal, at most 80 columns wide where their texts allow it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from assay.report.results import LayerScore, Results, read_results
from assay.report.results_knn import KNNResults, read_knn
from assay.report.results_low_shot import LowShotResults, read_low_shot
from assay.report.run_facts import Interval
from assay.report.wording import (
    display_width,
    format_number,
    format_range,
    format_score,
    printable,
    shorten,
    shorten_middle,
)

if TYPE_CHECKING:
    from rich.console import JustifyMethod, RenderableType

__all__ = ["environment_table", "plain_table", "results_table"]

_WIDTH = 80
_LAYER_COLUMNS = 20
_HEADINGS = ("Layer", "mAP", "Dim", "Cost", "Weakest class", "Strongest class")
_GAP = 2


def results_table(results: Mapping[str, Any]) -> RenderableType:
    """The table of a run of any kind.

    Linear SVMs have one row a layer: mAP, feature dimension, chosen costs, weakest and strongest
    class. Low-shot SVMs and nearest neighbours have a row for each layer and k.

    Args:
        results: what ``results.json`` holds. An undefined AP may be ``None`` or NaN.

    Raises:
        DataError: a key is missing, or another version or kind of run wrote the results.
    """
    kind = results.get("kind")
    if kind == "low_shot":
        return _low_shot_table(read_low_shot(results))
    if kind == "knn":
        return _knn_table(read_knn(results))
    return _svm_table(read_results(results))


def plain_table(
    title: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: Sequence[str],
    bold: Sequence[int],
    notes: Sequence[str],
) -> RenderableType:
    """A table with a title above it and notes below.

    Args:
        title: what stands above it.
        headings: of the columns.
        rows: their cells, as they are to be shown.
        left: headings of columns of text; all others are numbers, which stand to the right.
        bold: the rows that matter most.
        notes: lines below.
    """
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, _GAP - 1, 0, 0))
    for heading in headings:
        justify: JustifyMethod = "left" if heading in left else "right"
        table.add_column(heading, justify=justify, no_wrap=True)
    for place, cells in enumerate(rows):
        # Text, not str: a class may be called "[red]".
        table.add_row(*map(Text, cells), style="bold" if place in bold else "")
    below = [Text(f"\n{note}") for note in notes]
    return Group(Text(title, style="bold"), Text(), table, *below)


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


def _svm_table(run: Results) -> RenderableType:
    best = [run.layers.index(run.headline)] if len(run.layers) > 1 else []
    return plain_table(
        run.facts.title,
        _HEADINGS,
        _rows(run.layers),
        left=("Layer", "Weakest class", "Strongest class"),
        bold=best,
        notes=_notes(run.headline),
    )


def _low_shot_table(run: LowShotResults) -> RenderableType:
    rows = [
        [
            shorten_middle(layer.layer, _LAYER_COLUMNS) if point is layer.points[0] else "",
            str(point.k),
            format_score(point.mean_ap, 4),
            format_score(point.std, 4),
            format_range(point.lowest, point.highest),
            format_number(point.cost),
            "" if math.isnan(point.crossval_mean_ap) else format_score(point.crossval_mean_ap, 4),
        ]
        for layer in run.layers
        for point in layer.points
    ]
    points = [point for layer in run.layers for point in layer.points]
    notes = [
        f"k positives a class, {run.num_samples} samples. The cost is the best on the test "
        f"images, as\npublished; CV: chosen by cross-validation instead."
    ]
    return plain_table(
        run.facts.title,
        ("Layer", "k", "mAP", "Std", "Min to max", "Cost", "mAP by CV"),
        rows,
        left=("Layer",),
        bold=[points.index(run.headline.largest)],
        notes=[*notes, *_undefined_note(run.headline.num_undefined, len(run.headline.classes))],
    )


def _knn_table(run: KNNResults) -> RenderableType:
    top = run.metric == "top1"
    rows = []
    for layer in run.layers:
        for point in layer.points:
            cells = [
                shorten_middle(layer.layer, _LAYER_COLUMNS) if point is layer.points[0] else "",
                str(point.k),
                format_score(point.score, 4),
                _interval(point.interval),
            ]
            rows.append([*cells, format_score(point.top5, 4)] if top else cells)
    points = [point for layer in run.layers for point in layer.points]
    headings = ["Layer", "k", "Top-1" if top else "mAP", "95 % interval"]
    missing = 0 if top else run.headline.num_undefined
    return plain_table(
        run.facts.title,
        [*headings, "Top-5"] if top else headings,
        rows,
        left=("Layer",),
        bold=[points.index(run.headline.chosen)],
        notes=_undefined_note(missing, len(run.headline.classes)),
    )


def _interval(interval: Interval | None) -> str:
    return "undefined" if interval is None else format_range(interval.low, interval.high, 4)


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
    notes = _undefined_note(headline.num_undefined, len(headline.classes))
    if headline.interval is not None:
        sure = headline.interval
        notes.append(
            f"{shorten_middle(headline.layer, _LAYER_COLUMNS)}: {100 * sure.confidence:g} % "
            f"interval {format_range(sure.low, sure.high, 4)}, from {sure.resamples:,} resamples."
        )
    return notes


def _undefined_note(num_undefined: int, num_classes: int) -> list[str]:
    if not num_undefined:
        return []
    return [
        f"{num_undefined} of {num_classes} classes have no positive test image; the mean leaves "
        f"them out."
    ]
