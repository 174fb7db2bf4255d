"""What every page of a run shows, whatever it graded: its time, its settings, its limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from assay.report import figures
from assay.report.run_facts import RunFacts
from assay.report.wording import format_duration

__all__ = ["PageLimits", "Plot", "RunPage", "Stage", "build_run_page", "draw_plot"]


@dataclass(frozen=True)
class PageLimits:
    """How much one page holds, so that it stays below 5 MB; it says what it leaves out."""

    image_bytes: int = 2_200_000
    bar_rows: int = 40  # with more classes: the weakest and the strongest 20, and a histogram
    sheet_classes: int = 40
    other_layers: int = 8
    other_sheet_classes: int = 10
    table_rows: int = 2_000
    other_table_rows: int = 100
    stages: int = 16
    skipped: int = 200
    settings_characters: int = 60_000


@dataclass(frozen=True)
class Plot:
    """One figure as inline SVG, drawn for a wide page and for a phone."""

    wide: str
    narrow: str


@dataclass(frozen=True)
class Stage:
    """One part of the run's time."""

    name: str
    elapsed_s: float
    share: float  # 0..1


@dataclass(frozen=True)
class RunPage:
    """The parts of a page that all kinds of runs have."""

    stages: tuple[Stage, ...]
    total_s: float
    time: Plot | None
    settings: str
    versions: Mapping[str, Any]


def build_run_page(facts: RunFacts, limits: PageLimits) -> RunPage:
    """These parts, of one run."""
    stages = tuple(_stages(facts.timings, limits.stages))
    return RunPage(
        stages=stages,
        total_s=sum(seconds for _, seconds in facts.timings),
        time=_time_plot(stages) if stages else None,
        settings="\n".join(_flat("", facts.settings)),
        versions={"assay": facts.assay_version, **facts.versions},
    )


def draw_plot(
    draw: Callable[..., str],
    key: str,
    widths: Sequence[int] = (figures.WIDE_PX, figures.NARROW_PX),
) -> Plot:
    """The figure that ``draw(width_px=..., key=...)`` makes, at one or two widths, wide first."""
    drawings = [draw(width_px=px, key=f"{key}-{px}") for px in widths]
    return Plot(wide=drawings[0] if len(drawings) > 1 else "", narrow=drawings[-1])


def _time_plot(stages: Sequence[Stage]) -> Plot:
    rows = [
        (stage.name, stage.elapsed_s, f"{format_duration(stage.elapsed_s)} · {stage.share:.0%}")
        for stage in stages
    ]
    return draw_plot(partial(figures.time_bars, rows), "time")


def _stages(timings: Sequence[tuple[str, float]], most: int) -> Iterator[Stage]:
    """In the order in which they ran; of many, the longest, and the rest as one."""
    total = sum(seconds for _, seconds in timings) or 1.0
    places = range(len(timings))
    if len(timings) > most:
        longest = sorted(places, key=lambda place: -timings[place][1])[: most - 1]
        rest = sum(timings[place][1] for place in set(places) - set(longest))
        shown = [timings[place] for place in sorted(longest)]
        shown.append((f"{len(timings) - len(longest)} shorter stages", rest))
    else:
        shown = list(timings)
    for name, seconds in shown:
        yield Stage(name, seconds, seconds / total)


def _flat(prefix: str, value: Any) -> Iterator[str]:
    """Nested settings as ``a.b=value`` lines, as the command line takes them."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else str(key), item)
    else:
        yield f"{prefix}={json.dumps(value, ensure_ascii=False, default=str)}"
