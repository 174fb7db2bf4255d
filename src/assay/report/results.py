"""``results.json`` of linear SVMs as data: checked once, then read by the table and the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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

__all__ = [
    "ClassScore",
    "LayerScore",
    "RankedClass",
    "RankedImage",
    "Results",
    "read_results",
]


@dataclass(frozen=True)
class ClassScore:
    """One class in one layer."""

    class_id: int
    name: str
    ap: float  # 0..1, NaN where no test image is positive
    chosen_cost: float
    crossval_ap: tuple[float, ...]  # (K,) one a cost, 0..1, NaN where undefined
    num_train_positives: int
    num_test_positives: int


@dataclass(frozen=True)
class RankedImage:
    """One test image in the ranking of one class."""

    row: int  # row of the test set
    name: str
    score: float
    positive: bool
    rank: int  # 1 = highest score


@dataclass(frozen=True)
class RankedClass:
    """The telling ends of one class's ranking, each in order of rank."""

    class_id: int
    first: tuple[RankedImage, ...]
    last_positives: tuple[RankedImage, ...]
    first_negatives: tuple[RankedImage, ...]


@dataclass(frozen=True)
class LayerScore:
    """One layer, all classes."""

    layer: str
    feature_dim: int
    costs: tuple[float, ...]  # (K,)
    mean_ap: float  # over the classes where AP is defined; NaN if there is none
    interval: Interval | None  # of mean_ap
    num_undefined: int
    classes: tuple[ClassScore, ...]
    ranked: Mapping[int, RankedClass]  # by class id

    def weakest_first(self) -> tuple[ClassScore, ...]:
        """The classes by rising AP, equal ones in their own order, undefined ones last."""
        return tuple(sorted(self.classes, key=lambda c: math.inf if math.isnan(c.ap) else c.ap))

    def defined(self) -> tuple[ClassScore, ...]:
        """The classes whose AP is defined, by rising AP."""
        return tuple(c for c in self.weakest_first() if not math.isnan(c.ap))


@dataclass(frozen=True)
class Results:
    """All of a run's results."""

    facts: RunFacts
    headline: LayerScore
    layers: tuple[LayerScore, ...]
    ignore_label: str  # what training labels -1 were: negative, drop; "" if it is not known


def read_results(results: Mapping[str, Any]) -> Results:
    """The results of an SVM run, from what ``results.json`` holds.

    Raises:
        DataError: a key is missing, or another version or kind of run wrote the results.
    """
    try:
        facts = read_facts(results, "svm")
        layers = tuple(_layer(layer) for layer in results["layers"])
        place = find_headline(results["headline"]["layer"], [layer.layer for layer in layers])
    except KeyError as error:
        raise missing_key(error) from error
    return Results(facts, layers[place], layers, str(results.get("ignore_label", "")))


def _layer(raw: Mapping[str, Any]) -> LayerScore:
    return LayerScore(
        layer=printable(raw["layer"]),
        feature_dim=raw["feature_dim"],
        costs=tuple(map(float, raw["costs"])),
        mean_ap=read_number(raw["mean_ap"]),
        interval=read_interval(raw),
        num_undefined=raw["num_undefined_classes"],
        classes=tuple(_class(entry) for entry in raw["classes"]),
        ranked={entry["class_id"]: _ranked(entry) for entry in raw["ranked"]},
    )


def _class(raw: Mapping[str, Any]) -> ClassScore:
    return ClassScore(
        class_id=raw["id"],
        name=printable(str(raw["name"])),
        ap=read_number(raw["ap"]),
        chosen_cost=read_number(raw["chosen_cost"]),
        crossval_ap=tuple(read_number(value) for value in raw["crossval_ap"]),
        num_train_positives=raw["num_train_positives"],
        num_test_positives=raw["num_test_positives"],
    )


def _ranked(raw: Mapping[str, Any]) -> RankedClass:
    return RankedClass(
        class_id=raw["class_id"],
        first=_images(raw["first"]),
        last_positives=_images(raw["last_positives"]),
        first_negatives=_images(raw["first_negatives"]),
    )


def _images(raw: Sequence[Mapping[str, Any]]) -> tuple[RankedImage, ...]:
    return tuple(
        RankedImage(
            row=entry["row"],
            name=printable(str(entry["name"])),
            score=float(entry["score"]),
            positive=bool(entry["positive"]),
            rank=entry["rank"],
        )
        for entry in raw
    )
