"""The shards of all ranks become one set of features, or an error that names what is wrong."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import ShardError
from assay.features.shards import FeatureSet, merge_features, merge_shards


def table(count: int, width: int = 3) -> np.ndarray:
    """(count, width) float32 rows, all different."""
    return np.random.default_rng(0).standard_normal((count, width)).astype(np.float32)


def write(
    folder: Path,
    rank: int,
    inds: Any,
    features: Any,
    targets: Any = None,
    layer: str = "res5",
    split: str = "train",
) -> None:
    """One rank's shards, as any tool might write them; targets are 10 times the index."""
    rows = np.asarray(inds)
    labels = rows * 10 if targets is None else np.asarray(targets)
    for kind, values in (("features", features), ("targets", labels), ("inds", rows)):
        np.save(folder / f"rank{rank}_{split}_{layer}_{kind}.npy", values)


def merge(folder: Path, **options: Any) -> FeatureSet:
    return merge_shards(folder, "train", "res5", **options)


def deal(folder: Path, assignment: list[list[int]], features: np.ndarray) -> None:
    for rank, inds in enumerate(assignment):
        rows = np.array(inds, np.int64)
        write(folder, rank, rows, features[rows])


# Images dealt to ranks: every image at least once, some more often, in any order.
@st.composite
def assignments(draw: st.DrawFn) -> tuple[int, list[list[int]]]:
    count = draw(st.integers(1, 30))
    ranks = draw(st.integers(1, 5))
    copies = draw(st.lists(st.integers(0, count - 1), max_size=20))
    order = draw(st.permutations([*range(count), *copies]))
    owners = draw(st.lists(st.integers(0, ranks - 1), min_size=len(order), max_size=len(order)))
    dealt: list[list[int]] = [[] for _ in range(ranks)]
    for image, owner in zip(order, owners, strict=True):
        dealt[owner].append(image)
    return count, dealt


@settings(deadline=None)
@given(assignments())
def test_however_rows_are_dealt_and_repeated_the_merge_is_the_original(
    dealt: tuple[int, list[list[int]]],
) -> None:
    count, assignment = dealt
    features = table(count)
    with tempfile.TemporaryDirectory() as name:
        deal(Path(name), assignment, features)

        result = merge(Path(name), num_images=count)

    assert np.array_equal(result.features, features)
    assert result.inds.tolist() == list(range(count))
    assert result.targets[:, 0].tolist() == [10 * index for index in range(count)]


def test_ten_rows_over_three_ranks_with_a_padding_sampler_are_ten_rows(tmp_path: Path) -> None:
    features = table(10)
    deal(tmp_path, [[0, 3, 6, 9], [1, 4, 7, 0], [2, 5, 8, 1]], features)

    result = merge(tmp_path)

    assert result.features.shape == (10, 3)
    assert np.array_equal(result.features, features)


def test_merge_features_returns_the_three_arrays_by_name(tmp_path: Path) -> None:
    deal(tmp_path, [[0, 2], [1, 3]], table(4))

    merged = merge_features(str(tmp_path), "train", "res5", {})

    assert set(merged) == {"features", "targets", "inds"}
    assert (merged["features"].dtype, merged["targets"].dtype, merged["inds"].dtype) == (
        np.float32,
        np.int64,
        np.int64,
    )
    assert merged["features"].shape == (4, 3)
    assert merged["targets"].shape == (4, 1)
    assert merged["inds"].shape == (4,)


@pytest.mark.parametrize(
    "cfg",
    [
        None,
        {},
        {"DISTRIBUTED": {}},
        {"DISTRIBUTED": {"NUM_PROC_PER_NODE": 2}},
        {"DISTRIBUTED": {"NUM_PROC_PER_NODE": 1, "NUM_NODES": 2}},
    ],
)
def test_the_settings_may_be_missing_or_say_how_many_ranks_there_are(
    tmp_path: Path, cfg: Any
) -> None:
    deal(tmp_path, [[0, 2], [1, 3]], table(4))

    assert len(merge_features(tmp_path, "train", "res5", cfg)["inds"]) == 4


def test_a_rank_that_the_settings_expect_and_that_is_not_there_is_named(tmp_path: Path) -> None:
    deal(tmp_path, [[0, 2], [1, 3]], table(4))

    with pytest.raises(ShardError, match="no shards of rank 2, 3, of 4 ranks"):
        merge_features(tmp_path, "train", "res5", {"DISTRIBUTED": {"NUM_PROC_PER_NODE": 4}})


def test_ranks_count_as_numbers_not_as_text(tmp_path: Path) -> None:
    features = table(12)
    deal(tmp_path, [[index] for index in range(12)], features)

    assert np.array_equal(merge(tmp_path).features, features)


def test_other_layers_and_splits_of_the_folder_do_not_mix_in(tmp_path: Path) -> None:
    deal(tmp_path, [[0, 1]], table(2))
    write(tmp_path, 1, [2], table(1), layer="x_res5")
    write(tmp_path, 1, [2], table(1), split="test")

    assert merge(tmp_path).inds.tolist() == [0, 1]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_features_of_any_float_dtype_come_out_as_float32(tmp_path: Path, dtype: Any) -> None:
    write(tmp_path, 0, [1, 0], np.array([[2.5, 3.5], [0.5, 1.5]], dtype))

    merged = merge(tmp_path).features

    assert merged.dtype == np.float32
    assert merged.tolist() == [[0.5, 1.5], [2.5, 3.5]]


def test_features_in_fortran_order_are_read_right(tmp_path: Path) -> None:
    features = table(5)
    write(tmp_path, 0, np.arange(5), np.asfortranarray(features))

    assert np.array_equal(merge(tmp_path).features, features)


def test_targets_may_be_a_column_of_each_class(tmp_path: Path) -> None:
    write(tmp_path, 0, [1, 0], table(2), targets=[[1, -1, 0], [0, 0, 1]])

    assert merge(tmp_path).targets.tolist() == [[0, 0, 1], [1, -1, 0]]


def test_whole_numbers_may_be_stored_as_floats(tmp_path: Path) -> None:
    write(tmp_path, 0, np.array([1.0, 0.0]), table(2), targets=np.array([4.0, 5.0]))

    result = merge(tmp_path)

    assert result.inds.dtype == result.targets.dtype == np.int64
    assert result.targets.tolist() == [[5], [4]]


def test_a_rank_without_rows_does_no_harm_whatever_its_width(tmp_path: Path) -> None:
    write(tmp_path, 0, [0, 1], table(2))
    write(tmp_path, 1, np.zeros(0, np.int64), np.zeros((0, 0), np.float32))

    assert merge(tmp_path).features.shape == (2, 3)


def test_the_features_can_go_to_a_file_in_place_of_memory(tmp_path: Path) -> None:
    features = table(6)
    deal(tmp_path, [[0, 2, 4], [1, 3, 5, 0]], features)

    result = merge(tmp_path, out=tmp_path / "merged.npy")

    assert isinstance(result.features, np.memmap)
    assert np.array_equal(result.features, features)
    assert np.array_equal(np.load(tmp_path / "merged.npy"), features)


def test_a_failed_merge_leaves_no_file(tmp_path: Path) -> None:
    deal(tmp_path, [[0, 1]], table(2))
    write(tmp_path, 1, [0], table(1) + 1)

    with pytest.raises(ShardError):
        merge(tmp_path, out=tmp_path / "merged.npy")

    assert not (tmp_path / "merged.npy").exists()
    assert not list(tmp_path.glob("*.partial*"))


def test_rows_beyond_one_window_are_placed_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.features.shards._WINDOW_BYTES", 24)  # two rows
    features = table(20)
    deal(tmp_path, [[*range(0, 20, 2), 1, 2, 3], [*range(1, 20, 2), 0]], features)

    assert np.array_equal(merge(tmp_path).features, features)


# What cannot be merged.


def test_copies_that_differ_in_one_bit_are_an_error_that_names_both_files(tmp_path: Path) -> None:
    features = table(3)
    deal(tmp_path, [[0, 1, 2]], features)
    other = features[[1]].copy()
    other.view(np.uint32)[0, 2] ^= 1
    write(tmp_path, 1, [1], other)

    with pytest.raises(
        ShardError, match=r"rank0_train_res5_features.*rank1_train_res5_features.*index 1.*features"
    ):
        merge(tmp_path)


def test_copies_within_a_rank_that_differ_are_an_error(tmp_path: Path) -> None:
    write(tmp_path, 0, [0, 0], table(2))

    with pytest.raises(ShardError, match=r"rank0_train_res5_features\.npy: two rows of index 0"):
        merge(tmp_path)


def test_copies_that_differ_in_their_targets_are_an_error(tmp_path: Path) -> None:
    features = table(2)
    write(tmp_path, 0, [0, 1], features)
    write(tmp_path, 1, [1], features[[1]], targets=[3])

    with pytest.raises(ShardError, match="index 1, and these differ in their targets"):
        merge(tmp_path)


def test_copies_that_hold_the_same_nan_are_equal(tmp_path: Path) -> None:
    rows = np.full((1, 3), np.nan, np.float32)
    write(tmp_path, 0, [0], rows)
    write(tmp_path, 1, [0], rows)

    assert merge(tmp_path).features.shape == (1, 3)


@pytest.mark.parametrize(
    ("inds", "options", "message"),
    [
        ([0, 2, 5], {}, r"no shard has a row for 3 of 6 images, index 1, 3, 4\. "),
        ([1, 2], {}, r"no shard has a row for 1 of 3 images, index 0\. "),
        ([0, 1], {"num_images": 4}, "no shard has a row for 2 of 4 images, index 2, 3"),
        ([0, 99], {}, r"98 of 100 images, index 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, \.\.\."),
        ([0, 10**12], {}, "no shard has a row for 999999999999 of"),
    ],
)
def test_missing_indices_are_counted_and_the_first_named(
    tmp_path: Path, inds: list[int], options: dict[str, int], message: str
) -> None:
    write(tmp_path, 0, inds, table(len(inds)))

    with pytest.raises(ShardError, match=message):
        merge(tmp_path, **options)


def test_an_index_beyond_the_images_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, 0, [0, 1, 2], table(3))

    with pytest.raises(ShardError, match="index 2, but only 2 images"):
        merge(tmp_path, num_images=2)


def test_a_negative_index_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, 0, [-1, 0], table(2))

    with pytest.raises(ShardError, match="index -1"):
        merge(tmp_path)


@pytest.mark.parametrize("kind", ["features", "targets", "inds"])
def test_a_missing_file_is_named(tmp_path: Path, kind: str) -> None:
    deal(tmp_path, [[0], [1]], table(2))
    (tmp_path / f"rank1_train_res5_{kind}.npy").unlink()

    with pytest.raises(ShardError, match=rf"rank1_train_res5_{kind}\.npy: the file is missing"):
        merge(tmp_path)


def test_a_gap_in_the_ranks_is_named(tmp_path: Path) -> None:
    write(tmp_path, 0, [0], table(1))
    write(tmp_path, 2, [1], table(1))

    with pytest.raises(ShardError, match="no shards of rank 1, of 3 ranks"):
        merge(tmp_path)


def test_lengths_that_differ_are_named_with_their_counts(tmp_path: Path) -> None:
    write(tmp_path, 0, [0, 1, 2], table(3), targets=[0, 1])

    with pytest.raises(
        ShardError, match=r"features\.npy: 3 feature rows, but 2 targets and 3 indices"
    ):
        merge(tmp_path)


def test_widths_that_differ_between_ranks_are_an_error(tmp_path: Path) -> None:
    write(tmp_path, 0, [0], table(1, 3))
    write(tmp_path, 1, [1], table(1, 4))

    with pytest.raises(ShardError, match="3 and 4 features a row"):
        merge(tmp_path)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.zeros((1, 3), np.int64), "dtype int64"),
        (np.zeros(1, np.float32), r"shape \(1,\)"),
        (np.zeros((1, 3, 2, 2), np.float32), r"shape \(1, 3, 2, 2\)"),
    ],
)
def test_features_of_another_kind_are_refused(
    tmp_path: Path, features: np.ndarray, message: str
) -> None:
    write(tmp_path, 0, [0], features)

    with pytest.raises(ShardError, match=message):
        merge(tmp_path)


@pytest.mark.parametrize(
    ("targets", "message"), [([0.5], "fractions"), (["cat"], "dtype <U3"), ([np.nan], "fractions")]
)
def test_targets_that_are_no_whole_numbers_are_refused(
    tmp_path: Path, targets: list[Any], message: str
) -> None:
    write(tmp_path, 0, [0], table(1), targets=targets)

    with pytest.raises(ShardError, match=message):
        merge(tmp_path)


@pytest.mark.parametrize("content", [b"", b"no array", "cut", "object"])
def test_a_file_that_is_no_whole_array_is_named(tmp_path: Path, content: Any) -> None:
    write(tmp_path, 0, [0], table(1))
    path = tmp_path / "rank0_train_res5_features.npy"
    if content == "object":
        np.save(path, np.array([{}], object))
    else:
        path.write_bytes(path.read_bytes()[:-4] if content == "cut" else content)

    with pytest.raises(ShardError, match=r"rank0_train_res5_features\.npy: cannot be read"):
        merge(tmp_path)


def test_an_unknown_layer_is_refused_with_those_that_are_there(tmp_path: Path) -> None:
    deal(tmp_path, [[0]], table(1))

    with pytest.raises(ShardError, match=r"'res55'.*Did you mean 'res5'.*there: res5"):
        merge_shards(tmp_path, "train", "res55")


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ShardError, match="no such folder"):
        merge(tmp_path / "nowhere")


def test_shards_without_any_row_are_an_error(tmp_path: Path) -> None:
    write(tmp_path, 0, np.zeros(0, np.int64), np.zeros((0, 3), np.float32))

    with pytest.raises(ShardError, match="hold no row"):
        merge(tmp_path)
