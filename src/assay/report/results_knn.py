"""``results.json`` of nearest neighbours as data: checked once, then read by table and page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.report.run_facts import (
    Interval,
    RunFacts,
    find_headline,
    missing_key,
    read_facts,
    read_interval,
    read_number,
)
from assay.report.wording import printable

__all__ = ["KNNClass", "KNNLayer", "KNNPoint", "KNNResults", "read_knn"]


@dataclass(frozen=True)
class KNNPoint:
    """The score of one k; 0..1, NaN where undefined."""

    k: int  # neighbours that vote
    score: float  # top-1 accuracy, or mean AP
    top5: float  # NaN where the score is a mean AP
    interval: Interval | None  # of the score


@dataclass(frozen=True)
class KNNClass:
    """One class in one layer."""

    name: str
    value: float  # at the headline's k: share of its images that are right, or AP; NaN: undefined
    values: tuple[float, ...]  # one a k
    num_test_positives: int


@dataclass(frozen=True)
class KNNLayer:
    """One layer, all k values and classes."""

    layer: str
    feature_dim: int
    points: tuple[KNNPoint, ...]  # by rising k
    chosen: KNNPoint  # the headline's k
    num_undefined: int
    classes: tuple[KNNClass, ...]  # weakest first, undefined ones last

    def defined(self) -> tuple[KNNClass, ...]:
        """The classes that have test images, weakest first."""
        return tuple(each for each in self.classes if not math.isnan(each.value))


@dataclass(frozen=True)
class KNNResults:
    """All of a run's results."""

    facts: RunFacts
    headline: KNNLayer
    layers: tuple[KNNLayer, ...]
    metric: str  # top1, mean_ap
    k: int  # the headline's
    temperature: float
    l2_norm: bool  # neighbours by cosine, else by inner product


def read_knn(results: Mapping[str, Any]) -> KNNResults:
    """The results of a nearest-neighbour run, from what ``results.json`` holds.

    Raises:
        DataError: a key is missing, or another version or kind of run wrote the results.
    """
    try:
        facts = read_facts(results, "knn")
        layers = tuple(_layer(layer) for layer in results["layers"])
        place = find_headline(results["headline"]["layer"], [layer.layer for layer in layers])
        return KNNResults(
            facts=facts,
            headline=layers[place],
            layers=layers,
            metric=results["headline"]["metric"],
            k=results["headline"]["k"],
            temperature=float(results["temperature"]),
            l2_norm=bool(results["l2_norm"]),
        )
    except KeyError as error:
        raise missing_key(error) from error


def _layer(raw: Mapping[str, Any]) -> KNNLayer:
    order = sorted(range(len(raw["points"])), key=lambda place: int(raw["points"][place]["k"]))
    points = tuple(_point(raw["points"][place], raw["metric"]) for place in order)
    chosen = next(place for place, point in enumerate(points) if point.k == raw["k"])
    classes = []
    for each in raw["classes"]:
        values = tuple(read_number(each["values"][place]) for place in order)
        name = printable(str(each["name"]))
        classes.append(KNNClass(name, values[chosen], values, each["num_test_positives"]))
    return KNNLayer(
        layer=printable(raw["layer"]),
        feature_dim=raw["feature_dim"],
        points=points,
        chosen=points[chosen],
        num_undefined=raw["num_undefined_classes"],
        classes=tuple(sorted(classes, key=lambda c: math.inf if math.isnan(c.value) else c.value)),
    )


def _point(raw: Mapping[str, Any], metric: str) -> KNNPoint:
    return KNNPoint(
        k=raw["k"],
        score=read_number(raw[metric]),
        top5=read_number(raw.get("top5")),
        interval=read_interval(raw),
    )
