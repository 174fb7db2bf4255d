"""``assay evaluate svm``: images and a frozen model in, SVM scores and a page out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from assay._atomic import make_folder, write_json, write_text
from assay.config import AttrDict, masked_text, to_plain
from assay.evaluate.svm import SVMTrainer
from assay.features.datasets import ImageSet
from assay.features.extract import LayerSpec
from assay.features.manifest import Manifest, find_records, read_manifest
from assay.features.models import VisionModel
from assay.features.shards import merge_shards
from assay.recipes.extraction import extract_splits
from assay.recipes.feature_request import open_model, open_splits, read_feature_request
from assay.report.document import svm_layer, svm_results
from assay.report.html import render_report
from assay.report.progress import ProgressView
from assay.runtime.environment import ranks_from_environment

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
    ranks = ranks_from_environment(environ)
    request = read_feature_request(config)
    folder = make_folder(config.RUN.OUTPUT_DIR)

    with view.stage("open images"):
        splits = open_splits(request)
    with view.stage("load model"):
        model = open_model(request)
    extract_splits(
        request,
        model,
        splits,
        folder / "features",
        ranks=ranks,
        nproc=nproc,
        force=config.RUN.FORCE,
        view=view,
    )
    if ranks.rank != 0:
        return None

    layers = [_grade(config, layer, splits, folder, view) for layer in request.layers]
    results = svm_results(
        command=masked_text(command),
        created=created,
        model=_model_facts(model),
        transform=model.transform.to_dict(),
        data={split: _data_facts(images, folder, split) for split, images in splits.items()},
        settings={"config": to_plain(config)},
        device=request.options.device,
        layers=layers,
        timings=view.timings,
    )
    write_json(folder / "results.json", results)
    if config.RUN.REPORT:
        with view.stage("write report"):
            write_text(folder / "report.html", render_report(results, splits["test"].load))
    return results


def _grade(
    config: AttrDict,
    layer: LayerSpec,
    splits: Mapping[str, ImageSet],
    folder: Path,
    view: ProgressView,
) -> dict[str, Any]:
    """Train and score the SVMs of one layer."""
    with view.stage(f"merge {layer.name}"):
        features = {split: merge_shards(folder / "features", split, layer.name) for split in splits}
    settings = {key: value for key, value in config.SVM.items() if key != "ignore_label"}
    settings["force_retrain"] = settings["force_retrain"] or config.RUN.FORCE
    trainer = SVMTrainer(settings, layer.name, folder / "svm", ignore_label=config.SVM.ignore_label)
    total = trainer.count_fits(features["train"].targets)
    with view.stage(f"train SVMs on {layer.name}", total=total, unit="fits") as advance:
        result = trainer.evaluate(features["train"], features["test"], progress=advance)
    return svm_layer(
        result,
        feature_dim=features["test"].features.shape[1],
        class_names=splits["train"].class_names,
        image_names=splits["test"].names,
        inds=features["test"].inds,
        examples=EXAMPLES_SHOWN,
    )


def _model_facts(model: VisionModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "weights": model.weights,
        "weights_digest": model.weights_digest,
        "num_parameters": model.num_parameters,
    }


def _data_facts(images: ImageSet, folder: Path, split: str) -> dict[str, Any]:
    """Counts and digest of a split, and the images that its manifests say were left out."""
    manifests = map(read_manifest, find_records(folder / "features", split, Manifest).values())
    skipped = sorted(
        (bad for manifest in manifests if manifest for bad in manifest.skipped),
        key=lambda bad: bad.index,
    )
    return {
        "source": images.source,
        "digest": images.digest(),
        "num_images": len(images) - len(skipped),
        "num_classes": len(images.class_names),
        "multi_label": images.multi_label,
        "skipped": [{"name": bad.name, "reason": bad.reason} for bad in skipped],
    }
