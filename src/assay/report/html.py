"""One self-contained HTML page about a run: no script, no font, nothing from the network."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any

from assay._optional import require
from assay.errors import DataError
from assay.report.page_knn import build_knn_page
from assay.report.page_low_shot import build_low_shot_page
from assay.report.page_model import build_page
from assay.report.results import Results, read_results
from assay.report.results_knn import KNNResults, read_knn
from assay.report.results_low_shot import LowShotResults, read_low_shot
from assay.report.run_page import PageLimits, build_run_page
from assay.report.thumbnails import Thumbnails
from assay.report.time_units import format_ms
from assay.report.wording import (
    format_bytes,
    format_count,
    format_difference,
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

__all__ = ["PAGE_BYTES", "render_report", "render_template"]

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
    kind = results.get("kind")
    if kind not in _PAGES:
        raise DataError(
            f"These results are of kind {kind!r}; there are pages of {', '.join(_PAGES)}. Run the "
            f"command of the run again with this version of assay."
        )
    return _PAGES[kind](results, load_image)


def _svm_page(results: Mapping[str, Any], load_image: Callable[[int], Image]) -> str:
    limits, run = PageLimits(), read_results(results)
    page = build_page(run, Thumbnails(load_image, limits.image_bytes), limits)
    return _render("page.html", run, page, limits)


def _low_shot_page(results: Mapping[str, Any], _load_image: Callable[[int], Image]) -> str:
    limits, run = PageLimits(), read_low_shot(results)
    return _render("page_low_shot.html", run, build_low_shot_page(run, limits), limits)


def _knn_page(results: Mapping[str, Any], _load_image: Callable[[int], Image]) -> str:
    limits, run = PageLimits(), read_knn(results)
    return _render("page_knn.html", run, build_knn_page(run, limits), limits)


_PAGES = {"svm": _svm_page, "low_shot": _low_shot_page, "knn": _knn_page}


def _render(
    name: str, run: Results | LowShotResults | KNNResults, page: Any, limits: PageLimits
) -> str:
    return render_template(
        name,
        run=run,
        page=page,
        facts=run.facts,
        about=build_run_page(run.facts, limits),
        title=run.facts.title,
        created=run.facts.created,
        limits=limits,
    )


def render_template(name: str, **values: Any) -> str:
    """A template of this folder as HTML text; what comes from outside cannot become markup.

    Raises:
        MissingExtraError: Jinja2 is not installed.
    """
    return _environment().get_template(name).render(page_bytes=PAGE_BYTES, **values)


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
        difference=format_difference,
        duration=format_duration,
        ms=format_ms,
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
