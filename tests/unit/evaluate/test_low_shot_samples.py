"""Drawing k images a class: how many, which, and again the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import ConfigError, DataError
from assay.evaluate import draw_low_shot_sample


@pytest.fixture
def voc():
    """400 rows of 4 classes, some labels ignored."""
    random = np.random.default_rng(0)
    targets = (random.random((400, 4)) < [0.1, 0.2, 0.3, 0.4]).astype(np.int64)
    targets[random.random(targets.shape) < 0.05] = -1
    return targets


@pytest.fixture
def places():
    """120 rows of the classes 3, 7 and 250, 10 of them ignored."""
    targets = np.random.default_rng(1).choice([3, 7, 250], 120)
    targets[:10] = -1
    return targets


class TestOneColumnAClass:
    @pytest.mark.parametrize("kvalue", [1, 4])
    def test_each_class_has_k_positives_and_19_k_negatives(self, voc, kvalue):
        sample = draw_low_shot_sample(voc, 1, kvalue)
        assert (sample.targets == 1).sum(axis=0).tolist() == [kvalue] * 4
        assert (sample.targets == 0).sum(axis=0).tolist() == [19 * kvalue] * 4
        assert sample.classes_short_of_negatives == ()

    def test_what_was_drawn_is_labelled_as_in_the_full_set(self, voc):
        sample = draw_low_shot_sample(voc, 1, 8)
        drawn = sample.targets != -1
        np.testing.assert_array_equal(sample.targets[drawn], voc[sample.rows][drawn])

    def test_every_row_is_drawn_for_some_class_and_comes_once(self, voc):
        sample = draw_low_shot_sample(voc, 1, 8)
        assert (sample.targets != -1).any(axis=1).all()
        assert (np.diff(sample.rows) > 0).all()

    def test_where_negatives_run_out_all_are_taken_and_the_class_is_named(self, voc):
        sample = draw_low_shot_sample(voc, 1, 16)
        available = (voc == 0).sum(axis=0)
        np.testing.assert_array_equal(
            (sample.targets == 0).sum(axis=0), np.minimum(available, 19 * 16)
        )
        assert sample.classes_short_of_negatives == tuple(np.flatnonzero(available < 19 * 16))
        assert sample.classes_short_of_negatives

    def test_the_ratio_of_negatives_can_be_set(self, voc):
        sample = draw_low_shot_sample(voc, 1, 4, negatives_per_positive=3)
        assert (sample.targets == 0).sum(axis=0).tolist() == [12] * 4

    def test_classes_that_are_not_asked_for_are_labelled_ignored(self, voc):
        sample = draw_low_shot_sample(voc, 1, 4, class_ids=[2])
        assert (sample.targets[:, [0, 1, 3]] == -1).all()
        assert len(sample.rows) == 4 + 19 * 4


class TestOneClassARow:
    def test_each_class_has_k_rows(self, places):
        sample = draw_low_shot_sample(places, 1, 5)
        ids, counts = np.unique(sample.targets, return_counts=True)
        assert ids.tolist() == [3, 7, 250]
        assert counts.tolist() == [5, 5, 5]
        np.testing.assert_array_equal(places[sample.rows], sample.targets)

    def test_one_column_is_read_as_class_ids(self, places):
        flat, column = (draw_low_shot_sample(each, 1, 5) for each in (places, places[:, None]))
        np.testing.assert_array_equal(flat.rows, column.rows)

    def test_classes_that_are_not_asked_for_have_no_rows(self, places):
        sample = draw_low_shot_sample(places, 1, 5, class_ids=[250, 3])
        assert set(sample.targets.tolist()) == {3, 250}


class TestDrawing:
    @given(seed=st.integers(0, 2**32), number=st.integers(0, 50), kvalue=st.integers(1, 9))
    def test_a_smaller_k_has_a_part_of_the_rows_of_a_larger(self, seed, number, kvalue):
        targets = np.random.default_rng(1).choice([3, 7, 250, -1], 120)
        small, large = (
            draw_low_shot_sample(targets, number, each, seed=seed) for each in (kvalue, kvalue + 1)
        )
        assert set(small.rows) < set(large.rows)
        assert not (targets[large.rows] == -1).any()

    def test_the_labels_of_a_smaller_k_are_kept_in_a_larger(self, voc):
        small, large = (draw_low_shot_sample(voc, 2, each) for each in (2, 8))
        places = np.searchsorted(large.rows, small.rows)
        drawn = small.targets != -1
        np.testing.assert_array_equal(large.targets[places][drawn], small.targets[drawn])

    def test_the_same_seed_draws_the_same_and_another_another(self, voc):
        rows = [draw_low_shot_sample(voc, 1, 4, seed=seed).rows.tolist() for seed in (5, 5, 6)]
        assert rows[0] == rows[1] != rows[2]

    def test_samples_of_other_numbers_differ(self, voc):
        drawn = {tuple(draw_low_shot_sample(voc, number, 4).rows) for number in range(5)}
        assert len(drawn) == 5

    def test_what_a_class_draws_does_not_depend_on_the_other_classes(self, voc):
        alone = draw_low_shot_sample(voc, 1, 4, class_ids=[2])
        beside = draw_low_shot_sample(voc, 1, 4)
        kept = beside.targets[:, 2] != -1
        np.testing.assert_array_equal(beside.rows[kept], alone.rows)

    def test_every_positive_is_drawn_about_equally_often(self):
        targets = np.repeat([0, 1], 20)
        counts = np.zeros(40)
        for number in range(400):
            counts[draw_low_shot_sample(targets, number, 5).rows] += 1
        # 400 draws of 5 in 20: 100 times each, with a standard deviation below 9.
        assert np.abs(counts - 100).max() < 40

    def test_the_targets_are_left_as_they_were(self, voc):
        before = voc.copy()
        draw_low_shot_sample(voc, 1, 4)
        np.testing.assert_array_equal(voc, before)


class TestRefusals:
    def test_classes_with_too_few_positives_are_all_named(self):
        with pytest.raises(DataError, match=r"k = 3 .* class 5 \(2\), 9 \(1\): .* above 1"):
            draw_low_shot_sample([5, 5, 9, 1, 1, 1], 1, 3)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"sample_num": -1}, "sample_num is -1"),
            ({"low_shot_kvalue": 0}, "low_shot_kvalue is 0"),
            ({"negatives_per_positive": 0}, "negatives_per_positive is 0"),
            ({"seed": -1}, "seed is -1"),
            ({"class_ids": [4]}, r"lack: 4\. They have 0, 1"),
        ],
    )
    def test_numbers_out_of_range_are_refused(self, change, message):
        options = {"sample_num": 1, "low_shot_kvalue": 1, **change}
        with pytest.raises(ConfigError, match=message):
            draw_low_shot_sample([0, 0, 1, 1], **options)

    def test_labels_that_are_all_ignored_are_refused(self):
        with pytest.raises(DataError, match="no class to draw"):
            draw_low_shot_sample([-1, -1], 1, 1)
