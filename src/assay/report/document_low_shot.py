"""``results.json`` of low-shot SVMs: mean AP against the number of positives a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.report.document import RunRecord, best_layer, class_name, number, run_document

if TYPE_CHECKING:
    from assay.evaluate.low_shot import LowShotPoint, LowShotResult

__all__ = ["low_shot_layer", "low_shot_results"]


def low_shot_results(
    record: RunRecord, layers: Sequence[Mapping[str, Any]], *, dataset_name: str
) -> dict[str, Any]:
    """The whole document; the layer that is best at the largest k is the headline.

    Args:
        record: how the run came about.
        layers: from :func:`low_shot_layer`, all with the same k values and samples.
        dataset_name: how the samples were drawn.
    """
    best = best_layer(layers, "mean_ap")
    point = _largest(best["points"])
    keys = ("k", "std", "crossval_mean_ap", "crossval_std")
    return run_document(
        "low_shot",
        record,
        headline={
            "layer": best["layer"],
            "mean_ap": best["mean_ap"],
            **{key: point[key] for key in keys},
        },
        layers=layers,
        more={"dataset_name": dataset_name},
    )


def low_shot_layer(
    result: LowShotResult, *, feature_dim: int, class_names: Sequence[str]
) -> dict[str, Any]:
    """One layer's part of the document; ``mean_ap`` is that at the largest k.

    Args:
        result: the scores of the layer.
        feature_dim: length of a feature vector.
        class_names: by class id.
    """
    points = [
        _point(point, result.mean_ap[place], result) for place, point in enumerate(result.points)
    ]
    return {
        "layer": result.layer,
        "feature_dim": feature_dim,
        "costs": [float(cost) for cost in result.costs],
        "k_values": list(result.k_values),
        "sample_inds": list(result.sample_inds),
        "mean_ap": _largest(points)["mean_ap"],
        "num_undefined_classes": int(np.isnan(result.points[0].class_ap).sum()),
        "points": points,
        "classes": [
            {
                "id": class_id,
                "name": class_name(class_names, class_id),
                "ap": [number(point.class_ap[place]) for point in result.points],
            }
            for place, class_id in enumerate(result.class_ids)
        ],
    }


def _point(point: LowShotPoint, mean_ap: Any, result: LowShotResult) -> dict[str, Any]:
    """One k; ``mean_ap`` is (S, K)."""
    chosen = int(np.flatnonzero(result.costs == point.cost)[0])
    return {
        "k": point.low_shot_kvalue,
        "cost": point.cost,
        "mean_ap": number(point.mean),
        "std": number(point.std),
        "min": number(point.min),
        "max": number(point.max),
        "samples": [number(value) for value in mean_ap[:, chosen]],
        "crossval_mean_ap": number(point.crossval_mean),
        "crossval_std": number(point.crossval_std),
    }


def _largest(points: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return max(points, key=lambda point: int(point["k"]))
