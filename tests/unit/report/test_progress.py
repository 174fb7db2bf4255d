from __future__ import annotations

import io

import pytest
from rich.console import Console

from assay.report.progress import ProgressView, StageTiming


class Clock:
    """Each reading is a second after the one before."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def test_a_stage_away_from_a_terminal_is_one_line_with_its_rate() -> None:
    out = io.StringIO()
    view = ProgressView(Console(file=out, width=200), clock=Clock())

    with view.stage("extract train", total=10, unit="images") as advance:
        advance(4)
        advance(6)

    assert out.getvalue() == "extract train: 10 images in 1.0 s, 10 images/s\n"


def test_the_time_of_each_stage_is_kept_also_when_nothing_is_shown() -> None:
    view = ProgressView(clock=Clock())

    with view.stage("merge"):
        pass

    assert view.timings == [StageTiming("merge", 1.0)]


def test_a_stage_that_fails_leaves_no_timing() -> None:
    view = ProgressView(clock=Clock())

    with pytest.raises(ValueError, match="bad"), view.stage("merge"):
        raise ValueError("bad")

    assert view.timings == []


def test_a_terminal_gets_a_bar() -> None:
    out = io.StringIO()
    view = ProgressView(Console(file=out, force_terminal=True, width=100), clock=Clock())

    with view.stage("extract [train]", total=2, unit="images") as advance:
        advance(2)

    assert "extract [train]" in out.getvalue()
    assert "2/2" in out.getvalue()
