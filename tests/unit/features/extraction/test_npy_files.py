"""Mapped .npy files have their room from the start, and are cut or grown in place."""

from __future__ import annotations

import errno
import os
import zlib
from pathlib import Path

import numpy as np
import pytest

from assay.errors import OutputError
from assay.features.npy_files import array_crc32, create_npy, resize_npy
from assay.features.npy_reading import map_npy


def test_what_is_written_through_the_map_is_what_numpy_loads(tmp_path: Path) -> None:
    array = create_npy(tmp_path / "a.npy", (3, 2), np.float32)
    array[:] = [[1, 2], [3, 4], [5, 6]]
    array.flush()

    assert np.load(tmp_path / "a.npy").tolist() == [[1, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0)])
def test_an_empty_array_is_a_file_too(tmp_path: Path, shape: tuple[int, int]) -> None:
    create_npy(tmp_path / "a.npy", shape, np.float32)

    assert np.load(tmp_path / "a.npy").shape == shape
    assert map_npy(tmp_path / "a.npy").shape == shape


def test_all_of_the_room_is_reserved_on_the_disk(tmp_path: Path) -> None:
    create_npy(tmp_path / "a.npy", (1000, 1000), np.float32)

    assert (tmp_path / "a.npy").stat().st_blocks * 512 >= 4_000_000


def test_where_the_system_cannot_reserve_the_blocks_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "posix_fallocate", raising=False)

    array = create_npy(tmp_path / "a.npy", (1000, 1000), np.float32)

    assert not array.any()
    assert (tmp_path / "a.npy").stat().st_blocks * 512 >= 4_000_000


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_an_error_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)

    with pytest.raises(OutputError, match="free some space"):
        create_npy(tmp_path / "a.npy", (10, 10), np.float32)

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("length", [0, 1, 9, 10, 11, 1234567])
def test_rows_are_cut_off_or_added_in_place(tmp_path: Path, length: int) -> None:
    path = tmp_path / "a.npy"
    rows = np.arange(20, dtype=np.float32).reshape(10, 2) + 1
    np.save(path, rows)

    resize_npy(path, length)

    resized = np.load(path)
    assert resized.shape == (length, 2)
    assert np.array_equal(resized[:10], rows[:length])
    assert not resized[10:].any()


def test_the_checksum_is_that_of_the_bytes_in_c_order() -> None:
    array = np.arange(24, dtype=np.float32).reshape(4, 6)

    for view in (array, array[::2], array.T, array[:0]):
        assert array_crc32(view) == zlib.crc32(view.tobytes())
    assert array_crc32(array[2:], array_crc32(array[:2])) == array_crc32(array)
