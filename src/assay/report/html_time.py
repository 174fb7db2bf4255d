"""The page of a timed program, as self-contained as those of runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.report.html import render_template
from assay.report.page_time import build_time_page
from assay.report.wording import printable_tree, shorten_middle

__all__ = ["render_time"]


def render_time(document: Mapping[str, Any]) -> str:
    """The page as HTML text, from what ``timing.json`` holds.

    Raises:
        DataError: the document is none of a timed program.
        MissingExtraError: Jinja2 or matplotlib is not installed.
    """
    shown = printable_tree(document)
    page = build_time_page(shown)
    return render_template(
        "page_time.html",
        document=shown,
        page=page,
        title=shorten_middle(shown["command"].replace("\n", " "), 160),
        created=shown["created"],
    )
