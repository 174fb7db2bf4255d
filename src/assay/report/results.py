"""``results.json`` as data: checked once, then read by the table and the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.errors import DataError
from assay.report.wording import printable, printable_tree

__all__ = [
    "ClassScore",
    "LayerScore",
    "RankedClass",
    "RankedImage",
    "Results",
    "Skipped",
    "SplitCounts",
    "read_results",
]

_SCHEMA = 1


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
class Skipped:
    """An image that was left out."""

    name: str
    reason: str


@dataclass(frozen=True)
class SplitCounts:
    """One split of the data."""

    split: str
    source: str
    digest: str
    num_images: int
    num_classes: int
    multi_label: bool
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True)
class Results:
    """All of a run's results; every text in it is printable."""

    title: str
    created: str  # ISO 8601
    command: str
    assay_version: str
    headline: LayerScore
    layers: tuple[LayerScore, ...]
    splits: tuple[SplitCounts, ...]
    timings: tuple[tuple[str, float], ...]  # stage, seconds; in the order in which they ran
    model: Mapping[str, Any]
    transform: Mapping[str, Any]
    settings: Mapping[str, Any]
    versions: Mapping[str, Any]
    machine: Mapping[str, Any]

    def split(self, name: str) -> SplitCounts:
        """The split of that name, ``"train"`` or ``"test"``."""
        return next(split for split in self.splits if split.split == name)


def read_results(results: Mapping[str, Any]) -> Results:
    """The results of an SVM run, from what ``results.json`` holds.

    Raises:
        DataError: a key is missing, or another version or kind of run wrote the results.
    """
    if results.get("schema") != _SCHEMA or results.get("kind") != "svm":
        raise DataError(
            f"These results are of schema {results.get('schema')!r}, kind {results.get('kind')!r}; "
            f"the report shows schema {_SCHEMA}, kind 'svm'. Run `assay evaluate svm` again with "
            f"this version of assay."
        )
    try:
        return _results(results)
    except KeyError as error:
        raise DataError(
            f"These results lack the key {error}. Run `assay evaluate svm` again with this "
            f"version of assay."
        ) from error


def _results(raw: Mapping[str, Any]) -> Results:
    layers = tuple(_layer(layer) for layer in raw["layers"])
    wanted = printable(raw["headline"]["layer"])
    headline = [layer for layer in layers if layer.layer == wanted]
    if not headline:
        known = ", ".join(layer.layer for layer in layers) or "none"
        raise DataError(f"The headline layer {wanted!r} is not among the results' layers: {known}.")
    return Results(
        title=printable(raw["title"]),
        created=printable(raw["created"]),
        command=printable(raw["command"], keep_lines=True),
        assay_version=printable(raw["assay_version"]),
        headline=headline[0],
        layers=layers,
        splits=tuple(_split(name, raw["data"][name]) for name in ("train", "test")),
        timings=tuple((printable(t["stage"]), float(t["elapsed_s"])) for t in raw["timings"]),
        model=printable_tree(raw["model"]),
        transform=printable_tree(raw["transform"]),
        settings=printable_tree(raw["settings"]),
        versions=printable_tree(raw["versions"]),
        machine=printable_tree(raw["machine"]),
    )


def _layer(raw: Mapping[str, Any]) -> LayerScore:
    return LayerScore(
        layer=printable(raw["layer"]),
        feature_dim=raw["feature_dim"],
        costs=tuple(map(float, raw["costs"])),
        mean_ap=_number(raw["mean_ap"]),
        num_undefined=raw["num_undefined_classes"],
        classes=tuple(_class(entry) for entry in raw["classes"]),
        ranked={entry["class_id"]: _ranked(entry) for entry in raw["ranked"]},
    )


def _class(raw: Mapping[str, Any]) -> ClassScore:
    return ClassScore(
        class_id=raw["id"],
        name=printable(str(raw["name"])),
        ap=_number(raw["ap"]),
        chosen_cost=_number(raw["chosen_cost"]),
        crossval_ap=tuple(_number(value) for value in raw["crossval_ap"]),
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


def _split(name: str, raw: Mapping[str, Any]) -> SplitCounts:
    return SplitCounts(
        split=name,
        source=printable(raw["source"]),
        digest=printable(raw["digest"]),
        num_images=raw["num_images"],
        num_classes=raw["num_classes"],
        multi_label=raw["multi_label"],
        skipped=tuple(
            Skipped(printable(s["name"]), printable(s["reason"])) for s in raw["skipped"]
        ),
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
