from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from assay import _atomic
from assay.errors import OutputError


def test_what_is_written_is_what_is_there(tmp_path: Path) -> None:
    _atomic.write_text(tmp_path / "a.txt", "grüße")

    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "grüße"


def test_a_failure_in_mid_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    target = tmp_path / "a.bin"
    _atomic.write_bytes(target, b"old")

    def fail_in_mid_write() -> None:
        with _atomic.atomic_path(target) as partial:
            partial.write_bytes(b"new, half")
            raise RuntimeError("in mid-write")

    with pytest.raises(RuntimeError, match="in mid-write"):
        fail_in_mid_write()

    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_the_temporary_file_keeps_the_suffix_that_writers_choose_a_format_by(
    tmp_path: Path,
) -> None:
    with _atomic.atomic_path(tmp_path / "a.npz") as partial:
        assert partial.suffix == ".npz"
        assert partial.parent == tmp_path


def test_the_file_is_as_readable_as_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        _atomic.write_bytes(tmp_path / "a", b"")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_a_folder_that_is_a_file_is_an_output_error_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(OutputError, match="choose another folder"):
        _atomic.make_folder(tmp_path / "file" / "below")


def test_a_full_disk_is_explained(tmp_path: Path) -> None:
    with (
        pytest.raises(OutputError, match="disk is full"),
        _atomic.explain_os_errors(tmp_path / "a"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_really_full_disk_leaves_nothing_behind() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")

    with (
        pytest.raises(OutputError, match="disk is full"),
        _atomic.explain_os_errors("/dev/full"),
    ):
        Path("/dev/full").write_bytes(b"x")


def test_nan_is_refused_in_json(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        _atomic.write_json(tmp_path / "a.json", {"x": float("nan")})

    assert not list(tmp_path.iterdir())
