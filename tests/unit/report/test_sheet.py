from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from assay.evaluate.ranked_examples import rank_examples
from assay.report.results import RankedClass, RankedImage, read_results
from assay.report.sheet import build_sheet, class_strips
from assay.report.thumbnails import Thumbnails

MakeResults = Callable[..., dict[str, Any]]


def rank(positive: list[bool], count: int = 4) -> RankedClass:
    """A class whose images stand in the given order."""
    scores = -np.arange(len(positive), dtype=np.float64)
    examples = rank_examples(scores, np.array(positive, dtype=np.int64), count)

    def images(of: Any) -> tuple[RankedImage, ...]:
        return tuple(RankedImage(e.row, str(e.row), e.score, e.positive, e.rank) for e in of)

    return RankedClass(
        0, images(examples.first), images(examples.last_positives), images(examples.first_negatives)
    )


def verdicts(positive: list[bool]) -> dict[str, list[tuple[int, str]]]:
    strips = class_strips(rank(positive), sum(positive))
    return {s.heading: [(t.image.rank, t.verdict) for t in s.tiles] for s in strips}


def test_a_perfect_ranking_has_nothing_wrong() -> None:
    assert verdicts([True, True, False, False]) == {
        "Ranked first": [(1, "right"), (2, "right"), (3, "wrong"), (4, "wrong")],
        "Positives ranked last": [(2, "right"), (1, "right")],
        "Negatives ranked first": [(3, "right"), (4, "right")],
    }


def test_a_negative_among_positives_makes_both_sides_wrong() -> None:
    assert verdicts([True, False, True, True, True]) == {
        "Ranked first": [(1, "right"), (2, "wrong"), (3, "right"), (4, "right")],
        "Positives ranked last": [(5, "wrong"), (4, "wrong"), (3, "wrong"), (1, "right")],
        "Negatives ranked first": [(2, "wrong")],
    }


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.integers(1, 6))
def test_the_remark_counts_what_stands_on_the_wrong_side(positive: list[bool], count: int) -> None:
    for strip in class_strips(rank(positive, count), sum(positive)):
        for tile in strip.tiles:
            place = tile.image.rank - 1
            if strip.heading == "Positives ranked last":
                wrong = positive[:place].count(False)
                assert tile.remark == f"negatives ranked above it: {wrong}"
                assert tile.verdict == ("wrong" if wrong else "right")
            if strip.heading == "Negatives ranked first":
                wrong = positive[place:].count(True)
                assert tile.remark == f"positives ranked below it: {wrong}"
                assert tile.verdict == ("wrong" if wrong else "right")


def test_a_strip_without_images_is_left_out() -> None:
    assert set(verdicts([True, True])) == {"Ranked first", "Positives ranked last"}


def test_the_weakest_classes_come_first_and_undefined_ones_not_at_all(
    make_results: MakeResults, load_image: Callable[[int], Image.Image]
) -> None:
    layer = read_results(make_results(class_names="abcdef", absent=[2])).headline

    sheet = build_sheet(layer, Thumbnails(load_image, 10**6), max_classes=3)

    assert [entry.score for entry in sheet] == list(layer.defined()[:3])


def test_a_class_for_which_the_budget_is_too_small_ends_the_sheet(
    make_results: MakeResults, load_image: Callable[[int], Image.Image]
) -> None:
    layer = read_results(make_results(class_names="abcdef")).headline
    whole = Thumbnails(load_image, 10**6)
    build_sheet(layer, whole, max_classes=2)

    sheet = build_sheet(layer, Thumbnails(load_image, whole.used_bytes), max_classes=6)

    assert len(sheet) == 2
