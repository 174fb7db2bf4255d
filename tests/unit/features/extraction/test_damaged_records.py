"""Records that were damaged or edited by hand are named, or count as not there; force removes."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.errors import ShardError
from assay.features.extract import LayerSpec
from assay.features.manifest import Manifest, read_manifest, read_progress, record_path
from assay.features.shard_writer import remove_ranks

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


def edit(path: Path, place: str, value: Any) -> None:
    """Set the value at a dotted place, such as "layers.0.spec"."""
    record = json.loads(path.read_text())
    *above, last = [int(part) if part.isdigit() else part for part in place.split(".")]
    holder = record
    for part in above:
        holder = holder[part]
    holder[last] = value
    path.write_text(json.dumps(record))


def manifest_of(folder: Path, rank: int = 0) -> Path:
    return record_path(folder, rank, "train", Manifest)


WRONG = [
    ("rank", float("inf")), ("rank", 1), ("rank", -1), ("rank", True), ("rank", "0"),
    ("world_size", 0), ("world_size", None), ("world_size", 1.0), ("world_size", 2),
    ("num_images", 10**40), ("num_images", 12), ("num_images", None),
    ("rows", -1), ("rows", 12), ("rows", "11"), ("rows", None),
    ("split", "test"), ("split", 7), ("fingerprint", None), ("made_with", []),
    ("layers", "abc"), ("layers", None), ("layers", [1]), ("layers.0.spec", None),
    ("layers.0.spec.pool", "magic"), ("layers.0.spec.name", "head"), ("layers.0.files", []),
    ("layers.0.files.inds", None), ("layers.0.files.features.shape", []),
    ("layers.0.files.features.shape", [12, 5]), ("layers.0.files.features.shape", ["11", 5]),
    ("layers.0.files.features.shape", [-11, 5]), ("layers.0.files.features.crc32", 2**32),
    ("layers.0.files.features.dtype", 4), ("layers.0.non_finite_rows", 12),
    ("skipped", None), ("skipped", {}), ("skipped", [None]),
    ("skipped", [{"index": 3, "name": "a", "reason": "b"}]),
    ("skipped", [{"index": -1, "name": "a", "reason": "b"}]),
]  # fmt: skip


@pytest.mark.parametrize(("place", "value"), WRONG)
def test_a_value_that_cannot_be_is_an_error_that_names_the_file_and_the_way_out(
    tmp_path: Path, extract: Any, merged: Any, place: str, value: Any
) -> None:
    extract(tmp_path)
    edit(manifest_of(tmp_path), place, value)

    for use in (extract, merged):
        with pytest.raises(ShardError, match=r"rank0_train_manifest\.json: .* --force does both"):
            use(tmp_path)


@pytest.mark.parametrize(
    "key", ["fingerprint", "made_with", "split", "rank", "world_size", "num_images", "rows",
            "layers", "skipped"],
)  # fmt: skip
def test_a_missing_key_is_named(tmp_path: Path, extract: Any, key: str) -> None:
    extract(tmp_path)
    path = manifest_of(tmp_path)
    record = json.loads(path.read_text())
    del record[key]
    path.write_text(json.dumps(record))

    with pytest.raises(ShardError, match=f"it has no {key}"):
        read_manifest(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_whatever_stands_in_a_record_it_is_read_or_named(
    tmp_path: Path, extract: Any, data: st.DataObject
) -> None:
    path = manifest_of(tmp_path)
    if not path.exists():
        extract(tmp_path)
        (tmp_path / "whole.json").write_bytes(path.read_bytes())
    record = json.loads((tmp_path / "whole.json").read_text())
    holder: Any = record
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(holder[key], (dict, list)) or not holder[key] or data.draw(st.booleans()):
            break
        holder = holder[key]
    holder[key] = data.draw(JSON_VALUES)
    path.write_text(json.dumps(record))

    for read in (read_manifest, read_progress):
        with contextlib.suppress(ShardError):
            read(path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b"null", b"[" * 100_000])
def test_a_record_that_is_no_json_is_named(tmp_path: Path, extract: Any, content: bytes) -> None:
    extract(tmp_path)
    manifest_of(tmp_path).write_bytes(content)

    with pytest.raises(ShardError, match=r"rank0_train_manifest\.json"):
        extract(tmp_path)


def test_forcing_removes_a_record_that_cannot_be_read_with_the_shards_of_its_rank(
    tmp_path: Path, extract: Any
) -> None:
    extract(tmp_path, world_size=2)
    manifest_of(tmp_path).write_text("{")
    theirs = {path.name for path in tmp_path.glob("rank1_*")} | {"rank0_test_head_inds.npy"}
    (tmp_path / "rank0_test_head_inds.npy").write_bytes(b"of another split")

    with pytest.raises(ShardError):
        remove_ranks(tmp_path, "train", range(1))
    remove_ranks(tmp_path, "train", range(1), unreadable="remove")

    assert {path.name for path in tmp_path.iterdir()} == theirs


def test_an_unfinished_extraction_whose_record_says_more_than_the_share_is_begun_anew(
    tmp_path: Path, extract: Any, Pictures: Any, merged: Any, same_bits: Any
) -> None:
    (tmp_path / "one").mkdir()
    extract(tmp_path / "whole")
    extract(tmp_path / "one")
    record = json.loads(manifest_of(tmp_path / "one").read_text())
    for layer in record["layers"]:
        layer["files"] = {"features": {**layer["files"]["features"], "shape": [15, 7]}}
    progress = {key: record[key] for key in ("schema", "fingerprint", "split", "rank")}
    progress |= {"world_size": 1, "done": 15, "layers": record["layers"], "skipped": []}
    (tmp_path / "one/rank0_train_progress.json").write_text(json.dumps(progress))
    manifest_of(tmp_path / "one").unlink()

    (result,) = extract(tmp_path / "one")

    assert result.resumed_rows == 0
    assert same_bits(merged(tmp_path / "one"), merged(tmp_path / "whole"))


def test_a_layer_with_a_very_long_name_is_one_file_and_is_found_again(
    tmp_path: Path, extract: Any, merged: Any, tiny_model: Any
) -> None:
    model = tiny_model()
    name, other = "deep/" * 60, "deep/" * 60 + "er"
    model.module.add_module(name, model.module.head)
    model.module.add_module(other, type(model.module.relu)())
    del model.module.head
    layers = [LayerSpec("conv"), LayerSpec(name), LayerSpec(other)]

    extract(tmp_path, model, layers=layers)
    (again,) = extract(tmp_path, model, layers=layers)

    assert again.reused
    assert merged(tmp_path, name).features.shape == (11, 7)
    assert merged(tmp_path, other).features.min() == 0
    assert max(len(path.name) for path in tmp_path.iterdir()) < 230
    with pytest.raises(ShardError, match="no shards of layer 'deep'"):
        merged(tmp_path, "deep")
