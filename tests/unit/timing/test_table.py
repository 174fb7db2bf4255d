from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.timing import Measurement, OneTime, Stopwatch, Summary, summary_table
from assay.timing.durations import Durations
from assay.timing.table import format_ms


def measurement(name: str, lengths_ms: list[float], **known: float | None) -> Measurement:
    durations = Durations()
    for each in lengths_ms:
        durations.add_ms(each)
    fields = {"device": None, "num_failed": 0, "per_iteration_ms": None, "share": None}
    return Measurement(
        name,
        durations.statistics(),
        **{**fields, "cpu_percent": None, **known},  # type: ignore[arg-type]
    )


def test_the_table_shows_each_name_and_the_time_under_none(
    enable: Callable[..., Stopwatch], clock
) -> None:
    stopwatch = enable()
    for _ in range(2):
        with stopwatch.measure("forward"):
            clock.pass_ms(3)
        clock.pass_ms(1)
        stopwatch.finish_iter()
    lines = summary_table(stopwatch.summary()).splitlines()
    assert [" ".join(line.split()) for line in lines] == [
        "2 measured iterations, 4.000 ms each",
        "ms count total mean std min median p95 max per iter share",
        "forward 2 6.000 3.000 0.000 3.000 3.000 3.000 3.000 3.000 75.0 %",
        "(under no name) 2.000 1.000 25.0 %",
    ]
    assert len({len(line) for line in lines[1:]}) == 1


def test_a_summary_of_nothing_says_so() -> None:
    assert summary_table(Summary()) == "Nothing was measured."


def test_one_time_measurements_have_a_table_of_their_own() -> None:
    summary = Summary(one_time=(OneTime("set up", 1234.5), OneTime("model", None)))
    assert summary_table(summary).splitlines() == [
        "one time       ms",
        "set up       1234",
        "model     running",
    ]


def test_columns_of_the_device_and_the_cpu_are_shown_when_something_is_known() -> None:
    on_device = measurement("x", [2.0]).host
    table = summary_table(
        Summary(
            measurements=(
                measurement("a", [1.0], device=on_device, cpu_percent=37.5),  # type: ignore[arg-type]
                measurement("b", [1.0]),
            )
        ),
        width=200,
    ).splitlines()
    assert table[0].split()[-6:] == ["device", "mean", "device", "p95", "cpu", "%"]
    assert table[1].split()[-3:] == ["2.000", "2.000", "37.5"]
    assert table[2].split()[-3:] == ["-", "-", "-"]


NAMES = st.text(min_size=1, max_size=300)


@given(st.lists(NAMES, min_size=1, max_size=5, unique=True), st.integers(60, 140))
def test_the_table_fits_whatever_the_names(names: list[str], width: int) -> None:
    summary = Summary(measurements=tuple(measurement(name, [12345.678]) for name in names))
    lines = summary_table(summary, width).split("\n")
    assert len(lines) == 1 + len(names)
    assert all(len(line) <= width for line in lines)
    assert all("12346" in line for line in lines[1:])


def test_a_long_name_keeps_its_beginning_and_its_end() -> None:
    name = "encoder.layers." + "blocks." * 30 + "attention"
    [_, line] = summary_table(Summary(measurements=(measurement(name, [1]),)), 80).splitlines()
    assert line.startswith("encoder.lay")
    assert "…" in line
    assert "attention " in line


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0.000"),
        (0.000123, "0.000123"),
        (0.0123, "0.0123"),
        (1.5, "1.500"),
        (12.345, "12.35"),
        (123.45, "123.5"),
        (12345.6, "12346"),
    ],
)
def test_milliseconds_have_about_four_figures(value: float | None, text: str) -> None:
    assert format_ms(value) == text
