"""A summary as a table for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from assay.timing.durations import Statistics
from assay.timing.summary import Measurement, Summary

__all__ = ["format_ms", "summary_table"]

_SHORTEST_NAME = 12
# What goes first when the table is too wide.
_DROPPED_IN_TURN = (
    "std",
    "min",
    "p95",
    "median",
    "total",
    "max",
    "device p95",
    "per iter",
    "cpu %",
)


def summary_table(summary: Summary, width: int = 110) -> str:
    """The table of all measurements, no wider than ``width`` characters.

    Columns that do not fit are left out, the least telling first; long names lose their middle.
    Times are milliseconds.
    """
    parts = [] if summary.iteration is None else [_heading(summary.iteration)]
    if summary.measurements:
        parts.append(_grid(_columns(summary), width))
    elif not summary.one_time:
        parts.append("Nothing was measured.")
    parts += _notes(summary)
    if summary.one_time:
        rows = [
            [each.name for each in summary.one_time],
            [
                "running" if e.elapsed_ms is None else format_ms(e.elapsed_ms)
                for e in summary.one_time
            ],
        ]
        parts.append(_grid({"one time": rows[0], "ms": rows[1]}, width))
    return "\n".join(parts)


def format_ms(value: float | None) -> str:
    """Milliseconds to four figures or more, and to the nanosecond at most."""
    if value is None:
        return "-"
    decimals = 0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 10 else 3
    return f"{value:.{decimals if value >= 1 or value == 0 else 6 if value < 0.01 else 4}f}"


def _heading(iteration: Statistics) -> str:
    plural = "" if iteration.count == 1 else "s"
    return f"{iteration.count} measured iteration{plural}, {format_ms(iteration.mean_ms)} ms each"


def _columns(summary: Summary) -> dict[str, list[str]]:
    """Title -> cells, one a measurement; a last row for the time under no name."""
    rows = summary.measurements
    columns = {
        "ms": [each.name for each in rows],
        "count": ["no measurement" if each.host is None else str(each.host.count) for each in rows],
    }
    for title, value in _TIMES.items():
        columns[title] = [_time(each.host, value) for each in rows]
    if summary.iteration is not None:
        columns["per iter"] = [format_ms(each.per_iteration_ms) for each in rows]
        columns["share"] = [_percent(each.share) for each in rows]
    if any(each.device is not None for each in rows):
        columns["device mean"] = [_time(each.device, _TIMES["mean"]) for each in rows]
        columns["device p95"] = [_time(each.device, _TIMES["p95"]) for each in rows]
    if any(each.cpu_percent is not None for each in rows):
        columns["cpu %"] = [_load(each) for each in rows]
    if summary.iteration is not None and summary.unaccounted_ms is not None:
        last = {
            "ms": "(under no name)",
            "per iter": format_ms(summary.unaccounted_ms / summary.num_iterations),
            "share": _percent(summary.unaccounted_ms / summary.iteration.total_ms)
            if summary.iteration.total_ms
            else "-",
            "total": format_ms(summary.unaccounted_ms),
        }
        for title, cells in columns.items():
            cells.append(last.get(title, ""))
    return columns


_TIMES: dict[str, Callable[[Statistics], float]] = {
    "total": lambda each: each.total_ms,
    "mean": lambda each: each.mean_ms,
    "std": lambda each: each.std_ms,
    "min": lambda each: each.min_ms,
    "median": lambda each: each.median_ms,
    "p95": lambda each: each.p95_ms,
    "max": lambda each: each.max_ms,
}


def _time(statistics: Statistics | None, value: Callable[[Statistics], float]) -> str:
    return "-" if statistics is None else format_ms(value(statistics))


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _load(measurement: Measurement) -> str:
    return "-" if measurement.cpu_percent is None else f"{measurement.cpu_percent:.1f}"


def _grid(columns: dict[str, list[str]], width: int) -> str:
    """The columns side by side; the first to the left, the others to the right."""
    shown = dict(columns)
    first = next(iter(shown))
    names = shown.pop(first)
    longest = max(len(first), *map(len, names))
    for title in _DROPPED_IN_TURN:
        if _width(shown) + min(longest, 2 * _SHORTEST_NAME) <= width:
            break
        shown.pop(title, None)
    room = min(longest, max(_SHORTEST_NAME, width - _width(shown)))
    lines = []
    for row in range(-1, len(names)):
        name = first if row < 0 else names[row]
        cells = [title if row < 0 else column[row] for title, column in shown.items()]
        widths = [max(len(title), *map(len, column)) for title, column in shown.items()]
        right = "".join(f"  {cell:>{size}}" for cell, size in zip(cells, widths, strict=True))
        lines.append(f"{_shortened(name, room):<{room}}{right}".rstrip())
    return "\n".join(lines)


def _width(columns: dict[str, list[str]]) -> int:
    return sum(2 + max(len(title), *map(len, column)) for title, column in columns.items())


def _shortened(name: str, room: int) -> str:
    name = "".join(each if each.isprintable() else " " for each in name)  # no line breaks
    if len(name) <= room:
        return name
    tail = (room - 1) // 2
    return f"{name[: room - 1 - tail]}…{name[len(name) - tail :]}"


def _notes(summary: Summary) -> Sequence[str]:
    notes = [
        f"{each.num_failed} of the {each.host.count} samples of {each.name!r} ended with an error."
        for each in summary.measurements
        if each.num_failed and each.host is not None
    ]
    if summary.running:
        notes.append(f"Running now, and not counted: {', '.join(map(repr, summary.running))}.")
    return notes
