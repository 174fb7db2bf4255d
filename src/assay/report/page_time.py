"""What the page of a timed program shows, chosen from its document."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from assay.report import figures
from assay.report.document_time import summary_of
from assay.report.run_page import Plot, draw_plot
from assay.report.time_figures import ShareRow, SpreadRow, share_cascade, spread_strips
from assay.report.time_units import format_ms
from assay.timing import Measurement, Statistics, Summary

__all__ = ["TimePage", "build_time_page", "percentile_ms"]

_DRAWN = 40  # names in a figure
_LISTED = 2_000  # names in the table
_WORKERS = 60  # rows of other processes


@dataclass(frozen=True)
class TimePage:
    """The parts of the page."""

    summary: Summary
    measured: tuple[Measurement, ...]  # those with samples, the greatest total first
    listed: tuple[Measurement, ...]
    unmeasured: tuple[str, ...]
    num_drawn: int
    totals: Plot | None
    means: Plot | None
    spreads: Plot | None
    shares: Plot | None
    shares_overlap: bool
    covered: float | None  # share of the iterations under any name
    num_intervals: int
    workers: tuple[tuple[str, Mapping[str, Any]], ...]  # process, measurement
    num_worker_rows: int
    has_device: bool
    has_cpu: bool
    has_failed: bool


def build_time_page(document: Mapping[str, Any]) -> TimePage:
    """The parts, of a document whose texts are printable.

    Raises:
        DataError: the document is none of a timed program.
    """
    summary = summary_of(document)
    rows = [(each, each.host) for each in summary.measurements if each.host is not None]
    rows.sort(key=lambda row: -row[1].total_ms)
    drawn = rows[:_DRAWN]
    measured = tuple(each for each, _ in rows)
    shares = _share_rows(measured, summary)
    workers = [
        (_process_name(worker, document), each)
        for worker in document["workers"]
        for each in worker["measurements"]
    ]
    return TimePage(
        summary=summary,
        measured=measured,
        listed=measured[:_LISTED],
        unmeasured=tuple(each.name for each in summary.measurements if each.host is None),
        num_drawn=len(drawn),
        totals=_bars([(e.name, h.total_ms) for e, h in drawn], "totals"),
        means=_bars([(e.name, h.mean_ms) for e, h in drawn], "means"),
        spreads=_plot(spread_strips, [_spread(e.name, h) for e, h in drawn], "spreads"),
        shares=_plot(share_cascade, shares, "shares"),
        shares_overlap=sum(row.share for row in shares) > 1.005,
        covered=_covered(summary),
        num_intervals=sum(host.count for _, host in rows),
        workers=tuple(workers[:_WORKERS]),
        num_worker_rows=len(workers),
        has_device=any(each.device is not None for each in measured),
        has_cpu=any(each.cpu_percent is not None for each in measured),
        has_failed=any(each.num_failed for each in measured),
    )


def percentile_ms(statistics: Statistics, percent: float) -> float:
    """The least duration that ``percent`` of the samples are at or below, as its bin tells it."""
    rank = percent / 100 * statistics.count
    upto = itertools.accumulate(each.count for each in statistics.distribution)
    for each, count in zip(statistics.distribution, upto, strict=True):
        if count >= rank:
            middle = (each.lower_ms + each.upper_ms) / 2
            return min(max(middle, statistics.min_ms), statistics.max_ms)
    return statistics.max_ms


def _bars(rows: Sequence[tuple[str, float]], key: str) -> Plot | None:
    """Two of these stand side by side on a wide page, so each is as narrow as on a phone."""
    stages = [(name, value, format_ms(value)) for name, value in rows]
    return _plot(figures.time_bars, stages, key, widths=(figures.NARROW_PX,))


def _plot(
    draw: Any,
    rows: Sequence[Any],
    key: str,
    widths: Sequence[int] = (figures.WIDE_PX, figures.NARROW_PX),
) -> Plot | None:
    return draw_plot(partial(draw, rows), key, widths) if rows else None


def _spread(name: str, host: Statistics) -> SpreadRow:
    p5, p25, p75 = (percentile_ms(host, percent) for percent in (5, 25, 75))
    return SpreadRow(
        name, host.min_ms, p5, p25, host.median_ms, p75, host.p95_ms, host.max_ms, host.mean_ms
    )


def _share_rows(measured: Sequence[Measurement], summary: Summary) -> list[ShareRow]:
    """The names that take the most of an iteration, the others as one, and the rest."""
    known = sorted(
        ((each.name, each.share) for each in measured if each.share), key=lambda row: -row[1]
    )
    covered = _covered(summary)
    if covered is None:
        return []
    rows = [ShareRow(name, share, _percent(share)) for name, share in known[:_DRAWN]]
    others = sum(share for _, share in known[_DRAWN:])
    if others:
        name = f"{len(known) - _DRAWN} more names"
        rows.append(ShareRow(name, others, _percent(others)))
    rest = 1 - covered
    return [*rows, ShareRow("(under no name)", rest, _percent(rest), is_rest=True)]


def _covered(summary: Summary) -> float | None:
    if summary.iteration is None or not summary.iteration.total_ms:
        return None
    rest = (summary.unaccounted_ms or 0.0) / summary.iteration.total_ms
    return 1 - min(max(rest, 0.0), 1.0)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _process_name(worker: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    rank = f"rank {worker['rank']}, " if document["process"]["world_size"] > 1 else ""
    return f"{rank}process {worker['pid']}"
