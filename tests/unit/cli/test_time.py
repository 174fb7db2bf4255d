from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete

from assay.cli.main import cli, main
from assay.recipes import time_script
from assay.recipes.time_options import TimeOptions


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the command asks its recipe for; nothing is run."""
    seen: dict[str, Any] = {}

    def recipe(program: str, arguments: tuple[str, ...], options: TimeOptions, **more: Any) -> Any:
        seen.update(program=program, arguments=arguments, options=options, **more)
        return lambda: None

    monkeypatch.setattr(time_script, "time_script", recipe)
    return seen


def test_help_teaches_by_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("time", "--help") == 0

    shown = capsys.readouterr().out
    for text in ("assay time train.py", "ASSAY_STOPWATCH=1 python train.py", "measure(", "-m"):
        assert text in shown


def test_what_stands_behind_the_script_is_the_scripts(asked: dict[str, Any]) -> None:
    main(["time", "--warmup", "3", "train.py", "--warmup", "7", "-m", "--", "--help"])

    assert asked["program"] == "train.py"
    assert asked["arguments"] == ("--warmup", "7", "-m", "--", "--help")
    assert asked["options"] == TimeOptions(warmup=3)
    assert asked["is_module"] is False


def test_every_option_reaches_the_recipe(asked: dict[str, Any]) -> None:
    flags = ("--sync", "--events", "--nvtx", "--no-report", "--quiet", "-m")
    values = ("--print-every", "9", "--cpu-usage", "load", "--out", "o", "--export", "csv,json")

    main(["time", *values, *flags, "pack.train", "x"])

    assert asked["options"] == TimeOptions(
        print_every=9,
        sync=True,
        events=True,
        nvtx=True,
        cpu_usage="load",
        export=("json", "csv"),
        report=False,
        quiet=True,
        out=Path("o"),
    )
    assert (asked["program"], asked["arguments"], asked["is_module"]) == (
        "pack.train",
        ("x",),
        True,
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "Name a script"),
        (("--export", "xml", "a.py"), "json, csv, trace"),
        (("--warmup", "-1", "a.py"), "--warmup"),
        (("--merge", ".", "a.py"), "leave out the script"),
        (("no_such_script.py",), "no such script"),
    ],
)
def test_wrong_usage_is_answered(
    arguments: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("time", *arguments) == 2

    assert expected in capsys.readouterr().err


def complete(*words: str) -> list[tuple[str, str]]:
    items = ShellComplete(cli, {}, "assay", "_ASSAY_COMPLETE").get_completions(
        ["time", *words[:-1]], words[-1]
    )
    return [(item.type, item.value) for item in items]


def test_a_script_is_completed_as_a_file() -> None:
    assert complete("tr") == [("file", "tr")]
    assert complete("train.py", "da") == [("file", "da")]


def test_a_module_is_completed_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_pack").mkdir()
    (tmp_path / "my_pack/__init__.py").write_text("")
    (tmp_path / "my_pack/train.py").write_text("")

    assert ("plain", "my_pack") in complete("-m", "my_p")
    assert complete("-m", "my_pack.tr") == [("plain", "my_pack.train")]


def test_exports_are_completed_one_after_another() -> None:
    assert complete("--export", "json,") == [("plain", "json,csv"), ("plain", "json,trace")]


def test_it_is_a_command_of_its_own() -> None:
    assert isinstance(cli.get_command(click.Context(cli), "time"), click.Command)
