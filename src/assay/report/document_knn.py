"""``results.json`` of nearest neighbours: accuracy or mean AP by k and layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.evaluate.knn import KNNAccuracy, KNNMeanAP
from assay.report.document import RunRecord, best_layer, class_name, number, run_document

__all__ = ["knn_layer", "knn_results"]


def knn_results(
    record: RunRecord,
    layers: Sequence[Mapping[str, Any]],
    *,
    temperature: float,
    l2_norm: bool,
) -> dict[str, Any]:
    """The whole document; the layer of the best ``score`` is the headline.

    Args:
        record: how the run came about.
        layers: from :func:`knn_layer`, all of one metric.
        temperature: of the votes.
        l2_norm: whether neighbours are found by cosine.
    """
    best = best_layer(layers, "score")
    metric = best["metric"]
    point = next(point for point in best["points"] if point["k"] == best["k"])
    keys = (metric, "top5", "interval", "confidence", "resamples", "seed")
    return run_document(
        "knn",
        record,
        headline={
            "layer": best["layer"],
            "k": best["k"],
            "metric": metric,
            **{key: point[key] for key in keys if key in point},
        },
        layers=layers,
        more={"temperature": temperature, "l2_norm": l2_norm},
    )


def knn_layer(
    layer: str,
    result: KNNAccuracy | KNNMeanAP,
    labels: NDArray[np.int64],
    *,
    intervals: Sequence[Mapping[str, Any]],
    headline_k: int,
    feature_dim: int,
    class_names: Sequence[str],
) -> dict[str, Any]:
    """One layer's part of the document; ``score`` is the metric at ``k``, the headline's.

    The metric is ``top1`` where an image has one class, and ``mean_ap`` where it may have several;
    a class's value is then the share of its test images whose first vote is right, or its AP.

    Args:
        layer: its name.
        result: the scores of the layer.
        labels: (N,) class ids of the test rows that count; unused for images of several classes.
        intervals: one for each k, from :func:`~assay.report.document.interval_facts`.
        headline_k: the k value that was named before anything was scored.
        feature_dim: length of a feature vector.
        class_names: by class id.
    """
    scores: list[dict[str, float | None]]
    if isinstance(result, KNNAccuracy):
        tops = zip(result.top1, result.top5, strict=True)
        metric, scores = "top1", [{"top1": float(one), "top5": float(five)} for one, five in tops]
        classes = _classes_by_hits(result, labels, class_names)
    else:
        metric, scores = "mean_ap", [{"mean_ap": number(value)} for value in result.mean_ap]
        classes = _classes_by_ap(result, class_names)
    points = [
        {"k": k, **score, **interval}
        for k, score, interval in zip(result.k_values, scores, intervals, strict=True)
    ]
    return {
        "layer": layer,
        "feature_dim": feature_dim,
        "metric": metric,
        "k_values": list(result.k_values),
        "k": headline_k,
        "score": next(point[metric] for point in points if point["k"] == headline_k),
        "num_undefined_classes": sum(each["num_test_positives"] == 0 for each in classes),
        "points": points,
        "classes": classes,
    }


def _classes_by_hits(
    result: KNNAccuracy, labels: NDArray[np.int64], class_names: Sequence[str]
) -> list[dict[str, Any]]:
    """The classes of the training rows, and those that only test rows have: never right there."""
    entries = []
    for class_id in sorted({*result.class_ids, *labels.tolist()}):
        rows = labels == class_id
        hits = result.top1_hits[:, rows]
        values = hits.mean(axis=1) if rows.any() else np.full(len(hits), np.nan)
        entries.append(_class_entry(class_id, class_names, values, int(rows.sum())))
    return entries


def _classes_by_ap(result: KNNMeanAP, class_names: Sequence[str]) -> list[dict[str, Any]]:
    counts = (result.targets == 1).sum(axis=0)
    return [
        _class_entry(class_id, class_names, result.test_ap[:, place], int(counts[place]))
        for place, class_id in enumerate(result.class_ids)
    ]


def _class_entry(
    class_id: int, class_names: Sequence[str], values: NDArray[np.float64], positives: int
) -> dict[str, Any]:
    return {
        "id": int(class_id),
        "name": class_name(class_names, class_id),
        "values": [number(value) for value in values],
        "num_test_positives": positives,
    }
