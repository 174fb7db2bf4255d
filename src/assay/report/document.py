"""``results.json``: every figure of a run, from which the table and the page are drawn."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from assay import __version__
from assay.evaluate.ranked_examples import RankedExample, rank_examples
from assay.report.progress import StageTiming
from assay.runtime.collect_env import package_versions
from assay.runtime.machine import available_cores, cpu_model

if TYPE_CHECKING:
    from assay.evaluate.svm import SVMResult

__all__ = ["SCHEMA_VERSION", "svm_layer", "svm_results"]

SCHEMA_VERSION = 1


def svm_results(
    *,
    command: str,
    created: datetime,
    model: Mapping[str, Any],
    transform: Mapping[str, Any],
    data: Mapping[str, Any],
    settings: Mapping[str, Any],
    device: str,
    layers: Sequence[Mapping[str, Any]],
    timings: Sequence[StageTiming],
) -> dict[str, Any]:
    """The whole document; ``layers`` come from :func:`svm_layer`, the best is the headline."""
    best = max(layers, key=lambda layer: -1.0 if layer["mean_ap"] is None else layer["mean_ap"])
    return {
        "schema": SCHEMA_VERSION,
        "kind": "svm",
        "assay_version": __version__,
        "created": created.isoformat(timespec="seconds"),
        "command": command,
        "title": f"{model['name']} on {data['test']['source']}",
        "headline": {"layer": best["layer"], "mean_ap": best["mean_ap"]},
        "model": dict(model),
        "transform": dict(transform),
        "data": dict(data),
        "settings": dict(settings),
        "versions": {"python": platform.python_version(), **package_versions()},
        "machine": {"cpu": cpu_model(), "cores": available_cores(), "device": device},
        "layers": [dict(layer) for layer in layers],
        "timings": [asdict(timing) for timing in timings],
    }


def svm_layer(
    result: SVMResult,
    *,
    feature_dim: int,
    class_names: Sequence[str],
    image_names: Sequence[str],
    inds: NDArray[np.int64],
    examples: int,
) -> dict[str, Any]:
    """One layer's part of the document.

    Args:
        result: the scores of the layer.
        feature_dim: length of a feature vector.
        class_names: by class id.
        image_names: by index of the test set.
        inds: (N_test,) index of the test set for each row of the scores.
        examples: how many ranked images each list names.
    """
    return {
        "layer": result.layer,
        "feature_dim": feature_dim,
        "costs": [float(cost) for cost in result.costs],
        "mean_ap": _number(result.mean_ap),
        "num_undefined_classes": result.num_undefined,
        "classes": [
            {
                "id": class_id,
                "name": _class_name(class_names, class_id),
                "ap": _number(result.test_ap[place]),
                "chosen_cost": float(result.chosen_cost[place]),
                "crossval_ap": [_number(ap) for ap in result.crossval_ap[place]],
                "num_train_positives": int(result.num_train_positives[place]),
                "num_test_positives": int(result.num_test_positives[place]),
            }
            for place, class_id in enumerate(result.class_ids)
        ],
        "ranked": [
            {"class_id": class_id, **_ranked(result, place, image_names, inds, examples)}
            for place, class_id in enumerate(result.class_ids)
        ],
    }


def _ranked(
    result: SVMResult,
    place: int,
    image_names: Sequence[str],
    inds: NDArray[np.int64],
    examples: int,
) -> dict[str, list[dict[str, Any]]]:
    ranked = rank_examples(result.test_scores[:, place], result.test_targets[:, place], examples)

    def entry(example: RankedExample) -> dict[str, Any]:
        index = int(inds[example.row])
        return {
            "row": index,
            "name": image_names[index],
            "score": example.score,
            "positive": example.positive,
            "rank": example.rank,
        }

    return {
        "first": [entry(example) for example in ranked.first],
        "last_positives": [entry(example) for example in ranked.last_positives],
        "first_negatives": [entry(example) for example in ranked.first_negatives],
    }


def _class_name(class_names: Sequence[str], class_id: int) -> str:
    return class_names[class_id] if 0 <= class_id < len(class_names) else str(class_id)


def _number(value: float) -> float | None:
    """A float for strict JSON, which has no NaN: an undefined AP is ``None``."""
    return None if math.isnan(value) else float(value)
