"""Shards that are there are reused if they are what is wanted, and only then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay.errors import (
    OutputError,
    ShardError,
)
from assay.features.extract import ExtractOptions, LayerSpec, extract_features
from assay.features.transforms import ImageTransform

LAYERS = [LayerSpec("conv"), LayerSpec("head")]
QUICK = ExtractOptions(batch_size=4, num_workers=0, device="cpu", num_threads=1)


def test_the_same_call_again_computes_nothing(tmp_path: Path, Pictures: Any, extract: Any) -> None:
    extract(tmp_path)
    images, counts = Pictures(), list[int]()

    (again,) = extract(tmp_path, images=images, progress=counts.append)

    assert again.reused
    assert again.num_rows == 11
    assert images.loaded == counts == []


def test_fewer_layers_than_are_there_are_reused(tmp_path: Path, extract: Any) -> None:
    extract(tmp_path)

    (again,) = extract(tmp_path, layers=[LayerSpec("head")])

    assert again.reused


@pytest.mark.parametrize(
    "change",
    [
        lambda Pictures, tiny_model: {"model": tiny_model(seed=1)},
        lambda Pictures, tiny_model: {"model": replace(tiny_model(), name="other")},
        lambda Pictures, tiny_model: {
            "model": replace(tiny_model(), transform=ImageTransform(resize=(9, 9)))
        },
        lambda Pictures, tiny_model: {"images": Pictures(seed=1)},
        lambda Pictures, tiny_model: {"images": Pictures(12)},
        lambda Pictures, tiny_model: {"layers": [LayerSpec("conv", "max"), LayerSpec("head")]},
        lambda Pictures, tiny_model: {"layers": [*LAYERS, LayerSpec("relu")]},
        lambda Pictures, tiny_model: {"options": replace(QUICK, amp="bf16")},
        lambda Pictures, tiny_model: {"options": replace(QUICK, channels_last=False)},
        lambda Pictures, tiny_model: {"world_size": 2},
    ],
    ids=["weights", "name", "transform", "images", "more images", "pool", "layer", "amp", "format",
         "ranks"],
)  # fmt: skip
def test_anything_different_is_extracted_anew(
    tmp_path: Path,
    change: Callable[..., dict[str, Any]],
    Pictures: Any,
    tiny_model: Any,
    extract: Any,
    merged: Any,
    same_bits: Any,
) -> None:
    changed = change(Pictures, tiny_model)
    extract(tmp_path / "used")
    extract(tmp_path / "fresh", **changed)

    results = extract(tmp_path / "used", **changed)

    assert not any(result.reused or result.resumed_rows for result in results)
    assert same_bits(merged(tmp_path / "used"), merged(tmp_path / "fresh"))


@pytest.mark.parametrize("kind", ["features", "targets", "inds"])
@pytest.mark.parametrize("damage", ["flipped bit", "cut", "gone"])
def test_damaged_shards_are_not_reused(
    tmp_path: Path, kind: str, damage: str, extract: Any, merged: Any, same_bits: Any
) -> None:
    extract(tmp_path)
    before = merged(tmp_path)
    path = tmp_path / f"rank0_train_head_{kind}.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(content if damage == "flipped bit" else content[:-8])

    (again,) = extract(tmp_path)

    assert not again.reused
    assert same_bits(merged(tmp_path), before)


def test_shards_of_ranks_that_are_no_more_are_removed(tmp_path: Path, extract: Any) -> None:
    extract(tmp_path, world_size=3)
    foreign = tmp_path / "rank7_train_head_features.npy"
    foreign.write_bytes(b"of somebody else")

    extract(tmp_path, world_size=2)

    assert not list(tmp_path.glob("rank2_*"))
    assert foreign.exists()


def test_a_layer_that_is_wanted_no_more_does_not_stay_behind(
    tmp_path: Path, Pictures: Any, extract: Any
) -> None:
    extract(tmp_path)

    extract(tmp_path, images=Pictures(seed=1), layers=[LayerSpec("head")])

    assert not list(tmp_path.glob("*conv*"))


def test_another_split_in_the_same_folder_is_left_alone(
    tmp_path: Path, Pictures: Any, tiny_model: Any
) -> None:
    model, images = tiny_model(), Pictures()
    for split in ("test", "train"):
        extract_features(model, images, LAYERS, tmp_path, split=split, options=QUICK)

    assert extract_features(model, images, LAYERS, tmp_path, split="test", options=QUICK).reused


def test_a_file_that_is_not_ours_is_not_overwritten(tmp_path: Path, extract: Any) -> None:
    theirs = tmp_path / "rank0_train_head_features.npy"
    theirs.write_bytes(b"of somebody else")

    with pytest.raises(OutputError, match=r"rank0_train_head_features\.npy.*no manifest"):
        extract(tmp_path)

    assert theirs.read_bytes() == b"of somebody else"


def test_a_manifest_that_cannot_be_read_is_named(tmp_path: Path, extract: Any) -> None:
    extract(tmp_path)
    (tmp_path / "rank0_train_manifest.json").write_text("{")

    with pytest.raises(ShardError, match=r"rank0_train_manifest\.json.*Delete it"):
        extract(tmp_path)
