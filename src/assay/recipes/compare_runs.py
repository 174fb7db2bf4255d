"""``assay compare``: which of several runs or layers is better, and whether that is for certain."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from assay._atomic import make_folder, write_json, write_text
from assay.config import masked_text
from assay.errors import DataError
from assay.evaluate.svm_store import layer_folder
from assay.recipes.run_output import printable_document
from assay.recipes.stored_scores import StoredScores, load_scores
from assay.recipes.uncertainty import CONFIDENCE, RESAMPLES, difference, interval_of
from assay.report.comparison import comparison_document, render_comparison
from assay.report.progress import ProgressView

__all__ = ["compare_runs"]

# Where the scores of each kind of run lie, from the folder of its results.
SCORE_FOLDERS = {"svm": "svm", "knn": "."}


@dataclass(frozen=True)
class _Entry:
    """One layer of one run."""

    run: Path  # the folder of its results
    results: Mapping[str, Any]
    layer: str
    stored: StoredScores

    @property
    def name(self) -> str:
        return f"{self.run} {self.layer}"

    @property
    def metric(self) -> str:
        return "top1" if self.stored.scores.ndim == 1 else "mean_ap"


def compare_runs(
    folders: Sequence[Path],
    *,
    out: Path,
    all_layers: bool = False,
    seed: int = 0,
    command: str = "",
    view: ProgressView | None = None,
) -> dict[str, Any]:
    """Compare what runs scored, image by image; writes ``compare.json`` and ``compare.html``.

    Every pair is compared by a paired bootstrap: both are scored on the same draws of test images,
    so that what makes an image hard for both cancels. A difference is real where its interval
    leaves 0 out.

    Args:
        folders: of runs, where ``results.json`` is. Of one run all layers are compared, of several
            the layer of each headline.
        out: where the files go.
        all_layers: compare all layers of several runs, too.
        seed: of the draws.
        command: how the comparison was started, for the page.
        view: shows progress; silent by default.

    Returns:
        What stands in ``compare.json``.

    Raises:
        DataError: a run has no results or scores, there is only one layer, or runs were scored on
            different test images, labels, classes or by different metrics.
        OutputError: a file cannot be written.
    """
    view = view or ProgressView()
    every_layer = all_layers or len(folders) == 1
    entries = [entry for folder in folders for entry in _entries(folder, every_layer=every_layer)]
    if len(entries) < 2:
        raise DataError(
            f"{entries[0].name} is all there is to compare: name a second run, or one with several "
            f"layers."
        )
    for entry in entries[1:]:
        _refuse_unlike(entries[0], entry)
    pairs = list(itertools.combinations(range(len(entries)), 2))
    with view.stage("compare", total=len(pairs), unit="pairs") as advance:
        scores = [_score(entry, seed) for entry in entries]
        order = sorted(range(len(entries)), key=lambda place: -scores[place]["score"])
        entries, scores = [entries[p] for p in order], [scores[p] for p in order]
        differences = []
        for better, worse in pairs:
            differences.append(_difference(entries, better, worse, seed))
            advance(1)
    document = comparison_document(
        created=datetime.now(timezone.utc),
        command=masked_text(command),
        metric=entries[0].metric,
        data=entries[0].results["data"]["test"],
        num_images=len(entries[0].stored.inds),
        num_classes=len(entries[0].stored.class_ids),
        entries=scores,
        differences=differences,
        confidence=CONFIDENCE,
        resamples=RESAMPLES,
        seed=seed,
    )
    document = printable_document(document)
    make_folder(out)
    write_json(out / "compare.json", document)
    write_text(out / "compare.html", render_comparison(document))
    return document


def _entries(folder: Path, *, every_layer: bool) -> Iterator[_Entry]:
    results = _read_results(folder)
    kind = results.get("kind")
    if kind not in SCORE_FOLDERS:
        raise DataError(
            f"{folder}: results of kind {kind!r} have no score for each image; runs of "
            f"{' and '.join(SCORE_FOLDERS)} can be compared."
        )
    try:
        headline = results["headline"]["layer"]
        layers = [layer["layer"] for layer in results["layers"]] if every_layer else [headline]
    except (KeyError, TypeError) as error:
        raise DataError(
            f"{folder / 'results.json'} lacks the key {error}: run it again."
        ) from error
    for layer in layers:
        stored = load_scores(layer_folder(folder / SCORE_FOLDERS[kind], layer))
        yield _Entry(folder, results, layer, stored)


def _read_results(folder: Path) -> dict[str, Any]:
    path = folder / "results.json"
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        known = sorted(str(found.parent) for found in folder.glob("*/results.json"))
        hint = f" There are results in {', '.join(known[:5])}." if known else ""
        raise DataError(
            f"{path} is not there: name the folder of a run, such as that of `assay evaluate svm "
            f"--out`.{hint}"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read: {error}. Run it again.") from error
    if not isinstance(results, dict):
        raise DataError(f"{path} holds no results: run it again.")
    return results


def _refuse_unlike(first: _Entry, second: _Entry) -> None:
    """Scores are compared image by image: all but what scored them has to be the same."""
    names = f"{first.name} and {second.name}"
    if first.metric != second.metric:
        raise DataError(
            f"{names} cannot be compared: one is scored by {first.metric}, the other by "
            f"{second.metric}. Compare runs of one command."
        )
    digests = [entry.results["data"]["test"]["digest"] for entry in (first, second)]
    if digests[0] != digests[1]:
        sources = [entry.results["data"]["test"]["source"] for entry in (first, second)]
        raise DataError(
            f"{names} cannot be compared: they were tested on different images ({sources[0]}, "
            f"{digests[0][:19]}; {sources[1]}, {digests[1][:19]}). Run both on the same --test."
        )
    if not np.array_equal(first.stored.class_ids, second.stored.class_ids):
        raise DataError(
            f"{names} cannot be compared: they know {len(first.stored.class_ids)} and "
            f"{len(second.stored.class_ids)} classes, or different ones. Run both with the same "
            f"classes (config.SVM.cls_list)."
        )
    if not np.array_equal(first.stored.inds, second.stored.inds):
        raise DataError(
            f"{names} cannot be compared: one left out images that the other could read "
            f"(--bad-images skip). Run both on the same files."
        )
    if not np.array_equal(first.stored.targets, second.stored.targets):
        raise DataError(f"{names} cannot be compared: their test images are labelled differently.")


def _score(entry: _Entry, seed: int) -> dict[str, Any]:
    interval = interval_of(entry.stored, seed=seed)
    if interval is None or math.isnan(interval.value):
        raise DataError(
            f"{entry.name} has no class with a positive test image: nothing to compare."
        )
    return {
        "run": str(entry.run),
        "layer": entry.layer,
        "model": entry.results["model"]["name"],
        "weights": entry.results["model"]["weights"],
        "score": interval.value,
        "interval": [interval.low, interval.high],
    }


def _difference(entries: Sequence[_Entry], better: int, worse: int, seed: int) -> dict[str, Any]:
    found = difference(entries[better].stored, entries[worse].stored, seed=seed)
    return {
        "first": better,
        "second": worse,
        "difference": found.value,
        "interval": [found.low, found.high],
        "p_value": found.p_value,
        "real": bool(found.is_real),
    }
