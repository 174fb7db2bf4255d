"""One process at a time holds a lock; a dead one holds none."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assay.errors import OutputError
from assay.features.folder_lock import hold_lock

pytest.importorskip("fcntl")

HOLD = """
import sys
from pathlib import Path
from assay.features.folder_lock import hold_lock

with hold_lock(Path(sys.argv[1]), "works here"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def hold_elsewhere() -> Iterator[Callable[[Path], subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def hold(path: Path) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        return process

    yield hold
    for process in started:
        process.kill()
        process.communicate()


def test_the_lock_file_is_there_only_while_the_lock_is_held(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"

    with hold_lock(path, "works here"):
        assert path.exists()

    assert not path.exists()


def test_another_process_is_refused_and_told_who_holds_it(
    tmp_path: Path, hold_elsewhere: Callable[[Path], subprocess.Popen[bytes]]
) -> None:
    path = tmp_path / "a.lock"
    other = hold_elsewhere(path)

    message = rf"works here: process {other.pid} on \S+\. Wait"
    with pytest.raises(OutputError, match=message), hold_lock(path, "works here"):
        pytest.fail("the lock was given twice")

    assert path.exists()


def test_a_holder_that_was_killed_does_not_block_the_next(
    tmp_path: Path, hold_elsewhere: Callable[[Path], subprocess.Popen[bytes]]
) -> None:
    path = tmp_path / "a.lock"
    other = hold_elsewhere(path)
    other.kill()
    other.wait()
    assert path.exists()

    with hold_lock(path, "works here"):
        pass

    assert not path.exists()


def test_the_lock_is_given_back_when_the_block_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), hold_lock(tmp_path / "a.lock", "works here"):
        raise ZeroDivisionError

    with hold_lock(tmp_path / "a.lock", "works here"):
        pass


def test_a_folder_that_is_not_there_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError), hold_lock(tmp_path / "no" / "a.lock", "works here"):
        pytest.fail("there is no such folder")


def test_a_full_disk_has_room_for_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)

    with hold_lock(tmp_path / "a.lock", "works here"):
        assert (tmp_path / "a.lock").exists()
