from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.errors import OutputError
from assay.timing import (
    Stopwatch,
    Summary,
    summary_from_dict,
    summary_to_csv,
    summary_to_dict,
    write_summary_csv,
    write_summary_json,
)


@pytest.fixture
def summary(enable: Callable[..., Stopwatch], clock, device) -> Summary:
    stopwatch = enable(num_warmup_iters=1, device_events=True, event_clock=device)
    with stopwatch.measure("warm-up only"):
        pass
    stopwatch.finish_iter()
    for milliseconds in (1.5, 2.5):
        with stopwatch.measure('odd, "name"'):
            device.launch_ms(4)
            clock.pass_ms(milliseconds)
        clock.pass_ms(1)
        stopwatch.finish_iter()
    stopwatch.start_one_time_measurement("set up")
    clock.pass_ms(8)
    stopwatch.end_one_time_measurement("set up")
    stopwatch.start_one_time_measurement("still on")
    stopwatch.start_meas("running")
    return stopwatch.summary()


def test_a_summary_comes_back_from_json_as_it_was(summary: Summary) -> None:
    written = json.loads(json.dumps(summary_to_dict(summary), allow_nan=False))
    assert summary_from_dict(written) == summary


def test_the_json_names_each_figure(summary: Summary, tmp_path: Path) -> None:
    path = tmp_path / "timing.json"
    write_summary_json(summary, path)
    written = json.loads(path.read_text(encoding="utf-8"))
    assert (written["schema"], written["kind"]) == (1, "timing")
    assert (written["num_iterations"], written["unaccounted_ms"]) == (2, 2)
    assert written["running"] == ["running"]
    found = {each["name"]: each for each in written["measurements"]}
    assert found["warm-up only"]["host"] is None
    odd = found['odd, "name"']
    assert odd["host"]["mean_ms"] == 2
    assert odd["device"]["total_ms"] == 8
    assert odd["share"] == 4 / 6
    assert sum(each["count"] for each in odd["host"]["distribution"]) == 2


def test_the_csv_has_a_line_for_each_name(summary: Summary, tmp_path: Path) -> None:
    path = tmp_path / "timing.csv"
    write_summary_csv(summary, path)
    assert path.read_text(encoding="utf-8") == summary_to_csv(summary)
    rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    assert [(row["name"], row["kind"]) for row in rows] == [
        ("warm-up only", "measurement"),
        ('odd, "name"', "measurement"),
        ("running", "measurement"),
        ("iteration", "iteration"),
        ("set up", "one time"),
        ("still on", "one time"),
    ]
    assert all(None not in row and None not in row.values() for row in rows)
    assert (rows[1]["total_ms"], rows[1]["device_total_ms"]) == ("4.0", "8.0")
    assert (rows[0]["count"], rows[0]["total_ms"]) == ("", "")
    assert (rows[3]["count"], rows[3]["total_ms"]) == ("2", "6.0")
    assert (rows[4]["count"], rows[4]["total_ms"]) == ("1", "8.0")


@pytest.mark.parametrize(
    "wrong", [{}, {"kind": "svm", "schema": 1}, {"kind": "timing", "schema": 9}]
)
def test_what_is_no_summary_is_refused(wrong: dict) -> None:
    with pytest.raises(ValueError, match="no summary of timings in schema 1"):
        summary_from_dict(wrong)


def test_a_folder_that_is_missing_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="missing"):
        write_summary_json(Summary(), tmp_path / "missing" / "timing.json")
