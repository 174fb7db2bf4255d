"""The sheet of telling test images: which classes, which images, and whether they rank rightly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from assay.report.results import ClassScore, LayerScore, RankedClass, RankedImage
from assay.report.thumbnails import Thumbnails

__all__ = ["ClassSheet", "Strip", "Tile", "build_sheet", "class_strips"]

_STRIP_LENGTH = 4


@dataclass(frozen=True)
class Tile:
    """One image in a strip."""

    image: RankedImage
    verdict: Literal["right", "wrong"]
    remark: str  # what the verdict rests on


@dataclass(frozen=True)
class Strip:
    """Up to four images with one heading."""

    heading: str
    tiles: tuple[Tile, ...]


@dataclass(frozen=True)
class ClassSheet:
    """One class of the sheet."""

    score: ClassScore
    strips: tuple[Strip, ...]


def class_strips(ranked: RankedClass, num_positives: int) -> tuple[Strip, ...]:
    """The three strips of one class.

    A tile is wrong where it costs average precision: an image among the first that is not of the
    class, a positive that some negative outranks, a negative that outranks some positive. So a
    class whose tiles are all right has AP 1.
    """
    first = tuple(
        _tile(image, not image.positive, "of the class" if image.positive else "not of the class")
        for image in ranked.first[:_STRIP_LENGTH]
    )
    last = tuple(_last_positives(ranked, num_positives))[:_STRIP_LENGTH]
    negatives = tuple(_first_negatives(ranked, num_positives))[:_STRIP_LENGTH]
    strips = (
        Strip("Ranked first", first),
        Strip("Positives ranked last", last),
        Strip("Negatives ranked first", negatives),
    )
    return tuple(strip for strip in strips if strip.tiles)


def build_sheet(
    layer: LayerScore, thumbnails: Thumbnails, *, max_classes: int
) -> tuple[ClassSheet, ...]:
    """The weakest classes of ``layer`` with their strips, as many as the thumbnails' budget bears.

    A class without AP has nothing right or wrong to show, and is left out.
    """
    sheets = []
    for score in layer.defined()[:max_classes]:
        ranked = layer.ranked.get(score.class_id)
        strips = class_strips(ranked, score.num_test_positives) if ranked else ()
        if not strips:
            continue
        if not thumbnails.add({tile.image.row for strip in strips for tile in strip.tiles}):
            break
        sheets.append(ClassSheet(score, strips))
    return tuple(sheets)


def _last_positives(ranked: RankedClass, num_positives: int) -> Iterator[Tile]:
    """From the very last upwards."""
    for place, image in enumerate(reversed(ranked.last_positives)):
        above = image.rank - (num_positives - place)  # negatives that outrank it
        yield _tile(image, above > 0, f"negatives ranked above it: {above:,}")


def _first_negatives(ranked: RankedClass, num_positives: int) -> Iterator[Tile]:
    for place, image in enumerate(ranked.first_negatives, start=1):
        below = num_positives - (image.rank - place)  # positives that it outranks
        yield _tile(image, below > 0, f"positives ranked below it: {below:,}")


def _tile(image: RankedImage, wrong: bool, remark: str) -> Tile:
    return Tile(image, "wrong" if wrong else "right", remark)
