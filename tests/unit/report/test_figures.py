from __future__ import annotations

import math
import warnings
from xml.etree import ElementTree

import numpy as np
import pytest

from assay.report.figures import (
    NARROW_PX,
    WIDE_PX,
    BarRow,
    ap_bars,
    ap_histogram,
    cost_curves,
    time_bars,
)


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter("text")]


def heights_of_bars(svg: str) -> int:
    return svg.count("fill:var(--accent)")


@pytest.mark.parametrize("width_px", [WIDE_PX, NARROW_PX])
def test_each_class_has_its_name_and_its_ap_beside_its_bar(width_px: int) -> None:
    svg = ap_bars([BarRow("cat", (0.25,)), BarRow("dog", (1.0,))], width_px=width_px, key="k")

    assert texts(svg)[-4:] == ["cat", "0.250", "dog", "1.000"]
    assert heights_of_bars(svg) == 2


def test_a_class_without_ap_says_why_and_has_no_bar() -> None:
    svg = ap_bars([BarRow("cat", (math.nan,), chance=0.0)], width_px=WIDE_PX, key="k")

    assert "no positive test image" in texts(svg)
    assert heights_of_bars(svg) == 0


def test_several_layers_share_a_row() -> None:
    svg = ap_bars([BarRow("cat", (0.9, 0.8, 0.7))], width_px=WIDE_PX, key="k")

    for colour in ("accent", "muted", "quiet"):
        assert f'style="fill:var(--{colour})"' in svg


def test_a_row_of_text_alone_has_no_bar() -> None:
    svg = ap_bars([BarRow("960 more classes", ())], width_px=WIDE_PX, key="k")

    assert "960 more classes" in texts(svg)
    assert heights_of_bars(svg) == 0


def test_a_long_name_is_cut_and_whole_in_its_tooltip() -> None:
    svg = ap_bars([BarRow("z" * 200, (0.5,))], width_px=NARROW_PX, key="k")

    titles = [title.text for title in ElementTree.fromstring(svg).iter("title")]
    assert titles == ["z" * 200]
    assert "z" * 200 not in texts(svg)


def test_the_histogram_leaves_undefined_classes_out() -> None:
    svg = ap_histogram([0.1, 0.12, math.nan, 1.0], width_px=WIDE_PX, key="k")

    assert "of 3 classes" in svg


def curves(
    costs: list[float], crossval_ap: np.ndarray, chosen: list[float], width_px: int = WIDE_PX
) -> str:
    return cost_curves(costs, crossval_ap, chosen, width_px=width_px, key="k")


def test_costs_stand_below_the_curves_with_how_many_classes_chose_them() -> None:
    crossval_ap = np.array([[0.5, 0.9], [0.6, 0.7], [0.8, 0.7]])

    shown = texts(curves([0.1, 10.0], crossval_ap, [10.0, 10.0, 0.1]))

    assert {"0.1", "10", "2", "1"} <= set(shown)


def test_costs_in_any_order_give_the_same_curves() -> None:
    crossval_ap = np.array([[0.5, 0.9, 0.7]])

    shuffled = curves([10.0, 0.1, 1.0], crossval_ap[:, [2, 0, 1]], [1.0])

    assert shuffled == curves([0.1, 1.0, 10.0], crossval_ap, [1.0])


@pytest.mark.parametrize("num_classes", [1, 40, 41, 200])
@pytest.mark.parametrize("num_costs", [1, 2, 17])
def test_curves_of_any_number_of_classes_and_costs_can_be_drawn(
    num_classes: int, num_costs: int
) -> None:
    random = np.random.default_rng(0)
    costs = [0.001 * 2.0**power for power in range(num_costs)]
    crossval_ap = random.uniform(0.4, 1, size=(num_classes, num_costs))

    svg = curves(costs, crossval_ap, [costs[-1]] * num_classes, NARROW_PX)

    assert f"for {num_classes} classes" in svg


@pytest.mark.parametrize("num_classes", [3, 60])
def test_undefined_values_are_gaps_and_no_warning(num_classes: int) -> None:
    crossval_ap = np.full((num_classes, 3), np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        curves([0.1, 1.0, 10.0], crossval_ap, [1.0] * num_classes)
        crossval_ap[0] = [0.5, np.nan, 0.7]
        curves([0.1, 1.0, 10.0], crossval_ap, [1.0] * num_classes)


def test_names_in_any_script_draw_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svg = ap_bars([BarRow("数字 🦊 $a_", (0.5,))], width_px=WIDE_PX, key="k")

    assert "数字 🦊 $a_" in texts(svg)


@pytest.mark.parametrize("stages", [[], [("load", 0.0, "0 s")], [("a", 2.0, "x"), ("b", 1.0, "y")]])
def test_each_stage_has_its_text(stages: list[tuple[str, float, str]]) -> None:
    shown = texts(time_bars(stages, width_px=NARROW_PX, key="k"))

    assert shown == [text for name, _, beside in stages for text in (name, beside)]
