"""``results.json`` of linear SVMs: every figure of a run, from which table and page are drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from assay.evaluate.ranked_examples import RankedExample, rank_examples
from assay.report.document import RunRecord, best_layer, class_name, number, run_document

if TYPE_CHECKING:
    from assay.evaluate.svm import SVMResult

__all__ = ["svm_layer", "svm_results"]


def svm_results(
    record: RunRecord, layers: Sequence[Mapping[str, Any]], *, ignore_label: str
) -> dict[str, Any]:
    """The whole document; ``layers`` come from :func:`svm_layer`, the best is the headline."""
    best = best_layer(layers, "mean_ap")
    keys = ("layer", "mean_ap", "interval", "confidence", "resamples", "seed")
    return run_document(
        "svm",
        record,
        headline={key: best[key] for key in keys if key in best},
        layers=layers,
        more={"ignore_label": ignore_label},
    )


def svm_layer(
    result: SVMResult,
    *,
    interval: Mapping[str, Any],
    feature_dim: int,
    class_names: Sequence[str],
    image_names: Sequence[str],
    inds: NDArray[np.int64],
    examples: int,
) -> dict[str, Any]:
    """One layer's part of the document.

    Args:
        result: the scores of the layer.
        interval: of the mean AP, from :func:`~assay.report.document.interval_facts`.
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
        "mean_ap": number(result.mean_ap),
        **interval,
        "num_undefined_classes": result.num_undefined,
        "classes": [
            {
                "id": class_id,
                "name": class_name(class_names, class_id),
                "ap": number(result.test_ap[place]),
                "chosen_cost": float(result.chosen_cost[place]),
                "crossval_ap": [number(ap) for ap in result.crossval_ap[place]],
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
