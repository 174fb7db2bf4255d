"""Weights files are read without running their code, whoever wrote them."""

from __future__ import annotations

import argparse
import os
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from assay.checkpoint import read_state_dict
from assay.checkpoint.load import read_state_dict_file
from assay.errors import MissingExtraError, ModelError

WEIGHTS = {"conv.weight": torch.arange(6.0).reshape(2, 3), "conv.bias": torch.ones(2)}


def equal(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> bool:
    return ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".torch", ".bin", ".ckpt", ".pth.tar", ""])
def test_a_file_of_torch_is_read_whatever_its_suffix(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"weights{suffix}"
    torch.save(WEIGHTS, path)
    assert equal(read_state_dict(path), WEIGHTS)


def test_a_file_of_the_format_before_zip_is_read(tmp_path: Path) -> None:
    torch.save(WEIGHTS, tmp_path / "w.pth", _use_new_zipfile_serialization=False)
    assert equal(read_state_dict(tmp_path / "w.pth"), WEIGHTS)


def test_safetensors_are_read(tmp_path: Path) -> None:
    save_file(WEIGHTS, tmp_path / "w.safetensors")
    assert equal(read_state_dict(str(tmp_path / "w.safetensors")), WEIGHTS)


def test_without_safetensors_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_file(WEIGHTS, tmp_path / "w.safetensors")
    monkeypatch.setitem(__import__("sys").modules, "safetensors.torch", None)
    with pytest.raises(MissingExtraError, match=r"assay\[timm\]"):
        read_state_dict(tmp_path / "w.safetensors")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.complex64])
def test_dtypes_and_odd_tensors_are_kept(tmp_path: Path, dtype: torch.dtype) -> None:
    stored = {
        "a": torch.rand(3, 4).to(dtype).T,
        "scalar": torch.tensor(3),
        "empty": torch.empty(0, 3, dtype=dtype),
        "parameter": nn.Parameter(torch.ones(2).to(dtype)),
    }
    torch.save(stored, tmp_path / "w.pth")
    read = read_state_dict(tmp_path / "w.pth")
    assert equal(read, stored)
    assert [t.dtype for t in read.values()] == [t.dtype for t in stored.values()]
    assert not read["parameter"].requires_grad


@pytest.mark.parametrize(
    ("checkpoint", "key"),
    [
        ({"epoch": 3, "state_dict": WEIGHTS}, "state_dict"),
        ({"model_state_dict": WEIGHTS, "optimizer": {"state": {"m": WEIGHTS}}}, "model_state_dict"),
        ({"model_ema": WEIGHTS, "model": WEIGHTS, "args": None}, "model"),
        ({"state_dict_ema": WEIGHTS, "state_dict": WEIGHTS}, "state_dict"),
        ({"student": WEIGHTS, "teacher": WEIGHTS, "epoch": torch.tensor(3)}, "teacher"),
        ({"momentum_encoder": WEIGHTS, "some_net": WEIGHTS}, "some_net"),
        ({"head": {"w": torch.ones(1)}, "classy_state_dict": {
            "base_model": {"model": {"trunk": WEIGHTS, "heads": {}}, "meters": {}},
            "optimizer": {"momentum": WEIGHTS}}}, "classy_state_dict.base_model.model.trunk"),
        (OrderedDict(network=OrderedDict(WEIGHTS)), "network"),
        ({"my_own_name": WEIGHTS}, "my_own_name"),
        (WEIGHTS, ""),
    ],
)  # fmt: skip
def test_the_weights_are_found_in_a_training_checkpoint(
    tmp_path: Path, checkpoint: Any, key: str
) -> None:
    torch.save(checkpoint, tmp_path / "c.pth")
    found = read_state_dict_file(tmp_path / "c.pth")
    assert found.key == key
    assert equal(found.tensors, WEIGHTS)


def test_the_networks_not_taken_are_told(tmp_path: Path) -> None:
    torch.save({"student": WEIGHTS, "teacher": WEIGHTS}, tmp_path / "dino.pth")
    assert read_state_dict_file(tmp_path / "dino.pth").other_keys == ("student",)


def test_values_that_are_no_tensors_are_left_out(tmp_path: Path) -> None:
    torch.save({**WEIGHTS, "version": 2, "note": "x", 7: torch.ones(1)}, tmp_path / "c.pth")
    assert equal(read_state_dict(tmp_path / "c.pth"), WEIGHTS)


@pytest.mark.parametrize("extra", [
    np.float64(0.93), np.float32(1), np.int64(3), np.bool_(True), np.arange(3.0), np.array(["a"]),
    np.random.RandomState(0).get_state(), argparse.Namespace(lr=0.1, names=["a"]),
], ids=lambda extra: type(extra).__name__)  # fmt: skip
def test_numbers_of_numpy_and_arguments_beside_the_weights_do_no_harm(
    tmp_path: Path, extra: Any
) -> None:
    torch.save({"state_dict": WEIGHTS, "best_metric": extra}, tmp_path / "c.pth")
    assert equal(read_state_dict(tmp_path / "c.pth"), WEIGHTS)


def test_numpy_scalars_of_the_other_numpy_version_load(tmp_path: Path) -> None:
    torch.save({"state_dict": WEIGHTS, "metric": np.float64(0.9)}, tmp_path / "c.pth",
               _use_new_zipfile_serialization=False)  # fmt: skip
    data = (tmp_path / "c.pth").read_bytes()
    new, old = b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n"
    assert new in data or old in data
    other = data.replace(new, old) if new in data else data.replace(old, new)
    (tmp_path / "c.pth").write_bytes(other)
    assert equal(read_state_dict(tmp_path / "c.pth"), WEIGHTS)


def test_the_types_that_the_caller_allows_stay_as_they_were(tmp_path: Path) -> None:
    before = torch.serialization.get_safe_globals()
    torch.serialization.add_safe_globals([argparse.Namespace])
    try:
        torch.save(WEIGHTS, tmp_path / "w.pth")
        read_state_dict(tmp_path / "w.pth")
        assert set(torch.serialization.get_safe_globals()) == {*before, argparse.Namespace}
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(before)


class Payload:
    """Makes a folder when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize("zipped", [True, False])
def test_code_in_a_file_is_never_run(tmp_path: Path, zipped: bool) -> None:
    torch.save({"state_dict": WEIGHTS, "x": Payload(tmp_path / "made")}, tmp_path / "evil.pth",
               _use_new_zipfile_serialization=zipped)  # fmt: skip
    with pytest.raises(ModelError, match=r"run code, \w+\.mkdir, .*save the tensors alone"):
        read_state_dict(tmp_path / "evil.pth")
    assert not (tmp_path / "made").exists()


def test_a_whole_pickled_model_is_refused_by_the_name_of_its_class(tmp_path: Path) -> None:
    torch.save(nn.Linear(2, 2), tmp_path / "model.pth")
    with pytest.raises(ModelError, match=r"torch\.nn\.modules\.linear\.Linear.*state_dict\(\)"):
        read_state_dict(tmp_path / "model.pth")


def test_an_array_of_objects_is_refused(tmp_path: Path) -> None:
    torch.save({**WEIGHTS, "x": np.array([object], dtype=object)}, tmp_path / "c.pth")
    with pytest.raises(ModelError, match="run code"):
        read_state_dict(tmp_path / "c.pth")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_torchscript_program_is_refused(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.script(nn.Linear(2, 2)), tmp_path / "s.pt")
    with pytest.raises(ModelError, match=r"TorchScript.*torch\.jit\.load"):
        read_state_dict(tmp_path / "s.pt")


def test_a_missing_file_a_folder_and_an_empty_file_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "empty.pth").touch()
    for name, message in [("none.pth", "no such"), (".", "is a folder"), ("empty.pth", "empty")]:
        with pytest.raises(ModelError, match=message):
            read_state_dict(tmp_path / name)


def test_a_relative_path_says_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=f"looked in {tmp_path}"):
        read_state_dict("none.pth")


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("writer", ["zip", "legacy", "safetensors"])
def test_a_truncated_file_is_refused(tmp_path: Path, keep: float, writer: str) -> None:
    path = tmp_path / ("w.safetensors" if writer == "safetensors" else "w.pth")
    if writer == "safetensors":
        save_file({"w": torch.rand(5000)}, path)
    else:
        torch.save({"w": torch.rand(5000)}, path, _use_new_zipfile_serialization=writer == "zip")
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(ModelError, match="damaged or cut short"):
        read_state_dict(path)


def test_a_flipped_bit_is_found(tmp_path: Path) -> None:
    torch.save({"w": torch.zeros(5000)}, tmp_path / "w.pth")
    data = bytearray((tmp_path / "w.pth").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "w.pth").write_bytes(data)
    with pytest.raises(ModelError, match="damaged or cut short"):
        read_state_dict(tmp_path / "w.pth")


def test_a_file_written_without_checksums_is_read(tmp_path: Path) -> None:
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(WEIGHTS, tmp_path / "w.pth")
    finally:
        torch.serialization.set_crc32_options(before)
    assert equal(read_state_dict(tmp_path / "w.pth"), WEIGHTS)


@pytest.mark.parametrize("content", [
    b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", b"<!DOCTYPE html>", b"\x00" * 64,
    b"PK\x03\x04junk", pickle.dumps(WEIGHTS), pickle.dumps(7), b"(" * 100,
])  # fmt: skip
@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_what_is_no_weights_file_is_refused_with_its_first_bytes(
    tmp_path: Path, content: bytes, suffix: str
) -> None:
    path = tmp_path / f"w{suffix}"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=f"{suffix}: is not a weights file.*starts with"):
        read_state_dict(path)


@pytest.mark.parametrize("held", [{}, {"epoch": 3}, [torch.ones(2)], torch.ones(2), 7])
def test_a_file_without_named_tensors_is_refused(tmp_path: Path, held: Any) -> None:
    torch.save(held, tmp_path / "c.pth")
    with pytest.raises(ModelError, match="holds no tensors by name"):
        read_state_dict(tmp_path / "c.pth")
