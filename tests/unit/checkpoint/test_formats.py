"""Weights files of four formats: what is written is read back, and what is damaged is refused."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from assay.checkpoint.formats import read_weights_file, write_weights_file
from assay.errors import ModelError

ENDINGS = [".pth", ".torch", ".safetensors", ".npz", ".safetensors.index.json"]
NAMES = {"conv.weight": (2, 3), "größe mit leer": (4,), "bn.num": (), "nothing": (0, 5)}


def tensors(dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(7)
    return {
        name: torch.randint(-9, 9, shape, generator=generator).to(dtype)
        for name, shape in NAMES.items()
    }


def assert_same(read: dict[str, Tensor], written: dict[str, Tensor]) -> None:
    assert read.keys() == written.keys()
    for name, tensor in written.items():
        assert read[name].dtype == tensor.dtype
        assert read[name].shape == tensor.shape
        assert torch.equal(read[name].contiguous(), tensor.cpu().contiguous()), name


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("mapped", [True, False])
def test_what_is_written_is_read_back(tmp_path: Path, ending: str, mapped: bool) -> None:
    file = tmp_path / f"a model{ending}"
    written = write_weights_file(file, tensors())
    assert written[-1] == file
    read = read_weights_file(file, mapped=mapped)
    assert_same(read.tree, tensors())
    assert read.is_mapped is mapped
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(p.name for p in written)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_change_of_a_mapped_tensor_is_its_own(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"w{ending}"
    write_weights_file(file, tensors())
    read_weights_file(file).tree["conv.weight"].fill_(5)
    assert_same(read_weights_file(file).tree, tensors())


@pytest.mark.parametrize(
    "dtype",
    [torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.bool, torch.float8_e4m3fn],
)
@pytest.mark.parametrize("ending", [".pth", ".safetensors"])
def test_dtypes_are_kept(tmp_path: Path, ending: str, dtype: torch.dtype) -> None:
    values = {"a": torch.tensor([[0.0, 1.0], [1.0, 0.0]]).to(dtype)}
    write_weights_file(tmp_path / f"w{ending}", values)
    read = read_weights_file(tmp_path / f"w{ending}").tree["a"]
    assert read.dtype == dtype
    assert torch.equal(read.float(), values["a"].float())


def test_complex_numbers_and_conjugate_views(tmp_path: Path) -> None:
    values = {"a": torch.complex(torch.arange(3.0), torch.ones(3)).conj()}
    for ending in (".pth", ".npz"):
        write_weights_file(tmp_path / f"w{ending}", values)
        assert torch.equal(read_weights_file(tmp_path / f"w{ending}").tree["a"], values["a"])


@pytest.mark.parametrize("ending", [".pth", ".safetensors", ".npz"])
def test_a_view_is_written_without_the_rest_of_its_storage(tmp_path: Path, ending: str) -> None:
    large = torch.arange(1_000_000.0)
    values = {"view": large[10:20:3], "turned": torch.arange(6.0).reshape(2, 3).T}
    write_weights_file(tmp_path / f"w{ending}", values)
    assert (tmp_path / f"w{ending}").stat().st_size < 10_000
    assert_same(read_weights_file(tmp_path / f"w{ending}").tree, values)


@pytest.mark.parametrize("ending", [".safetensors", ".safetensors.index.json"])
def test_tied_tensors_stand_once_and_come_back_under_each_name(tmp_path: Path, ending: str) -> None:
    tied = torch.rand(1000)
    file = tmp_path / f"w{ending}"
    written = write_weights_file(file, {"a": tied, "b": tied, "c": torch.ones(2)})
    assert sum(path.stat().st_size for path in written) < 2 * 4 * 1000
    read = read_weights_file(file)
    assert read.aliases == {"b": "a"}
    assert read.tree["a"].data_ptr() == read.tree["b"].data_ptr()
    assert torch.equal(read.tree["b"], tied)


def test_an_alias_of_a_tensor_that_is_not_there_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    save_file({"a": torch.ones(1)}, file, metadata={"assay.aliases": json.dumps({"b": "gone"})})
    with pytest.raises(ModelError, match="lacks 'gone'"):
        read_weights_file(file)


def test_metadata_goes_with_safetensors_and_other_readers_agree(tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    write_weights_file(file, tensors(), metadata={"step": "7"})
    assert read_weights_file(file).metadata["step"] == "7"
    assert_same(load_file(file), tensors())


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_empty_state_dict_is_a_file_too(tmp_path: Path, ending: str) -> None:
    write_weights_file(tmp_path / f"w{ending}", {})
    assert read_weights_file(tmp_path / f"w{ending}").tree == {}


def test_a_large_set_is_split_and_the_index_comes_last(tmp_path: Path) -> None:
    values = {f"t{i}": torch.full((100,), float(i)) for i in range(5)}
    index = tmp_path / "m.safetensors.index.json"
    *shards, last = write_weights_file(index, values, max_shard_bytes=800)
    assert last == index
    assert [path.name for path in shards] == [
        f"m-0000{i}-of-00003.safetensors" for i in (1, 2, 3)
    ]  # fmt: skip
    assert_same(read_weights_file(index).tree, values)
    shards[1].unlink()
    with pytest.raises(ModelError, match="not beside it"):
        read_weights_file(index)


@pytest.mark.parametrize(
    "name", ["../w.safetensors", "/etc/passwd", "a/b.safetensors", "..\\w.safetensors", "..", ""]
)
def test_an_index_cannot_lead_out_of_its_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    save_file({"a": torch.ones(1)}, tmp_path / "w.safetensors")
    index = folder / "x.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(ModelError, match="outside its folder"):
        read_weights_file(index)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"weight_map": 3}', '{"weight_map": {"a": 1}}', "[" * 100_000,
             '{"weight_map": {"a": "x", "a": "y"}}']
)  # fmt: skip
def test_a_malformed_index_is_named(tmp_path: Path, text: str) -> None:
    index = tmp_path / "x.safetensors.index.json"
    index.write_text(text)
    with pytest.raises(ModelError, match=r"x\.safetensors\.index\.json"):
        read_weights_file(index)


def test_an_index_that_promises_a_tensor_too_much(tmp_path: Path) -> None:
    save_file({"a": torch.ones(1)}, tmp_path / "w.safetensors")
    index = tmp_path / "x.index.json"
    index.write_text(json.dumps({"weight_map": {"b": "w.safetensors"}}))
    with pytest.raises(ModelError, match="'b' is not in"):
        read_weights_file(index)


class _Runs:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


def test_objects_in_an_npz_are_refused_and_not_run(tmp_path: Path) -> None:
    file, mark = tmp_path / "w.npz", tmp_path / "ran"
    np.savez(file, a=np.array([_Runs(mark)], dtype=object))
    with pytest.raises(ModelError, match="would run code"):
        read_weights_file(file)
    with pytest.raises(ModelError, match="would run code"):
        read_weights_file(file, mapped=False)
    assert not mark.exists()


def test_a_pickle_by_any_name_is_refused_and_not_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    for ending in (*ENDINGS, ".pt", ".pkl"):
        (tmp_path / f"bad{ending}").write_bytes(pickle.dumps(_Runs(mark)))
        with pytest.raises(ModelError):
            read_weights_file(tmp_path / f"bad{ending}")
    torch.save({"a": _Runs(mark)}, tmp_path / "bad.pth")
    with pytest.raises(ModelError, match="would run code"):
        read_weights_file(tmp_path / "bad.pth")
    assert not mark.exists()


@pytest.mark.parametrize("ending", [".pth", ".npz", ".safetensors"])
def test_every_truncation_is_detected(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"w{ending}"
    write_weights_file(file, {"a": torch.rand(5000), "b": torch.rand(30, 30)})
    whole = file.read_bytes()
    for part in range(64):
        file.write_bytes(whole[: len(whole) * part // 64])
        with pytest.raises(ModelError, match="w"):
            read_weights_file(file)


@pytest.mark.parametrize("ending", [".pth", ".npz"])
def test_a_flipped_bit_in_the_values_is_detected(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"w{ending}"
    write_weights_file(file, {"a": torch.zeros(50_000)})
    whole = file.read_bytes()
    for place in range(5_000, 200_000, 19_997):
        damaged = bytearray(whole)
        damaged[place] ^= 4
        file.write_bytes(damaged)
        with pytest.raises(ModelError, match="checksum"):
            read_weights_file(file)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_flipped_byte_gives_an_error_of_ours_or_the_same_values(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    ending = data.draw(st.sampled_from([".pth", ".npz"]))
    file = tmp_path_factory.mktemp("flip") / f"w{ending}"
    values = {"a": torch.arange(40.0), "b": torch.ones(3, 2)}
    write_weights_file(file, values)
    damaged = bytearray(file.read_bytes())
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    file.write_bytes(damaged)
    try:
        read = read_weights_file(file).tree
    except ModelError:
        return
    for name in set(read) & set(values):
        assert torch.equal(read[name], values[name])


def test_a_name_of_no_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"\.safetensors"):
        write_weights_file(tmp_path / "w.txt", tensors())


def test_what_a_format_cannot_hold_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="bfloat16"):
        write_weights_file(tmp_path / "w.npz", {"a": torch.ones(2, dtype=torch.bfloat16)})
    with pytest.raises(ModelError, match="layout sparse_coo"):
        write_weights_file(tmp_path / "w.pth", {"a": torch.eye(3).to_sparse()})
    with pytest.raises(ModelError, match="meta"):
        write_weights_file(tmp_path / "w.pth", {"a": torch.ones(3, device="meta")})
    assert list(tmp_path.iterdir()) == []


def test_an_old_file_stands_when_the_new_one_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "w.npz"
    write_weights_file(file, tensors())
    with pytest.raises(ModelError):
        write_weights_file(file, {"a": torch.ones(2), "b": torch.ones(2, dtype=torch.bfloat16)})
    assert_same(read_weights_file(file).tree, tensors())


def test_names_that_savez_takes_for_its_own(tmp_path: Path) -> None:
    values = {"file": torch.ones(1), "args": torch.ones(2), "kwds": torch.ones(3)}
    write_weights_file(tmp_path / "w.npz", values)
    assert_same(read_weights_file(tmp_path / "w.npz").tree, values)


def test_arrays_of_numpy_as_numpy_writes_them(tmp_path: Path) -> None:
    file = tmp_path / "w.npz"
    arrays = {
        "turned": np.arange(6.0).reshape(2, 3).T,
        "big end first": np.arange(3, dtype=">f4"),
        "text": np.array(["a", "b"]),
        "none": np.empty((0, 2)),
    }
    for save in (np.savez, np.savez_compressed):
        save(file, **arrays)
        tree = read_weights_file(file).tree
        assert torch.equal(tree["turned"], torch.arange(6.0).reshape(2, 3).T)
        assert tree["big end first"].tolist() == [0, 1, 2]
        assert tree["text"].tolist() == ["a", "b"]
        assert tree["none"].shape == (0, 2)


@pytest.mark.parametrize("kind", ["missing", "folder", "empty"])
def test_what_is_no_file_is_said(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "w.pth"
    if kind == "folder":
        path.mkdir()
    elif kind == "empty":
        path.touch()
    words = {"missing": "there is no", "folder": "is a folder", "empty": "is empty"}
    with pytest.raises(ModelError, match=words[kind]):
        read_weights_file(path)


def test_the_format_is_seen_in_the_bytes_where_the_name_does_not_tell(tmp_path: Path) -> None:
    for ending, kind in ((".safetensors", "safetensors"), (".npz", "npz"), (".pth", "torch")):
        write_weights_file(tmp_path / f"w{ending}", tensors())
        (tmp_path / f"w{ending}").rename(tmp_path / f"blob{kind}")
        assert read_weights_file(tmp_path / f"blob{kind}").format == kind


def test_a_sharded_set_is_not_written_over_another(tmp_path: Path) -> None:
    index = tmp_path / "m.safetensors.index.json"
    write_weights_file(index, tensors())
    with pytest.raises(ModelError, match="there already"):
        write_weights_file(index, {"other": torch.ones(3)})
    with pytest.raises(ModelError, match="there already"):  # another index, the same shard names
        write_weights_file(tmp_path / "m.index.json", {"other": torch.ones(3)})
    assert_same(read_weights_file(index).tree, tensors())


def test_of_a_set_that_fails_nothing_is_left(tmp_path: Path) -> None:
    values = {"a": torch.ones(1000), "b": torch.ones(1000, dtype=torch.complex32)}
    with pytest.raises(ModelError, match="safetensors cannot hold"):
        write_weights_file(tmp_path / "m.index.json", values, max_shard_bytes=4000)
    assert list(tmp_path.iterdir()) == []


def test_only_what_is_mapped_is_said_to_be(tmp_path: Path) -> None:
    file = tmp_path / "w.npz"
    np.savez(file, a=np.ones(3), b=np.empty(0))
    assert read_weights_file(file).is_mapped
    np.savez_compressed(file, a=np.ones(3))
    assert not read_weights_file(file).is_mapped
    np.savez(file, a=np.ones(3, ">f4"))
    assert not read_weights_file(file).is_mapped
