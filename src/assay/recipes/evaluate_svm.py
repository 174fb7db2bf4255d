"""``assay evaluate svm``: images and a frozen model in, SVM scores and a page out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

import numpy as np

from assay.config import AttrDict, masked_text
from assay.evaluate.svm import SVMTrainer
from assay.features.extract import LayerSpec
from assay.recipes.frozen_features import FrozenFeatures, frozen_features
from assay.recipes.run_output import write_run
from assay.recipes.stored_scores import StoredScores, save_scores
from assay.recipes.uncertainty import interval
from assay.report.document import RunRecord
from assay.report.document_svm import svm_layer, svm_results
from assay.report.progress import ProgressView

__all__ = ["evaluate_svm"]

EXAMPLES_SHOWN = 12


def evaluate_svm(
    config: AttrDict,
    *,
    nproc: int = 1,
    command: str = "",
    view: ProgressView | None = None,
    environ: Mapping[str, str] = os.environ,
) -> dict[str, Any] | None:
    """Grade features with linear SVMs and write ``results.json`` and ``report.html``.

    Args:
        config: the section ``config`` of the composed settings.
        nproc: local processes that extract. Under torchrun its ranks do, and this has to be 1.
        command: how the run was started, for the page.
        view: shows progress and keeps timings; silent by default.
        environ: where torchrun's variables are looked up.

    Returns:
        What stands in ``results.json``; None on every rank but the first, which grades alone.
    """
    view = view or ProgressView()
    created = datetime.now(timezone.utc)
    with frozen_features(config, nproc=nproc, view=view, environ=environ) as frozen:
        if frozen is None:
            return None
        layers = [_grade(config, layer, frozen, view) for layer in frozen.layers]
        record = RunRecord(masked_text(command), created, frozen.facts(config), view.timings)
        results = svm_results(record, layers, ignore_label=config.SVM.ignore_label)
        load_image = frozen.splits["test"].load
        return write_run(frozen.folder, results, load_image, report=config.RUN.REPORT, view=view)


def _grade(
    config: AttrDict, layer: LayerSpec, frozen: FrozenFeatures, view: ProgressView
) -> dict[str, Any]:
    """Train and score the SVMs of one layer."""
    features = frozen.merged(layer.name, view)
    settings = {key: value for key, value in config.SVM.items() if key != "ignore_label"}
    settings["force_retrain"] = settings["force_retrain"] or config.RUN.FORCE
    folder = frozen.folder / "svm"
    trainer = SVMTrainer(
        settings,
        layer.name,
        folder,
        ignore_label=config.SVM.ignore_label,
        device=frozen.device,
    )
    total = trainer.count_fits(features["train"].targets)
    with view.stage(f"train SVMs on {layer.name}", total=total, unit="fits") as advance:
        result = trainer.evaluate(features["train"], features["test"], progress=advance)
    with view.stage(f"bootstrap {layer.name}"):
        sureness = interval(result.test_scores, result.test_targets, seed=config.SEED_VALUE)
    save_scores(
        trainer.folder,
        StoredScores(
            scores=result.test_scores,
            targets=result.test_targets.astype(np.int64),
            inds=features["test"].inds,
            class_ids=np.array(result.class_ids, np.int64),
        ),
    )
    return svm_layer(
        result,
        interval=sureness,
        feature_dim=features["test"].features.shape[1],
        class_names=frozen.splits["train"].class_names,
        image_names=frozen.splits["test"].names,
        inds=features["test"].inds,
        examples=EXAMPLES_SHOWN,
    )
