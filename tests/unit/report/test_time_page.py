from __future__ import annotations

import html
import re
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import numpy as np
import pytest

from assay.errors import DataError
from assay.report.document_time import TimedRun, merged_document, summary_of, timing_document
from assay.report.html_time import render_time
from assay.report.page_time import build_time_page, percentile_ms
from assay.timing import OneTime, Summary
from assay.timing.durations import Durations
from assay.timing.summary import Samples, summarize

HOSTILE = [
    "<script>alert(1)</script>",
    "{{ 7 * 7 }} {% raw %}",
    "&amp; \"quotes\" 'and' `ticks`",
    "x" * 5_000,
    "数字\u202eright to left\u2066",
    "a\x00b\x1b[31m\n\ud800",
    "",
    "$\\frac{1}{2}$",
]


def durations(values_ms: Sequence[float]) -> Durations:
    made = Durations()
    for value in values_ms:
        made.add_ms(value)
    return made


def summary_of_names(
    named: dict[str, Sequence[float]], iterations_ms: Sequence[float] = (), covered_ms: float = 0
) -> Summary:
    samples = {}
    for name, values in named.items():
        host = durations(values)
        samples[name] = Samples(host=host, in_iterations_ns=host.total_ns)
    return summarize(samples, durations(iterations_ms), covered_ns=round(covered_ms * 1e6))


def document(
    summary: Summary, *, rank: int = 0, world_size: int = 1, **more: Any
) -> dict[str, Any]:
    run = TimedRun(
        command=more.get("command", "assay time train.py --epochs 1"),
        created=datetime(2026, 1, 1, 12, tzinfo=timezone.utc),
        elapsed_s=12.5,
        options={"warmup": 3, "out": "runs/time"},
        process={"kind": "main", "rank": rank, "world_size": world_size, "pid": 7, "run": "a"},
        device="cpu",
    )
    return timing_document(run, summary)


@pytest.fixture
def training() -> Summary:
    random = np.random.default_rng(0)
    load, forward = random.uniform(1, 3, 40), random.uniform(5, 9, 40)
    iterations = load + forward + 1
    covered = float((load + forward).sum())
    return summary_of_names({"load": load, "forward": forward}, iterations, covered)


def seen(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", " ", page))


def test_a_page_shows_totals_means_spread_and_shares(training: Summary) -> None:
    page = render_time(document(training))

    text = seen(page)
    for expected in ("where does the time go?", "an iteration", "load", "forward", "12 s"):
        assert expected in text
    for section in ("totals", "spreads", "shares", "again"):
        assert f'id="{section}"' in page
    assert page.count("<svg") > 4
    assert "assay time train.py --epochs 1" in text


def test_a_page_loads_nothing_and_is_the_same_each_time(training: Summary) -> None:
    page = render_time(document(training))

    assert page == render_time(document(training))
    assert "http" not in re.sub(r"http-equiv", "", page)
    assert "<script" not in page


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_text(name: str) -> None:
    summary = summary_of_names({name: [1.0, 2.0], "other": [3.0]}, [4.0], 3.0)
    made = document(summary, command=f"assay time {name}")
    worker = {**document(summary), "process": {"rank": 0, "world_size": 1, "pid": 9, "run": "a"}}

    page = render_time(merged_document({0: made}, [worker]))

    assert "<script" not in page
    assert len(page) < 200_000
    page.encode("utf-8")
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("value_ms", "expected"),
    [
        (0.0, "0 ns"),
        (2e-6, "2.00 ns"),
        (0.004, "4.00 µs"),
        (2.5, "2.50 ms"),
        (3.6e8, "100 h 0 min"),
    ],
)
def test_durations_of_any_length_have_a_sensible_unit(value_ms: float, expected: str) -> None:
    page = render_time(document(summary_of_names({"part": [value_ms]})))

    assert expected in seen(page)


def test_lengths_far_apart_share_an_axis() -> None:
    page = render_time(document(summary_of_names({"short": [1e-6], "long": [1e9]})))

    assert "short" in seen(page)


def test_a_program_without_a_measurement_has_a_page_that_says_so() -> None:
    text = seen(render_time(document(Summary())))

    assert "no interval was measured" in text
    assert "12.5 s" in text


def test_without_iterations_one_is_told_how_to_have_them() -> None:
    page = render_time(document(summary_of_names({"load": [1.0]})))

    assert "finish_iter()" in page
    assert 'id="shares"' not in page


def test_names_within_names_are_not_stacked() -> None:
    overlapping = summary_of_names({"outer": [9.0], "inner": [8.0]}, [10.0], 9.0)
    apart = summary_of_names({"first": [5.0], "second": [4.0]}, [10.0], 9.0)

    assert build_time_page(document(overlapping)).shares_overlap
    assert "Names overlap" in render_time(document(overlapping))
    assert not build_time_page(document(apart)).shares_overlap


def test_thousands_of_names_fit_on_a_page() -> None:
    named = {f"step {number}": [float(number + 1)] for number in range(3_000)}

    page = render_time(document(summary_of_names(named, [5e6], 4.5e6)))

    assert len(page) < 5_000_000
    assert "timing.json has all" in seen(page)


def test_one_time_measurements_are_listed() -> None:
    once = (OneTime("read <b>", 12.0), OneTime("not over", None))

    text = seen(render_time(document(Summary(one_time=once))))

    assert "read <b>" in text
    assert "not ended" in text


def by_rank(*means_ms: float) -> dict[int, dict[str, Any]]:
    return {
        rank: document(
            summary_of_names({"step": [mean]}, [mean + 1], mean),
            rank=rank,
            world_size=len(means_ms),
        )
        for rank, mean in enumerate(means_ms)
    }


def test_ranks_are_compared_and_the_slowest_is_named() -> None:
    merged = merged_document(by_rank(1.0, 4.0, 2.0))

    assert merged["ranks"]["measurements"][0]["mean_ms"]["slowest_rank"] == 1
    text = seen(render_time(merged))
    assert "Rank by rank" in text
    assert "rank 1" in text
    assert "4.00 ms" in text


def test_a_rank_that_left_nothing_is_named() -> None:
    documents = by_rank(1.0, 4.0, 2.0)
    del documents[2]

    merged = merged_document(documents)

    assert merged["ranks"]["missing"] == [2]
    assert "rank 2" in seen(render_time(merged))


def test_a_summary_survives_its_document(training: Summary) -> None:
    assert summary_of(document(training)) == training


@pytest.mark.parametrize("change", [{"kind": "svm"}, {"schema": 2}])
def test_another_document_is_refused(training: Summary, change: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="Time it again"):
        render_time({**document(training), **change})


@pytest.mark.parametrize("percent", [5, 25, 50, 75, 95])
def test_percentiles_come_from_the_bins_to_their_stated_error(percent: float) -> None:
    values = np.random.default_rng(1).lognormal(size=2_000)
    statistics = durations(values.tolist()).statistics()
    assert statistics is not None

    exact = np.percentile(values, percent, method="inverted_cdf")

    assert percentile_ms(statistics, percent) == pytest.approx(exact, rel=0.008)
