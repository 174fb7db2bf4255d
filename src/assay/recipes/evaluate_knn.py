"""``assay evaluate knn``: how well a frozen model's nearest neighbours vote."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

import numpy as np

from assay.config import AttrDict, masked_text
from assay.errors import AssayWarning
from assay.evaluate.knn import KNNAccuracy, KNNMeanAP, KNNSettings, evaluate_knn
from assay.evaluate.svm_store import layer_folder
from assay.evaluate.targets import read_targets
from assay.features.extract import LayerSpec
from assay.features.shards import FeatureSet
from assay.recipes.frozen_features import FrozenFeatures, frozen_features
from assay.recipes.run_output import write_run
from assay.recipes.stored_scores import StoredScores, save_scores
from assay.recipes.uncertainty import interval
from assay.report.document import RunRecord
from assay.report.document_knn import knn_layer, knn_results
from assay.report.progress import ProgressView

__all__ = ["KNN_FOLDER", "evaluate_nearest_neighbours", "usable_neighbours"]

KNN_FOLDER = "knn"
K_VALUES = (10, 20, 100, 200)  # those of DINO


def evaluate_nearest_neighbours(
    config: AttrDict,
    *,
    nproc: int = 1,
    command: str = "",
    view: ProgressView | None = None,
    environ: Mapping[str, str] = os.environ,
) -> dict[str, Any] | None:
    """Grade features by weighted nearest neighbours; results go to the folder ``knn``.

    The k values are 10, 20, 100, 200 and ``NEAREST_NEIGHBOR.TOPK``, which makes the headline.

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
        section = config.NEAREST_NEIGHBOR
        results = knn_results(
            record, layers, temperature=section.SIGMA, l2_norm=section.L2_NORM_FEATS
        )
        return write_run(
            frozen.folder / KNN_FOLDER,
            results,
            frozen.splits["test"].load,
            report=config.RUN.REPORT,
            view=view,
        )


def usable_neighbours(wanted: int, num_rows: int) -> tuple[list[int], int]:
    """The k values to try of ``num_rows`` training images, and the one that makes the headline.

    Values above the number of images are left out, and a warning names them; the headline is then
    the largest below the one that was wanted. If none is left, all images vote.
    """
    tried = sorted({*K_VALUES, wanted})
    kept = [k for k in tried if k <= num_rows] or [num_rows]
    dropped = [str(k) for k in tried if k > num_rows]
    if dropped:
        warnings.warn(
            f"k = {', '.join(dropped)} left out: there are {num_rows} training images.",
            AssayWarning,
            stacklevel=2,
        )
    return kept, max((k for k in kept if k <= wanted), default=kept[0])


def _grade(
    config: AttrDict, layer: LayerSpec, frozen: FrozenFeatures, view: ProgressView
) -> dict[str, Any]:
    """Let the neighbours in one layer vote."""
    features = frozen.merged(layer.name, view)
    test = features["test"]
    k_values, headline_k = usable_neighbours(
        config.NEAREST_NEIGHBOR.TOPK, _num_voters(features["train"])
    )
    settings = KNNSettings.from_config({**config.NEAREST_NEIGHBOR, "TOPK": k_values})
    with view.stage(
        f"find neighbours in {layer.name}", total=len(test.inds), unit="images"
    ) as advance:
        result = evaluate_knn(features["train"], test, settings, progress=advance)
    stored = [_stored(result, test, place) for place in range(len(settings.k_values))]
    with view.stage(f"bootstrap {layer.name}"):
        seed = config.SEED_VALUE
        intervals = [interval(each.scores, each.targets, seed=seed) for each in stored]
    save_scores(
        layer_folder(frozen.folder / KNN_FOLDER, layer.name),
        stored[settings.k_values.index(headline_k)],
    )
    return knn_layer(
        layer.name,
        result,
        stored[0].targets,
        intervals=intervals,
        headline_k=headline_k,
        feature_dim=test.features.shape[1],
        class_names=frozen.splits["train"].class_names,
    )


def _num_voters(train: FeatureSet) -> int:
    labels = read_targets(train.targets)
    ignored = 0 if labels.multi_label else int((labels.values == -1).sum())
    return len(labels.values) - ignored


def _stored(result: KNNAccuracy | KNNMeanAP, test: FeatureSet, place: int) -> StoredScores:
    """What each test image scored at one k."""
    class_ids = np.array(result.class_ids, np.int64)
    if isinstance(result, KNNMeanAP):
        targets = result.targets.astype(np.int64)
        return StoredScores(result.scores[place], targets, test.inds, class_ids)
    labels = test.targets[result.rows, 0]
    hits = result.top1_hits[place].astype(np.float64)
    return StoredScores(hits, labels, test.inds[result.rows], class_ids)
