"""Merging what extraction wrote: its manifests say what has to be there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.errors import ShardError
from assay.features.extract import ExtractOptions
from assay.features.shards import merge_features, merge_shards

QUICK = ExtractOptions(batch_size=4, num_workers=0, device="cpu", num_threads=1)


def test_images_that_were_skipped_are_not_missing(
    tmp_path: Path, Pictures: Any, extract: Any, merged: Any
) -> None:
    extract(
        tmp_path,
        images=Pictures(bad=(0, 4, 10)),
        world_size=2,
        options=replace(QUICK, bad_images="skip"),
    )

    assert merged(tmp_path).inds.tolist() == [1, 2, 3, 5, 6, 7, 8, 9]


def test_the_manifests_and_not_the_settings_say_how_many_ranks_there_are(
    tmp_path: Path, extract: Any
) -> None:
    extract(tmp_path, world_size=2)

    eight = {"DISTRIBUTED": {"NUM_PROC_PER_NODE": 8, "NUM_NODES": 1}}
    assert len(merge_features(tmp_path, "train", "head", eight)["inds"]) == 11


def test_a_rank_that_has_not_run_is_named_even_if_it_is_the_last(
    tmp_path: Path, extract: Any, merged: Any
) -> None:
    extract(tmp_path, world_size=3)
    for path in tmp_path.glob("rank2_*"):
        path.unlink()

    with pytest.raises(ShardError, match="no manifest of rank 2, of 3 ranks"):
        merged(tmp_path)


def test_a_file_that_the_manifest_names_and_that_is_gone_is_named(
    tmp_path: Path, extract: Any, merged: Any
) -> None:
    extract(tmp_path)
    for path in tmp_path.glob("*head*"):
        path.unlink()

    with pytest.raises(ShardError, match="no shards of rank 0"):
        merged(tmp_path)


def test_ranks_of_different_extractions_do_not_merge(
    tmp_path: Path, Pictures: Any, extract: Any, merged: Any
) -> None:
    extract(tmp_path / "one", world_size=2)
    extract(tmp_path / "other", images=Pictures(seed=1), world_size=2)
    for path in (tmp_path / "other").glob("rank1_*"):
        path.replace(tmp_path / "one" / path.name)

    with pytest.raises(ShardError, match=r"ranks 0 and 1 .* another model, images or settings"):
        merged(tmp_path / "one")


def test_a_shard_of_a_rank_beyond_the_manifests_is_an_error(
    tmp_path: Path, extract: Any, merged: Any
) -> None:
    extract(tmp_path, world_size=2)
    for kind in ("features", "targets", "inds"):
        source = tmp_path / f"rank1_train_head_{kind}.npy"
        (tmp_path / f"rank2_train_head_{kind}.npy").write_bytes(source.read_bytes())

    with pytest.raises(ShardError, match="rank 2, but only 2 ranks"):
        merged(tmp_path)


def test_shards_with_another_number_of_rows_than_their_manifest_are_an_error(
    tmp_path: Path, extract: Any, merged: Any
) -> None:
    extract(tmp_path)
    for kind in ("features", "targets", "inds"):
        path = tmp_path / f"rank0_train_head_{kind}.npy"
        np.save(path, np.load(path)[:10])

    with pytest.raises(ShardError, match="10 rows, but its manifest says 11"):
        merged(tmp_path)


def test_another_number_of_images_than_was_extracted_is_an_error(
    tmp_path: Path, extract: Any
) -> None:
    extract(tmp_path)

    with pytest.raises(ShardError, match=r"12 images are expected, .* made of 11"):
        merge_shards(tmp_path, "train", "head", num_images=12)


def test_a_layer_that_was_not_extracted_is_refused_with_those_that_were(
    tmp_path: Path, extract: Any, merged: Any
) -> None:
    extract(tmp_path)

    with pytest.raises(ShardError, match=r"'heads' .*Did you mean 'head'.*conv, head"):
        merged(tmp_path, "heads")


def test_shards_of_another_tool_in_the_same_folder_merge_on_their_own(
    tmp_path: Path, extract: Any, merged: Any
) -> None:
    extract(tmp_path, world_size=2)
    for kind, values in (
        ("features", np.ones((3, 2), np.float32)),
        ("targets", np.zeros(3, np.int64)),
        ("inds", np.arange(3)),
    ):
        np.save(tmp_path / f"rank0_train_theirs_{kind}.npy", values)

    assert merged(tmp_path, "theirs").features.shape == (3, 2)
