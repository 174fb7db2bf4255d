"""The folder of a run: one run at a time, and its last step, the document and the page of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay._atomic import make_folder, write_json, write_text
from assay.features.folder_lock import hold_lock
from assay.features.images import printable
from assay.report.html import render_report
from assay.report.progress import ProgressView
from assay.runtime.environment import Ranks

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["hold_output_folder", "printable_document", "write_run"]

LOCK_NAME = "run.lock"


@contextlib.contextmanager
def hold_output_folder(folder: Path, ranks: Ranks) -> Iterator[None]:
    """Keep other runs out of the folder, which is there, for the block.

    The first rank holds the lock for all of them. The lock is gone when its process is, however
    that ends.

    Raises:
        OutputError: another run is at work there (the message names its process), or the folder
            cannot be written.
    """
    if ranks.rank != 0:
        yield
        return
    with hold_lock(folder / LOCK_NAME, "writes its results there"):
        yield


def write_run(
    folder: Path,
    results: dict[str, Any],
    load_image: Callable[[int], Image],
    *,
    report: bool,
    view: ProgressView,
) -> dict[str, Any]:
    """Write ``results.json`` and, if wanted, ``report.html`` to ``folder``; returns ``results``.

    What is written and returned is :func:`printable_document` of ``results``.

    Raises:
        OutputError: a file cannot be written.
    """
    results = printable_document(results)
    make_folder(folder)
    write_json(folder / "results.json", results)
    if report:
        with view.stage("write report"):
            write_text(folder / "report.html", render_report(results, load_image))
    return results


def printable_document(document: dict[str, Any]) -> dict[str, Any]:
    """The same with text that every encoder takes; see :func:`~assay.features.images.printable`.

    Arguments and names of files that are no text in the locale of the process are not so: in the
    locale C, everything beyond ASCII.
    """
    return {printable(key): _printable(value) for key, value in document.items()}


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return printable_document(value)
    if isinstance(value, (list, tuple)):
        return [_printable(item) for item in value]
    return value
