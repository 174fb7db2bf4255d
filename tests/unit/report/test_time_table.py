from __future__ import annotations

import pytest

from assay.report.time_table import ranks_table, time_table
from assay.report.wording import display_width
from assay.timing import Summary
from assay.timing.durations import Durations
from assay.timing.rank_summary import OverRanks
from assay.timing.summary import Samples, summarize


def summary(*names: str, unmeasured: tuple[str, ...] = (), iterations: int = 0) -> Summary:
    samples = {}
    for name in names:
        samples[name] = Samples()
        samples[name].host.add_ms(1.0)
    samples.update({name: Samples() for name in unmeasured})
    lengths = Durations()
    for _ in range(iterations):
        lengths.add_ms(2.0)
    return summarize(samples, lengths)


def test_only_names_with_data_are_rows() -> None:
    rows = time_table(summary("load", unmeasured=("never",)), width=100).splitlines()

    assert any(row.startswith("load") for row in rows)
    assert "Never measured: 'never'. They ran in the warm-up alone, or were not ended." in rows


def test_a_warm_up_without_an_end_is_explained() -> None:
    text = time_table(summary(unmeasured=("load",)), width=100, warmup=10)

    assert "warm-up of 10 iterations did not end" in text


def test_without_any_measurement_one_learns_how_to_make_some() -> None:
    assert 'Stopwatch().measure("forward")' in time_table(Summary(), width=80)


def over(low: float, mean: float, high: float, slowest: int) -> dict[str, float]:
    return vars(OverRanks(low, mean, high, slowest))


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_table_of_ranks_fits_the_terminal(width: int) -> None:
    measurements = [
        {"name": name, "mean_ms": over(0.001, 1, 3000, 3), "missing_ranks": [1]}
        for name in ("step", "数字" * 60, "x" * 300)
    ]
    ranks = {
        "world_size": 4,
        "measurements": measurements,
        "iteration_ms": over(1, 2, 3, 0),
        "missing": [1],
    }

    lines = ranks_table(ranks, width=width).splitlines()

    assert max(map(display_width, lines)) <= width
    assert "rank 3" in lines[1]
    assert "(iteration)" in lines[4]
    assert lines[-1] == "Without a file of its own, so not counted: rank 1."
