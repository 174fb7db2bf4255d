"""Whatever stands in a .npy or .npz file: its array, or one of two kinds of error."""

from __future__ import annotations

import contextlib
import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.features.npy_reading import map_npy, read_npz

ARRAYS = {
    "floats": np.arange(12, dtype=np.float32).reshape(3, 4),
    "columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "text": np.array(["a", "long name", "日本"]),
    "empty": np.zeros((0, 5)),
    "number": np.array(7),
    "truth": np.array([True, False]),
}

# The same folder for all examples of a test does no harm: each writes its file anew.
fuzzed = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def npy_bytes(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def with_header(text: str, version: tuple[int, int] = (1, 0), body: bytes = b"\0" * 48) -> bytes:
    data = text.encode("latin1") + b"\n"
    length = len(data).to_bytes(2 if version == (1, 0) else 4, "little")
    return b"\x93NUMPY" + bytes(version) + length + data + body


@pytest.mark.parametrize("name", ARRAYS)
def test_what_numpy_saved_is_mapped_as_it_was(tmp_path: Path, name: str) -> None:
    np.save(tmp_path / "a.npy", ARRAYS[name])

    mapped = map_npy(tmp_path / "a.npy")

    assert mapped.dtype == ARRAYS[name].dtype
    assert mapped.shape == ARRAYS[name].shape
    assert np.array_equal(mapped, ARRAYS[name])
    assert not mapped.flags.writeable


def test_a_map_for_writing_changes_the_file(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", ARRAYS["floats"])

    array = map_npy(tmp_path / "a.npy", "r+")
    array[1, 2] = -1
    array.flush()

    assert np.load(tmp_path / "a.npy")[1, 2] == -1


def test_what_numpy_put_in_an_archive_is_read_as_it_was(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **ARRAYS)

    arrays = read_npz(tmp_path / "a.npz")

    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert arrays[name].shape == array.shape
        assert np.array_equal(arrays[name], array)
        assert arrays[name].flags.writeable


@fuzzed
@given(data=st.data())
def test_a_damaged_array_is_an_array_or_a_value_error(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(damaged(data, npy_bytes(data.draw(st.sampled_from(list(ARRAYS.values()))))))

    try:
        array = map_npy(path)
    except ValueError:
        return

    assert array.nbytes <= path.stat().st_size


@fuzzed
@given(data=st.data())
def test_a_damaged_archive_holds_arrays_or_is_a_value_error(
    tmp_path: Path, data: st.DataObject
) -> None:
    path = tmp_path / "a.npz"
    stream = io.BytesIO()
    np.savez(stream, **ARRAYS)
    path.write_bytes(damaged(data, stream.getvalue()))

    try:
        arrays = read_npz(path)
    except ValueError:
        return

    assert sum(array.nbytes for array in arrays.values()) <= path.stat().st_size


@fuzzed
@given(text=st.text(st.characters(max_codepoint=255), max_size=60))
def test_any_text_as_a_header_is_an_array_or_a_value_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.npy").write_bytes(with_header(text))

    with contextlib.suppress(ValueError):
        map_npy(tmp_path / "a.npy")


@pytest.mark.parametrize(
    "shape",
    ["(10**18,)", "(1000000000000,)", "(-1,)", "(True,)", "(0, 10000000000000000000000)",
     "(4294967296, 4294967296)", "(1.5,)", "'abc'", "(" + "1, " * 70 + ")"],
)  # fmt: skip
def test_a_shape_that_the_file_cannot_hold_is_an_error_and_takes_no_memory(
    tmp_path: Path, shape: str
) -> None:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    (tmp_path / "a.npy").write_bytes(with_header(header))

    with pytest.raises(ValueError):
        map_npy(tmp_path / "a.npy")


@pytest.mark.parametrize(
    "header",
    ["{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
     "{'descr': '<U0', 'fortran_order': False, 'shape': (10000000000,)}",
     "(" * 3000, "{" * 500, "'" * 3, "{'a': 1}", "-" * 9000, "", "\t if", "1e999", " " * 20000],
)  # fmt: skip
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0), (9, 9)])
def test_a_header_that_describes_no_array_of_numbers_is_an_error(
    tmp_path: Path, header: str, version: tuple[int, int]
) -> None:
    (tmp_path / "a.npy").write_bytes(with_header(header, version))

    with pytest.raises(ValueError):
        map_npy(tmp_path / "a.npy")


def test_a_compressed_archive_is_refused_whatever_it_would_become(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", zeros=np.zeros(1_000_000))

    with pytest.raises(ValueError, match="compressed"):
        read_npz(tmp_path / "a.npz")


def test_an_encrypted_or_foreign_archive_is_an_error(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(ValueError, match="not a whole"):
        read_npz(tmp_path / "a.npz")

    np.savez(tmp_path / "b.npz", a=np.arange(3))
    data = bytearray((tmp_path / "b.npz").read_bytes())
    data[6] |= 1  # the flag of encryption, in the member's own header and in the list
    data[data.index(b"PK\1\2") + 8] |= 1
    (tmp_path / "b.npz").write_bytes(data)
    with pytest.raises(ValueError, match="not a whole"):
        read_npz(tmp_path / "b.npz")


@pytest.mark.parametrize("read", [map_npy, read_npz])
def test_what_is_not_a_file_is_an_os_error(tmp_path: Path, read) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")

    for path in (tmp_path, tmp_path / "gone", tmp_path / "fifo", tmp_path / "loop", "/dev/zero"):
        with pytest.raises(OSError):
            read(path)


def damaged(data: st.DataObject, content: bytes) -> bytes:
    """``content`` with some bytes changed, and perhaps cut short."""
    changed = bytearray(content[: data.draw(st.integers(0, len(content)) | st.just(len(content)))])
    for _ in range(data.draw(st.integers(0, 5)) if changed else 0):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    return bytes(changed)
