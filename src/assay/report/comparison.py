"""The comparison of runs: its document, its table and its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from assay import __version__
from assay.report.tables import plain_table
from assay.report.wording import format_difference, format_range, format_score, shorten_middle

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["comparison_document", "comparison_table", "render_comparison"]

SCHEMA_VERSION = 1

_DRAWN = 60  # differences in the figure; the table has all
_LISTED = 2_000  # differences in the page's table
_NAME_COLUMNS = 44
_METRIC_NAMES = {"mean_ap": "mean average precision", "top1": "top-1 accuracy"}


def comparison_document(
    *,
    created: datetime,
    command: str,
    metric: str,
    data: Mapping[str, Any],
    num_images: int,
    num_classes: int,
    entries: Sequence[Mapping[str, Any]],
    differences: Sequence[Mapping[str, Any]],
    confidence: float,
    resamples: int,
    seed: int,
) -> dict[str, Any]:
    """``compare.json``.

    Args:
        created: when it was made.
        command: how it was started.
        metric: ``mean_ap``, ``top1``.
        data: what all runs say of their test images.
        num_images: test images that all were scored on.
        num_classes: classes that all were scored on.
        entries: one for each layer of a run, the best first.
        differences: one for each pair: ``first`` and ``second`` are places in ``entries``.
        confidence, resamples, seed: of the paired bootstrap.
    """
    return {
        "schema": SCHEMA_VERSION,
        "kind": "comparison",
        "assay_version": __version__,
        "created": created.isoformat(timespec="seconds"),
        "command": command,
        "metric": metric,
        "data": {
            "source": data["source"],
            "digest": data["digest"],
            "num_images": num_images,
            "num_classes": num_classes,
        },
        "confidence": confidence,
        "resamples": resamples,
        "seed": seed,
        "entries": [dict(entry) for entry in entries],
        "differences": [dict(each) for each in differences],
    }


def comparison_table(document: Mapping[str, Any]) -> RenderableType:
    """The entries with their intervals, and the differences with theirs."""
    from rich.console import Group
    from rich.text import Text

    names = entry_names(document)
    scores = [
        [
            f"{place + 1}",
            shorten_middle(name, _NAME_COLUMNS),
            format_score(entry["score"], 4),
            _range(entry["interval"]),
        ]
        for place, (name, entry) in enumerate(zip(names, document["entries"], strict=True))
    ]
    rows = [
        [
            _pair(each),
            format_difference(each["difference"]),
            _signed_range(each["interval"]),
            "yes" if each["real"] else "no",
        ]
        for each in document["differences"]
    ]
    title = (
        f"{_METRIC_NAMES[document['metric']].capitalize()} on "
        f"{document['data']['num_images']:,} test images"
    )
    confidence = f"{100 * document['confidence']:g} % interval"
    note = (
        f"Paired bootstrap over the test images, {document['resamples']:,} resamples. Real: the "
        f"interval\nleaves 0 out."
    )
    return Group(
        plain_table(
            title,
            ("", "Run and layer", "Score", confidence),
            scores,
            left=("Run and layer",),
            bold=[],
            notes=[],
        ),
        Text(),
        plain_table(
            "Differences",
            ("Numbers", "Difference", confidence, "Real"),
            rows,
            left=("Numbers",),
            bold=[place for place, each in enumerate(document["differences"]) if each["real"]],
            notes=[note, *several_note(document)],
        ),
    )


def render_comparison(document: Mapping[str, Any]) -> str:
    """The page of a comparison as HTML text, from what ``compare.json`` holds.

    It loads nothing, like the page of a run.

    Raises:
        MissingExtraError: Jinja2 or matplotlib is not installed.
    """
    from assay.report.difference_bars import DifferenceRow, difference_bars
    from assay.report.html import render_template
    from assay.report.run_page import draw_plot
    from assay.report.wording import printable_tree

    shown = printable_tree(document)
    names = entry_names(shown)
    differences = shown["differences"]
    rows = [
        DifferenceRow(
            name=_pair(each),
            value=each["difference"],
            low=each["interval"][0],
            high=each["interval"][1],
            is_real=each["real"],
        )
        for each in differences[:_DRAWN]
    ]
    return render_template(
        "page_compare.html",
        document=shown,
        names=names,
        best=shown["entries"][0],
        metric=_METRIC_NAMES[shown["metric"]],
        bars=draw_plot(partial(difference_bars, rows), "differences"),
        drawn=len(rows),
        listed=differences[:_LISTED],
        notes=several_note(shown),
        title=f"{len(names)} compared on {shown['data']['source']}",
        created=shown["created"],
    )


def entry_names(document: Mapping[str, Any]) -> list[str]:
    """What to call each entry: its run, its layer, or both, whichever tells it apart."""
    entries = document["entries"]
    several_runs = len({entry["run"] for entry in entries}) > 1
    if not several_runs:
        return [entry["layer"] for entry in entries]
    return [f"{entry['run']} {entry['layer']}" for entry in entries]


def several_note(document: Mapping[str, Any]) -> list[str]:
    """What to bear in mind of many differences."""
    pairs = len(document["differences"])
    if pairs < 2:
        return []
    share = 100 * (1 - document["confidence"])
    return [
        f"Each interval stands alone: of differences that are none, {share:g} in 100 look real by "
        f"chance, and there are {pairs:,} here."
    ]


def _pair(each: Mapping[str, Any]) -> str:
    return f"{each['first'] + 1} less {each['second'] + 1}"


def _range(interval: Sequence[float]) -> str:
    low, high = interval
    return format_range(low, high, 4)


def _signed_range(interval: Sequence[float]) -> str:
    return " to ".join(format_difference(edge) for edge in interval)
