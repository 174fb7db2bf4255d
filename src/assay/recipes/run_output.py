"""The last step of every command that grades features: the document, and the page drawn from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay._atomic import make_folder, write_json, write_text
from assay.report.html import render_report
from assay.report.progress import ProgressView

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["write_run"]


def write_run(
    folder: Path,
    results: dict[str, Any],
    load_image: Callable[[int], Image],
    *,
    report: bool,
    view: ProgressView,
) -> dict[str, Any]:
    """Write ``results.json`` and, if wanted, ``report.html`` to ``folder``; returns ``results``.

    Raises:
        OutputError: a file cannot be written.
    """
    make_folder(folder)
    write_json(folder / "results.json", results)
    if report:
        with view.stage("write report"):
            write_text(folder / "report.html", render_report(results, load_image))
    return results
