"""What a timed program is told at its end: the table, or how to get one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from assay.report.time_units import format_ms
from assay.report.wording import display_width, printable, shorten_middle
from assay.timing import Summary, summary_table

__all__ = ["ranks_table", "time_table"]

_NOTHING = """\
Nothing was measured. Put a name around what interests you; while nobody asks for times it costs
next to nothing:

    from assay import Stopwatch

    with Stopwatch().measure("forward"):
        ...
    Stopwatch().finish_iter()  # at the end of each iteration: times per iteration, and shares"""


def time_table(summary: Summary, *, width: int, warmup: int = 0) -> str:
    """The table of all names with data, no wider than ``width``; without any, how to get some."""
    measured = tuple(each for each in summary.measurements if each.host is not None)
    unmeasured = [each.name for each in summary.measurements if each.host is None]
    parts = []
    if measured or summary.one_time:
        parts.append(summary_table(replace(summary, measurements=measured), width))
    elif not unmeasured:
        return _NOTHING
    if unmeasured:
        shown = ", ".join(repr(printable(name)) for name in unmeasured[:10])
        shown += f" and {len(unmeasured) - 10} more" if len(unmeasured) > 10 else ""
        parts.append(f"Never measured: {shown}. {_why_unmeasured(summary, warmup)}")
    return "\n".join(parts)


def ranks_table(ranks: Mapping[str, Any], *, width: int) -> str:
    """Least, mean and most of each name's mean over the ranks, and which rank is slowest."""
    titles = ("mean of an interval", "min", "mean", "max", "slowest", "ranks")
    world_size = ranks["world_size"]
    rows = [
        _rank_row(each["name"], each["mean_ms"], world_size - len(each["missing_ranks"]))
        for each in ranks["measurements"]
    ]
    if ranks["iteration_ms"] is not None:
        rows.append(_rank_row("(iteration)", ranks["iteration_ms"], None))
    numbers = [max(len(title), *(len(row[n]) for row in rows), 0) for n, title in _columns(titles)]
    room = max(12, width - sum(2 + each for each in numbers))
    lines = [_line(row, numbers, room, titles[0], rows) for row in (list(titles), *rows)]
    if ranks["missing"]:
        missing = ", ".join(map(str, ranks["missing"]))
        lines.append(f"Without a file of its own, so not counted: rank {missing}.")
    return "\n".join(lines)


def _columns(titles: Sequence[str]) -> list[tuple[int, str]]:
    return list(enumerate(titles))[1:]


def _rank_row(name: str, over: Mapping[str, Any], num_ranks: int | None) -> list[str]:
    times = [format_ms(over[key]) for key in ("min", "mean", "max")]
    ranks = "" if num_ranks is None else str(num_ranks)
    return [printable(name), *times, f"rank {over['slowest_rank']}", ranks]


def _line(
    row: Sequence[str], numbers: Sequence[int], room: int, title: str, rows: Sequence[Sequence[str]]
) -> str:
    longest = max(map(display_width, [title, *(each[0] for each in rows)]))
    first = shorten_middle(row[0], min(room, longest))
    first += " " * (min(room, longest) - display_width(first))
    cells = "".join(f"  {cell:>{size}}" for cell, size in zip(row[1:], numbers, strict=True))
    return (first + cells).rstrip()


def _why_unmeasured(summary: Summary, warmup: int) -> str:
    if warmup and not summary.num_iterations:
        return (
            f"The warm-up of {warmup} iterations did not end: choose a shorter one, and call "
            f"Stopwatch().finish_iter() at the end of each iteration."
        )
    return "They ran in the warm-up alone, or were not ended."
