from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest

from assay import __version__
from assay.cli.main import main


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def test_help_teaches_by_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0

    assert "assay evaluate svm config=demo" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command", [("evaluate",), ("evaluate", "svm"), ("time",), ("env",), ("completion",)]
)
def test_every_command_has_help(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*command, "--help") == 0

    assert "Usage: assay" in capsys.readouterr().out


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0

    assert __version__ in capsys.readouterr().out


def test_an_unknown_command_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("evaluat") == 2

    assert "evaluat" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_completion_script(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("completion", shell) == 0

    assert "_ASSAY_COMPLETE" in capsys.readouterr().out


def test_env_prints_a_table_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("env") == 0
    assert "torch" in capsys.readouterr().out

    assert run("env", "--json") == 0
    assert '"python"' in capsys.readouterr().out


def test_settings_are_shown_as_composed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("evaluate", "svm", "config=demo", "--layers=a,b", "--show-settings") == 0

    out = capsys.readouterr().out
    assert "efficientnet-lite0" in out
    assert "- a" in out


def test_an_explicit_override_wins_over_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--out=flag", "config.RUN.OUTPUT_DIR=override", "--show-settings")

    assert run("evaluate", "svm", *arguments) == 0

    assert "OUTPUT_DIR: override" in capsys.readouterr().out


def test_a_name_that_the_locale_has_no_letters_for_is_printed_all_the_same() -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [
        sys.executable,
        "-m",
        "assay",
        "evaluate",
        "svm",
        "--show-settings",
        "--out=k\u00e4tze",
    ]

    shown = subprocess.run(command, env={**os.environ, **plain}, capture_output=True, check=False)

    assert shown.returncode == 0, shown.stderr
    assert b"tze" in shown.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="closes streams by the shell")
def test_an_error_with_nowhere_to_be_told_is_an_exit_code() -> None:
    command = f"exec {shlex.quote(sys.executable)} -m assay evaluate svm <&- >&- 2>&-"

    assert subprocess.run(["sh", "-c", command], check=False).returncode == 2
