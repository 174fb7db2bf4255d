from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.errors import InstrumentError
from assay.recipes.time_options import TimeOptions
from assay.recipes.timed_process import PROCESS_VARIABLE, VARIABLE, TimedProcess
from assay.recipes.timed_session import TimedSession
from assay.timing import Stopwatch


@pytest.fixture
def environ() -> dict[str, str]:
    return {}


@pytest.fixture(autouse=True)
def no_session_stays(environ: dict[str, str]) -> Iterator[None]:
    yield
    session = TimedSession.current()
    if session is not None:
        session.cancel(environ)


def start(environ: dict[str, str], out: Path, **options: Any) -> TimedSession:
    chosen = TimeOptions(**{"report": False, "out": out, **options})
    session = TimedSession(chosen, TimedProcess.from_environment({}), "python train.py --token=abc")
    session.start(environ)
    return session


def read(out: Path) -> dict[str, Any]:
    return json.loads((out / "timing.json").read_text())


def test_what_is_measured_while_it_lasts_is_written_once(
    tmp_path: Path, environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    session = start(environ, tmp_path)
    with Stopwatch().measure("load"):
        pass

    session.finish()
    session.finish()

    assert capsys.readouterr().err.count("load") == 1
    document = read(tmp_path)
    assert document["summary"]["measurements"][0]["name"] == "load"
    assert document["options"]["out"] == str(tmp_path)
    assert document["process"]["kind"] == "main"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "timing.csv",
        "timing.json",
        "trace.json",
    ]


def test_secrets_of_the_command_line_are_not_written(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    start(environ, tmp_path, export=("json",)).finish()

    assert "abc" not in (tmp_path / "timing.json").read_text()


def test_processes_that_start_from_here_know_of_it(tmp_path: Path, environ: dict[str, str]) -> None:
    session = start(environ, tmp_path / "a,b", warmup=3)

    child = TimedProcess.from_environment(environ)
    assert child.run == session.process.run
    assert "warmup=3" in environ[VARIABLE]

    session.cancel(environ)
    assert PROCESS_VARIABLE not in environ
    assert not Stopwatch().is_enabled


def test_the_program_may_enable_once_more_with_a_note(
    tmp_path: Path, environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    start(environ, tmp_path, warmup=1)

    Stopwatch(5, None, False)

    assert "enables the stopwatch itself" in capsys.readouterr().err
    for _ in range(3):
        Stopwatch().finish_iter()
    assert Stopwatch().get_num_nonwarmup_iters_measured() == 2
    with pytest.raises(InstrumentError, match="enabled already"):
        Stopwatch().enable(5, None, False)


def test_a_wrong_call_of_enable_stays_an_error(tmp_path: Path, environ: dict[str, str]) -> None:
    start(environ, tmp_path)

    with pytest.raises(TypeError):
        Stopwatch().enable(5, wrong=True)  # type: ignore[call-arg]


def test_what_cannot_be_written_at_the_end_is_said_and_not_raised(
    tmp_path: Path, environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    session = start(environ, tmp_path)
    (tmp_path / "timing.json").mkdir()
    with Stopwatch().measure("load"):
        pass

    session.finish()

    assert "timing.json" in capsys.readouterr().err


def test_a_missing_package_costs_the_page_alone(
    tmp_path: Path,
    environ: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "jinja2.py").write_text("raise ModuleNotFoundError('no jinja2', name='jinja2')")
    monkeypatch.syspath_prepend(hidden)
    monkeypatch.syspath_prepend(tmp_path)  # a program's own folder, which the page does without
    session = start(environ, tmp_path / "out", report=True)
    with Stopwatch().measure("load"):
        pass

    session.finish()

    said = capsys.readouterr().err
    assert "assay[evaluate]" in said
    assert (tmp_path / "out/timing.json").exists()
    assert not (tmp_path / "out/report.html").exists()


def test_the_first_iteration_starts_with_the_loop_not_with_the_program(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    import time

    session = start(environ, tmp_path)
    time.sleep(0.2)  # imports, reading of data
    for _ in range(2):
        with Stopwatch().measure("load"):
            pass
        Stopwatch().finish_iter()

    session.finish()

    assert read(tmp_path)["summary"]["iteration"]["max_ms"] < 200


def test_names_that_no_file_can_hold_are_escaped(tmp_path: Path, environ: dict[str, str]) -> None:
    session = start(environ, tmp_path)
    with Stopwatch().measure("photo \udcff.jpg, <b>\n数"):
        pass

    session.finish()

    assert read(tmp_path)["summary"]["measurements"][0]["name"] == "photo \udcff.jpg, <b>\n数"
    assert "数" in (tmp_path / "timing.csv").read_text(encoding="utf-8")
    trace = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))
    assert trace["traceEvents"][-1]["name"].startswith("photo")
