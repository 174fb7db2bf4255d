"""One self-contained HTML page about a run: no script, no font, nothing from the network."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any

from assay._optional import require
from assay.report.page_model import PageLimits, build_page
from assay.report.results import read_results
from assay.report.thumbnails import Thumbnails
from assay.report.wording import (
    format_bytes,
    format_count,
    format_duration,
    format_number,
    format_score,
    format_signed,
    shorten,
    shorten_middle,
)

if TYPE_CHECKING:
    from jinja2 import Environment
    from PIL.Image import Image

__all__ = ["PAGE_BYTES", "render_report"]

PAGE_BYTES = 5_000_000


def render_report(results: Mapping[str, Any], load_image: Callable[[int], Image]) -> str:
    """The page as HTML text; the same text for the same results and images.

    The page needs no network and allows none (its own content security policy forbids it), and
    stays below 5 MB: of many classes, layers or images it shows the telling ones and says so.

    Args:
        results: what ``results.json`` holds. An undefined AP may be ``None`` or NaN.
        load_image: the test image of a row, as PIL image. An image for which it raises
            :class:`~assay.errors.ImageError` or :class:`OSError` is shown as missing, with the
            reason.

    Raises:
        DataError: a key is missing, or another version or kind of run wrote the results.
        MissingExtraError: Jinja2, matplotlib or Pillow is not installed.
    """
    limits = PageLimits()
    run = read_results(results)
    template = _environment().get_template("page.html")
    page = build_page(run, Thumbnails(load_image, limits.image_bytes), limits)
    return template.render(page=page, run=run, limits=limits, page_bytes=PAGE_BYTES)


def _environment() -> Environment:
    jinja2 = require("jinja2", extra="evaluate", purpose="write the report")
    environment: Environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_read_template),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        size=format_bytes,
        count=format_count,
        duration=format_duration,
        number=format_number,
        score=format_score,
        signed=format_signed,
        shorten=shorten,
        shorten_middle=shorten_middle,
        value=_value,
    )
    return environment


def _read_template(name: str) -> str:
    return resources.files("assay.report").joinpath(name).read_text(encoding="utf-8")


def _value(value: Any) -> str:
    """A JSON value for people: texts and numbers as they are, lists and dicts as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
