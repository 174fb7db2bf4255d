from __future__ import annotations

import math
import warnings
from xml.etree import ElementTree

import pytest

from assay.report.difference_bars import DifferenceRow, difference_bars
from assay.report.figures import NARROW_PX, WIDE_PX
from assay.report.k_curves import Series, k_curves


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter("text")]


def series(name: str, score: float, k_values: tuple[int, ...] = (1, 4, 16)) -> Series:
    scores = tuple(score for _ in k_values)
    low, high = (tuple(each + by for each in scores) for by in (-0.1, 0.1))
    return Series(name, k_values, scores, low, high)


def draw(*shown: Series, width_px: int = WIDE_PX) -> str:
    return k_curves(shown, width_px=width_px, key="k", title="images a class", score="mean AP")


@pytest.mark.parametrize("width_px", [WIDE_PX, NARROW_PX])
def test_each_k_stands_below_the_curves(width_px: int) -> None:
    assert {"1", "4", "16", "images a class"} <= set(
        texts(draw(series("fc", 0.5), width_px=width_px))
    )


def test_the_first_three_curves_are_drawn_each_in_its_colour() -> None:
    svg = draw(*(series(str(place), 0.2 * place) for place in range(1, 5)))

    assert "for 3 layers" in svg
    for colour in ("accent", "muted", "quiet"):
        assert f"stroke:var(--{colour})" in svg


def test_a_band_that_leaves_the_range_of_scores_is_cut() -> None:
    assert "1.2" not in texts(draw(series("fc", 0.99)))


def test_undefined_scores_and_a_single_k_draw_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw(series("fc", 0.5, k_values=(20,)))
        draw(series("fc", math.nan))


def test_a_difference_has_its_name_its_number_and_its_colour() -> None:
    rows = [
        DifferenceRow("1 less 2", 0.05, 0.01, 0.09, True),
        DifferenceRow("x", -0.1, -0.3, 0.1, False),
    ]

    svg = difference_bars(rows, width_px=WIDE_PX, key="k")

    assert {"1 less 2", "+0.0500", "x", "\N{MINUS SIGN}0.1000", "0"} <= set(texts(svg))
    assert "var(--accent)" in svg
    assert "var(--quiet)" in svg


def test_differences_of_nothing_draw() -> None:
    rows = [DifferenceRow("a", 0.0, 0.0, 0.0, False)]

    assert "1 differences" in difference_bars(rows, width_px=NARROW_PX, key="k")
