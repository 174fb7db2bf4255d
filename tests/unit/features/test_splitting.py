from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import ConfigError, DataError
from assay.features.splitting import limit_images, split_images

class_ids = st.lists(st.integers(0, 6), min_size=2, max_size=80)
fractions = st.floats(0.01, 0.99)
seeds = st.integers(0, 2**31)
label_rows = st.integers(1, 4).flatmap(
    lambda width: st.lists(
        st.lists(st.sampled_from([1, 0, -1]), min_size=width, max_size=width),
        min_size=2,
        max_size=60,
    )
)


def split_or_none(images, fraction, seed):
    try:
        return split_images(images, fraction, seed)
    except DataError:
        return None


@given(class_ids, fractions, seeds)
def test_a_split_is_a_partition_in_order_with_its_classes_in_proportion(
    blank_images, ids, fraction, seed
):
    images = blank_images(ids)
    counts = np.bincount(ids)
    parts = split_or_none(images, fraction, seed)
    if parts is None:  # there is nothing to hold out only if no class has two images
        assert counts.max() == 1
        return
    train, test = parts
    assert sorted([*train.indices, *test.indices]) == list(range(len(ids)))
    for part in parts:
        assert (np.diff(part.indices) > 0).all()
        np.testing.assert_array_equal(part.targets, images.targets[part.indices])
    in_train = np.bincount(train.targets[:, 0], minlength=len(counts))
    in_test = np.bincount(test.targets[:, 0], minlength=len(counts))
    assert (in_train[counts > 0] > 0).all()
    assert (in_test[counts > 1] > 0).all()
    assert (in_test[counts == 1] == 0).all()
    free = (in_test > 1) & (in_train > 1)  # not held by the rules above
    wanted = round(len(ids) * fraction)
    if in_test.sum() == wanted and free.all():
        assert (abs(in_test - counts * wanted / len(ids)) < 1).all()


@given(st.lists(st.integers(10, 60), min_size=1, max_size=6), st.floats(0.2, 0.8), seeds)
def test_with_large_classes_the_shares_are_those_of_largest_remainder(
    blank_images, sizes, fraction, seed
):
    ids = np.repeat(np.arange(len(sizes)), sizes)
    _, test = split_images(blank_images(ids), fraction, seed)
    wanted = round(len(ids) * fraction)
    exact = [size * wanted / len(ids) for size in sizes]
    expected = [int(share) for share in exact]
    by_remainder = sorted(range(len(sizes)), key=lambda c: (-(sizes[c] * wanted % len(ids)), c))
    for class_id in by_remainder[: wanted - sum(expected)]:
        expected[class_id] += 1
    assert np.bincount(test.targets[:, 0], minlength=len(sizes)).tolist() == expected


def test_a_split_depends_on_the_seed_and_on_nothing_else(blank_images):
    images = blank_images(np.arange(200) % 5)
    first = split_images(images, 0.4, 0)[1].indices
    assert split_images(images, 0.4, 0)[1].indices.tolist() == first.tolist()
    assert split_images(images, 0.4, 1)[1].indices.tolist() != first.tolist()
    np.random.seed(5)
    assert split_images(images, 0.4, 0)[1].indices.tolist() == first.tolist()


def test_a_further_class_leaves_the_choice_within_the_others_alone(blank_images):
    ids = np.arange(100) % 2
    before = split_images(blank_images(ids), 0.4, 0)[1].indices
    after = split_images(blank_images([*ids, *[2] * 50]), 0.4, 0)[1].indices
    assert after[after < 100].tolist() == before.tolist()


def test_an_image_is_as_likely_held_out_as_another(blank_images):
    images = blank_images(np.zeros(20, int))
    chosen = np.zeros(20)
    for seed in range(400):
        chosen[split_images(images, 0.5, seed)[1].indices] += 1
    assert (abs(chosen - 200) < 50).all()


@given(label_rows, fractions, seeds)
def test_a_split_of_several_labels_is_a_partition_of_exact_sizes(
    blank_images, rows, fraction, seed
):
    images = blank_images(rows)
    wanted = round(len(rows) * fraction)
    parts = split_or_none(images, fraction, seed)
    if parts is None:
        assert wanted in (0, len(rows))
        return
    train, test = parts
    assert len(test) == wanted
    assert sorted([*train.indices, *test.indices]) == list(range(len(rows)))
    assert (np.diff(test.indices) > 0).all()


def test_a_split_of_several_labels_keeps_the_share_of_each(blank_images):
    generator = np.random.default_rng(0)
    rates = np.array([0.5, 0.2, 0.05, 0.02])
    rows = (generator.random((1000, 4)) < rates).astype(int)
    _, test = split_images(blank_images(rows), 0.3, 7)
    positives = rows.sum(axis=0)
    assert (abs(test.targets.sum(axis=0) - 0.3 * positives) <= 1 + 0.02 * positives).all()
    assert len(test) == 300
    assert split_images(blank_images(rows), 0.3, 7)[1].indices.tolist() == test.indices.tolist()
    assert split_images(blank_images(rows), 0.3, 8)[1].indices.tolist() != test.indices.tolist()


@pytest.mark.parametrize("fraction", [0, 1, -0.5, 1.5, float("nan")])
def test_a_fraction_must_leave_two_parts(blank_images, fraction):
    with pytest.raises(ConfigError, match="between 0 and 1"):
        split_images(blank_images([0, 0]), fraction, 0)


@pytest.mark.parametrize("ids", [[0], [0, 1, 2]])
def test_nothing_is_split_where_one_part_would_be_empty(blank_images, ids):
    with pytest.raises(DataError, match=r"cannot be split|test part empty"):
        split_images(blank_images(ids), 0.5, 0)


def test_a_negative_seed_is_refused(blank_images):
    with pytest.raises(ConfigError, match="seed is -1"):
        split_images(blank_images([0, 0]), 0.5, -1)
    with pytest.raises(ConfigError, match="seed is -1"):
        limit_images(blank_images([[1, 0], [0, 1]]), 1, -1)


def test_parts_say_what_they_are(blank_images):
    train, test = split_images(blank_images([0, 0, 0, 0, 0]), 0.4, 0)
    assert (train.source, test.source) == ("blank (3 to train)", "blank (2 to test)")
    assert train.digest() != test.digest()


@given(class_ids, st.integers(1, 90), seeds)
def test_a_limit_takes_as_many_images_and_all_classes_it_can(blank_images, ids, limit, seed):
    images = blank_images(ids)
    some = limit_images(images, limit, seed)
    assert len(some) == min(limit, len(ids))
    assert some.class_names == images.class_names
    assert set(some.names) <= set(images.names)
    if limit >= len(set(ids)):
        assert set(some.targets[:, 0]) == set(ids)


@given(label_rows, st.integers(1, 70), seeds)
def test_a_limit_on_several_labels_takes_as_many_images(blank_images, rows, limit, seed):
    assert len(limit_images(blank_images(rows), limit, seed)) == min(limit, len(rows))


def test_no_limit_is_the_set_itself(blank_images):
    images = blank_images([0, 1, 1])
    assert limit_images(images, -1, 0) is images
    assert limit_images(images, 3, 0) is images


@pytest.mark.parametrize("limit", [0, -2])
def test_a_limit_that_is_none_is_refused(blank_images, limit):
    with pytest.raises(ConfigError, match="-1 for all"):
        limit_images(blank_images([0, 1]), limit, 0)


def test_class_ids_far_apart_are_split_as_the_classes_that_there_are(blank_images):
    ids = np.array([300_000, 0, 300_000, 300_000, 0, 7, 300_000, 300_000])
    images = blank_images(ids)
    train, test = split_images(images, 0.25, seed=0)
    assert sorted([*train.indices, *test.indices]) == list(range(8))
    assert sorted(test.targets[:, 0]) == [0, 300_000]
    assert sorted(limit_images(images, 3, seed=0).targets[:, 0]) == [0, 7, 300_000]
    assert sorted(limit_images(images, 2, seed=0).targets[:, 0]) == [0, 300_000]
