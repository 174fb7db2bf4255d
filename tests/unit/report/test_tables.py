from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType

from assay.report.tables import environment_table, results_table

MakeResults = Callable[..., dict[str, Any]]


def show(table: RenderableType, width: int = 80) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(table)
    return out.getvalue()


def test_the_table_has_a_row_a_layer_with_its_weakest_and_strongest_class(
    make_results: MakeResults,
) -> None:
    results = make_results(layers=["layer3", "layer4"])
    results["layers"][1]["mean_ap"] = 0.54321
    for entry, ap in zip(results["layers"][1]["classes"], [0.5, 0.25, 0.75], strict=True):
        entry["ap"] = ap

    line = next(line for line in show(results_table(results)).splitlines() if "layer4" in line)

    assert "0.5432" in line
    assert line.index("0.250 dog") < line.index("0.750 fox")


def test_away_from_a_terminal_the_table_is_plain_text(make_results: MakeResults) -> None:
    assert "\x1b" not in show(results_table(make_results(layers=["layer3", "layer4"])))


@pytest.mark.parametrize("class_names", [["cat", "dog"], ["数" * 60, "y" * 300], ["a", "🦊" * 50]])
@pytest.mark.parametrize("layer", ["a", "encoder.layers." * 20])
def test_the_table_fits_80_columns_whatever_the_names(
    make_results: MakeResults, class_names: list[str], layer: str
) -> None:
    text = show(results_table(make_results(class_names=class_names, layers=[layer])), width=200)

    assert max(cell_len(line.rstrip()) for line in text.splitlines()) <= 80


def test_markup_and_escape_sequences_in_names_are_shown_not_obeyed(
    make_results: MakeResults,
) -> None:
    text = show(results_table(make_results(class_names=["[red]a", "\x1b[31mb"])))

    assert "[red]a" in text
    assert "\x1b" not in text


def test_classes_that_the_mean_leaves_out_are_counted_below(make_results: MakeResults) -> None:
    text = show(results_table(make_results(absent=[1])))

    assert "1 of 3 classes have no positive test image" in text


def test_with_no_class_defined_the_table_says_so(make_results: MakeResults) -> None:
    text = show(results_table(make_results(absent=[0, 1, 2])))

    assert "undefined" in text
    assert "none" in text


def test_the_environment_is_shown_value_by_value() -> None:
    text = show(environment_table({"python": "3.11.7", "accelerator": "none [cpu]"}))

    assert [line.split() for line in text.splitlines() if line.strip()] == [
        ["python", "3.11.7"],
        ["accelerator", "none", "[cpu]"],
    ]


def test_an_empty_environment_is_an_empty_table() -> None:
    assert show(environment_table({})).strip() == ""


def test_tables_are_light_to_import() -> None:
    code = (
        "import sys, assay.report.tables; "
        "print([m for m in ('torch', 'matplotlib', 'sklearn', 'jinja2') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
