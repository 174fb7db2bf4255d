"""One run at a time writes to an output folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay.errors import OutputError
from assay.recipes.run_output import hold_output_folder, write_run
from assay.report.progress import ProgressView
from assay.runtime.environment import Ranks

pytest.importorskip("fcntl")

FIRST = Ranks(rank=0, local_rank=0, world_size=2, source="torchrun")
SECOND = Ranks(rank=1, local_rank=1, world_size=2, source="torchrun")

HOLD = """
import sys
from pathlib import Path
from assay.recipes.run_output import hold_output_folder
from assay.runtime.environment import Ranks

with hold_output_folder(Path(sys.argv[1]), Ranks(0, 0, 1, "alone")):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_run_is_refused_while_the_first_lives_and_told_of_its_process(
    tmp_path: Path,
) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        message = rf"{tmp_path}: another process writes its results there: process {other.pid} on "
        with pytest.raises(OutputError, match=message), hold_output_folder(tmp_path, FIRST):
            pytest.fail("the folder was given twice")
        with hold_output_folder(tmp_path, SECOND):
            pass  # the first rank keeps others out for it
    finally:
        other.kill()
        other.communicate()

    with hold_output_folder(tmp_path, FIRST):
        assert str(os.getpid()) in (tmp_path / "run.lock").read_text()
    assert not list(tmp_path.iterdir())


def test_arguments_in_a_locale_without_their_letters_are_written_as_they_were_meant(
    tmp_path: Path,
) -> None:
    argument = "kätze".encode().decode("ascii", "surrogateescape")
    broken = b"caf\xe9".decode("utf-8", "surrogateescape")
    results = {"command": argument, "settings": {argument: [broken, 1, None]}}

    written = write_run(tmp_path, results, pytest.fail, report=False, view=ProgressView())

    assert written == {"command": "kätze", "settings": {"kätze": ["caf\ufffd", 1, None]}}
    assert json.loads((tmp_path / "results.json").read_text("utf-8")) == written
