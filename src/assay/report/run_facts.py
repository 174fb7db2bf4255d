"""What the results of all kinds of runs have in common, as data: checked once, then read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.errors import DataError
from assay.report.wording import printable, printable_tree

__all__ = [
    "Interval",
    "RunFacts",
    "Skipped",
    "SplitCounts",
    "find_headline",
    "missing_key",
    "read_facts",
    "read_interval",
    "read_number",
]

_SCHEMA = 1


@dataclass(frozen=True)
class Interval:
    """Where a score would be on other test images like these."""

    low: float
    high: float
    confidence: float  # 0..1
    resamples: int


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
class RunFacts:
    """How a run came about; every text in it is printable."""

    title: str
    created: str  # ISO 8601
    command: str
    assay_version: str
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


def read_facts(results: Mapping[str, Any], kind: str) -> RunFacts:
    """The facts of a run, from what ``results.json`` holds.

    Raises:
        DataError: another version or kind of run wrote the results.
        KeyError: a key is missing.
    """
    if results.get("schema") != _SCHEMA or results.get("kind") != kind:
        raise DataError(
            f"These results are of schema {results.get('schema')!r}, kind {results.get('kind')!r}; "
            f"wanted was schema {_SCHEMA}, kind {kind!r}. Run the command of the run again with "
            f"this version of assay."
        )
    return RunFacts(
        title=printable(results["title"]),
        created=printable(results["created"]),
        command=printable(results["command"], keep_lines=True),
        assay_version=printable(results["assay_version"]),
        splits=tuple(_split(name, results["data"][name]) for name in ("train", "test")),
        timings=tuple((printable(t["stage"]), float(t["elapsed_s"])) for t in results["timings"]),
        model=printable_tree(results["model"]),
        transform=printable_tree(results["transform"]),
        settings=printable_tree(results["settings"]),
        versions=printable_tree(results["versions"]),
        machine=printable_tree(results["machine"]),
    )


def read_interval(raw: Mapping[str, Any]) -> Interval | None:
    """The interval beside a score; None of a score that has none."""
    if raw.get("interval") is None:
        return None
    low, high = raw["interval"]
    return Interval(float(low), float(high), float(raw["confidence"]), int(raw["resamples"]))


def missing_key(error: KeyError) -> DataError:
    """The error to raise for a key that results lack."""
    return DataError(
        f"These results lack the key {error}. Run the command of the run again with this version "
        f"of assay."
    )


def read_number(value: float | None) -> float:
    """A score; NaN for what strict JSON holds as null."""
    return math.nan if value is None else float(value)


def find_headline(wanted: str, layers: Sequence[str]) -> int:
    """The place of the headline's layer among the layers.

    Raises:
        DataError: it is not there.
    """
    name = printable(wanted)
    if name not in layers:
        known = ", ".join(layers) or "none"
        raise DataError(f"The headline layer {name!r} is not among the results' layers: {known}.")
    return list(layers).index(name)


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
