"""Results of made-up runs: seeded scores, from which APs and rankings follow as in a real run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from PIL import Image

COSTS = [0.01, 0.1, 1.0, 10.0]


def _ap(scores: np.ndarray, positive: np.ndarray) -> float | None:
    if not positive.any():
        return None
    hits = positive[np.argsort(-scores, kind="stable")]
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float(precision[hits].mean())


def _ranked(scores: np.ndarray, positive: np.ndarray, count: int) -> dict[str, Any]:
    order = np.argsort(-scores, kind="stable")
    hits = positive[order]

    def entries(places: Sequence[int]) -> list[dict[str, Any]]:
        return [
            {
                "row": int(order[place]),
                "name": f"photos/{order[place]:05d}.jpg",
                "score": float(scores[order[place]]),
                "positive": bool(hits[place]),
                "rank": int(place) + 1,
            }
            for place in places
        ]

    return {
        "first": entries(range(min(count, len(order)))),
        "last_positives": entries(np.flatnonzero(hits)[-count:]),
        "first_negatives": entries(np.flatnonzero(~hits)[:count]),
    }


def _layer(
    name: str, labels: np.ndarray, class_names: Sequence[str], noise: float, seed: int
) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    classes, ranked, aps = [], [], []
    for class_id, class_name in enumerate(class_names):
        positive = labels == class_id
        scores = 2.0 * positive - 1 + noise * random.normal(size=len(labels))
        ap = _ap(scores, positive)
        aps.append(np.nan if ap is None else ap)
        best = int(random.integers(len(COSTS)))
        peak = 0.9 if ap is None else ap
        crossval = [max(0.0, peak - 0.03 * (place - best) ** 2) for place in range(len(COSTS))]
        classes.append(
            {
                "id": class_id,
                "name": class_name,
                "ap": ap,
                "chosen_cost": COSTS[best],
                "crossval_ap": crossval,
                "num_train_positives": 2 * int(positive.sum()) + 3,
                "num_test_positives": int(positive.sum()),
            }
        )
        ranked.append({"class_id": class_id, **_ranked(scores, positive, 8)})
    defined = [ap for ap in aps if not np.isnan(ap)]
    return {
        "layer": name,
        "feature_dim": 128,
        "costs": COSTS,
        "mean_ap": float(np.mean(defined)) if defined else None,
        "num_undefined_classes": len(aps) - len(defined),
        "classes": classes,
        "ranked": ranked,
    }


def _results(
    *,
    class_names: Sequence[str] = ("cat", "dog", "fox"),
    layers: Sequence[str] = ("layer4",),
    absent: Sequence[int] = (),
    images_per_class: int = 8,
    seed: int = 0,
) -> dict[str, Any]:
    """What ``results.json`` holds; the classes ``absent`` have no positive test image."""
    present = [c for c in range(len(class_names)) if c not in absent]
    labels = np.repeat(np.array(present, dtype=np.int64), images_per_class)
    if not present:
        labels = np.full(images_per_class, -1)
    scored = [
        _layer(layer, labels, class_names, 0.4 + 0.3 * place, seed + place)
        for place, layer in enumerate(layers)
    ]
    split = {
        "source": "disk_folder photos/test",
        "digest": "sha256:" + "ab12" * 16,
        "num_images": len(labels),
        "num_classes": len(class_names),
        "multi_label": False,
        "skipped": [],
    }
    skipped = [{"name": "photos/train/broken.jpg", "reason": "cannot be decoded: truncated"}]
    return {
        "schema": 1,
        "kind": "svm",
        "assay_version": "0.1.0",
        "created": "2026-01-01T12:00:00+00:00",
        "command": "assay evaluate svm --model torchvision:resnet50 --train photos",
        "title": "torchvision:resnet50 on photos",
        "headline": {"layer": layers[0], "mean_ap": scored[0]["mean_ap"]},
        "model": {
            "name": "torchvision:resnet50",
            "weights": "torchvision IMAGENET1K_V2",
            "weights_digest": "sha256:" + "9f8e" * 16,
            "num_parameters": 25_557_032,
        },
        "transform": {"resize": 256, "crop": 224, "interpolation": "bilinear", "mean": [0.5]},
        "data": {"train": {**split, "skipped": skipped}, "test": split},
        "settings": {"config": {"SVM": {"normalize": True, "cls_list": []}, "SEED_VALUE": 0}},
        "versions": {"python": "3.11.7", "torch": "2.9.0"},
        "machine": {"cpu": "a processor", "cores": 2, "device": "cpu"},
        "layers": scored,
        "timings": [
            {"stage": "extract train", "elapsed_s": 18.25},
            {"stage": "svm layer4", "elapsed_s": 3.2},
        ],
    }


@pytest.fixture(scope="session")
def make_results() -> Callable[..., dict[str, Any]]:
    """A function that makes what ``results.json`` holds; see ``_results``."""
    return _results


@pytest.fixture(scope="session")
def load_image() -> Callable[[int], Image.Image]:
    """Test images by row: one colour each, small."""
    return lambda row: Image.new("RGB", (8, 8), (row % 256, row // 256, 90))
