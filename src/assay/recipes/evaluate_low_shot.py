"""``assay evaluate low-shot``: how good the features are after few labelled images a class."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.config import AttrDict, masked_text
from assay.errors import AssayWarning, ConfigError
from assay.evaluate.low_shot import SVMLowShotTrainer
from assay.evaluate.targets import read_targets
from assay.features.extract import LayerSpec
from assay.recipes.frozen_features import FrozenFeatures, frozen_features
from assay.recipes.run_output import write_run
from assay.report.document import RunRecord
from assay.report.document_low_shot import low_shot_layer, low_shot_results
from assay.report.progress import ProgressView

__all__ = ["LOW_SHOT_FOLDER", "evaluate_low_shot", "usable_k_values"]

LOW_SHOT_FOLDER = "low-shot"


def evaluate_low_shot(
    config: AttrDict,
    *,
    nproc: int = 1,
    command: str = "",
    view: ProgressView | None = None,
    environ: Mapping[str, str] = os.environ,
) -> dict[str, Any] | None:
    """Grade features with SVMs on few images a class; results go to the folder ``low-shot``.

    Where ``SVM.low_shot.dataset_name`` is left at ``voc`` and an image has one class, samples are
    drawn as for ``places``.

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
        dataset_name = config.SVM.low_shot.dataset_name
        if dataset_name == "voc" and not frozen.splits["train"].multi_label:
            dataset_name = "places"
        layers = [_grade(config, layer, dataset_name, frozen, view) for layer in frozen.layers]
        record = RunRecord(masked_text(command), created, frozen.facts(config), view.timings)
        results = low_shot_results(record, layers, dataset_name=dataset_name)
        return write_run(
            frozen.folder / LOW_SHOT_FOLDER,
            results,
            frozen.splits["test"].load,
            report=config.RUN.REPORT,
            view=view,
        )


def usable_k_values(
    k_values: list[int], targets: NDArray[np.int64], class_ids: list[int]
) -> list[int]:
    """The k values for which every class has enough images; a warning names the others.

    Args:
        k_values: positives a class.
        targets: (N, 1) class ids or (N, L) of {1, 0, -1}, of the training images.
        class_ids: the classes that count; [] = all.

    Raises:
        ConfigError: no k value is left.
    """
    labels = read_targets(targets)
    # One class id a row: the other classes are drawn too, as negatives.
    wanted = class_ids if class_ids and labels.multi_label else labels.class_ids
    counts = {class_id: int((labels.column(class_id) == 1).sum()) for class_id in wanted}
    smallest = min(counts, key=lambda class_id: counts[class_id])
    kept = [k for k in k_values if k <= counts[smallest]]
    dropped = ", ".join(str(k) for k in k_values if k not in kept)
    reason = f"class {smallest} has {counts[smallest]} training images"
    if not kept:
        raise ConfigError(
            f"SVM.low_shot.k_values {dropped} are all too large: {reason}. Give smaller ones, or "
            f"more images."
        )
    if dropped:
        warnings.warn(f"k = {dropped} left out: {reason}.", AssayWarning, stacklevel=2)
    return kept


def _grade(
    config: AttrDict,
    layer: LayerSpec,
    dataset_name: str,
    frozen: FrozenFeatures,
    view: ProgressView,
) -> dict[str, Any]:
    """Draw the samples of one layer, train on them and score them."""
    features = frozen.merged(layer.name, view)
    settings = {key: value for key, value in config.SVM.items() if key != "ignore_label"}
    settings["force_retrain"] = settings["force_retrain"] or config.RUN.FORCE
    k_values = usable_k_values(
        list(config.SVM.low_shot.k_values), features["train"].targets, list(config.SVM.cls_list)
    )
    settings["low_shot"] = {
        **config.SVM.low_shot,
        "dataset_name": dataset_name,
        "k_values": k_values,
    }
    folder = frozen.folder / LOW_SHOT_FOLDER
    trainer = SVMLowShotTrainer(settings, layer.name, folder, device=frozen.device)
    total = len(k_values) * len(config.SVM.low_shot.sample_inds)
    with view.stage(f"train SVMs on {layer.name}", total=total, unit="samples") as advance:
        result = trainer.sweep(
            features["train"], features["test"], seed=config.SEED_VALUE, progress=advance
        )
    return low_shot_layer(
        result,
        feature_dim=features["test"].features.shape[1],
        class_names=frozen.splits["train"].class_names,
    )
