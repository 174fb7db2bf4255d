"""``results.json`` of low-shot SVMs as data: checked once, then read by the table and the page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.report.run_facts import (
    RunFacts,
    find_headline,
    missing_key,
    read_facts,
    read_number,
)
from assay.report.wording import printable

__all__ = ["LowShotClass", "LowShotLayer", "LowShotResults", "SamplePoint", "read_low_shot"]


@dataclass(frozen=True)
class SamplePoint:
    """Mean AP at one k, over the samples; all of it in 0..1, NaN where undefined."""

    k: int  # positives a class
    cost: float  # the one of the highest mean test AP over the samples
    mean_ap: float
    std: float  # population standard deviation over the samples
    lowest: float
    highest: float
    samples: tuple[float, ...]  # one a sample
    crossval_mean_ap: float  # costs chosen by cross-validation instead; NaN where k is below folds
    crossval_std: float


@dataclass(frozen=True)
class LowShotClass:
    """One class in one layer."""

    name: str
    ap: tuple[float, ...]  # one a k, mean over samples; NaN where no test image is positive


@dataclass(frozen=True)
class LowShotLayer:
    """One layer, all k values and classes."""

    layer: str
    feature_dim: int
    points: tuple[SamplePoint, ...]  # by rising k
    num_undefined: int
    classes: tuple[LowShotClass, ...]  # the weakest at the largest k first, undefined ones last

    @property
    def largest(self) -> SamplePoint:
        """The point of the largest k."""
        return self.points[-1]


@dataclass(frozen=True)
class LowShotResults:
    """All of a run's results."""

    facts: RunFacts
    headline: LowShotLayer
    layers: tuple[LowShotLayer, ...]
    dataset_name: str
    num_samples: int


def read_low_shot(results: Mapping[str, Any]) -> LowShotResults:
    """The results of a low-shot run, from what ``results.json`` holds.

    Raises:
        DataError: a key is missing, or another version or kind of run wrote the results.
    """
    try:
        facts = read_facts(results, "low_shot")
        layers = tuple(_layer(layer) for layer in results["layers"])
        place = find_headline(results["headline"]["layer"], [layer.layer for layer in layers])
        dataset_name = printable(results["dataset_name"])
    except KeyError as error:
        raise missing_key(error) from error
    headline = layers[place]
    return LowShotResults(facts, headline, layers, dataset_name, len(headline.largest.samples))


def _layer(raw: Mapping[str, Any]) -> LowShotLayer:
    order = sorted(range(len(raw["points"])), key=lambda place: int(raw["points"][place]["k"]))
    classes = [
        LowShotClass(
            printable(str(each["name"])), tuple(read_number(each["ap"][place]) for place in order)
        )
        for each in raw["classes"]
    ]
    return LowShotLayer(
        layer=printable(raw["layer"]),
        feature_dim=raw["feature_dim"],
        points=tuple(_point(raw["points"][place]) for place in order),
        num_undefined=raw["num_undefined_classes"],
        classes=tuple(sorted(classes, key=lambda each: _last_ap(each.ap))),
    )


def _last_ap(aps: tuple[float, ...]) -> float:
    return math.inf if math.isnan(aps[-1]) else aps[-1]


def _point(raw: Mapping[str, Any]) -> SamplePoint:
    return SamplePoint(
        k=raw["k"],
        cost=float(raw["cost"]),
        mean_ap=read_number(raw["mean_ap"]),
        std=read_number(raw["std"]),
        lowest=read_number(raw["min"]),
        highest=read_number(raw["max"]),
        samples=tuple(read_number(value) for value in raw["samples"]),
        crossval_mean_ap=read_number(raw["crossval_mean_ap"]),
        crossval_std=read_number(raw["crossval_std"]),
    )
