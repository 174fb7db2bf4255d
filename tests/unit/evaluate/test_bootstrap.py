"""Bootstrap intervals: against a plain loop, by their laws, and given bad input."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import MetricError
from assay.evaluate import (
    bootstrap_mean,
    bootstrap_mean_ap,
    bootstrap_mean_ap_difference,
    bootstrap_mean_difference,
    mean_average_precision,
    precision_recall,
)


def plain_mean_ap(targets, scores):
    aps = [
        precision_recall(labels == 1, column, labels != -1).interpolated_ap
        for labels, column in zip(targets.T, scores.T, strict=True)
    ]
    return mean_average_precision(aps).value


def plain_draws(num_images, num_resamples, seed):
    return np.random.default_rng(seed).integers(0, num_images, (num_resamples, num_images))


@pytest.fixture
def graded():
    """60 images of 5 classes with ties among the scores, ignored labels, and one rare class."""
    random = np.random.default_rng(3)
    targets = (random.random((60, 5)) < [0.3, 0.2, 0.5, 0.1, 0.0]).astype(np.int64)
    targets[7, 4] = targets[30, 4] = 1
    scores = np.round(targets + random.normal(size=targets.shape), 1)
    targets[random.random(targets.shape) < 0.1] = -1
    return targets, scores


class TestMeanAP:
    def test_every_draw_is_scored_as_a_plain_loop_scores_it(self, graded):
        targets, scores = graded
        interval = bootstrap_mean_ap(targets, scores, num_resamples=200, seed=11)
        plain = [plain_mean_ap(targets[rows], scores[rows]) for rows in plain_draws(60, 200, 11)]
        np.testing.assert_allclose(interval.resampled, plain, rtol=1e-12)
        np.testing.assert_allclose(
            [interval.low, interval.high], np.quantile(plain, [0.025, 0.975]), rtol=1e-12
        )
        assert interval.std == pytest.approx(np.std(plain))

    def test_the_value_is_the_mean_ap_of_the_images_as_they_are(self, graded):
        assert bootstrap_mean_ap(*graded).value == pytest.approx(plain_mean_ap(*graded), rel=1e-12)

    def test_draws_without_a_class_are_counted_and_leave_it_out(self, graded):
        targets, scores = graded
        interval = bootstrap_mean_ap(targets, scores, num_resamples=200, seed=11)
        without = [
            bool(((targets[rows] == 1).sum(axis=0) == 0).any()) for rows in plain_draws(60, 200, 11)
        ]
        assert interval.num_degenerate == sum(without) > 0
        assert interval.num_undefined == 0

    def test_draws_without_any_positive_are_left_out_of_the_interval(self):
        targets, scores = np.array([1, 0, 0, 0]), np.array([0.5, 0.9, 0.1, 0.2])
        interval = bootstrap_mean_ap(targets, scores, num_resamples=300)
        assert interval.num_undefined == np.isnan(interval.resampled).sum() > 0
        assert interval.num_degenerate == interval.num_undefined
        assert 0 < interval.low <= interval.value <= interval.high <= 1

    def test_a_class_without_a_positive_changes_nothing(self, graded):
        targets, scores = graded
        with_empty = [np.column_stack([each, np.zeros(60)]) for each in graded]
        one = bootstrap_mean_ap(targets, scores, num_resamples=50)
        two = bootstrap_mean_ap(*with_empty, num_resamples=50)
        np.testing.assert_array_equal(one.resampled, two.resampled)
        assert one.num_degenerate == two.num_degenerate

    def test_a_perfect_ranking_is_perfect_in_every_draw(self):
        targets = np.repeat([0, 1], 25)
        interval = bootstrap_mean_ap(targets, targets + np.linspace(0, 0.5, 50))
        assert (interval.value, interval.low, interval.high, interval.std) == (1, 1, 1, 0)

    def test_images_of_one_score_may_come_in_any_order(self, graded):
        targets, _ = graded
        scores = np.zeros(targets.shape)
        share = bootstrap_mean_ap(targets[:, 0], scores[:, 0]).value
        counted = targets[targets[:, 0] != -1, 0]
        assert share == pytest.approx(counted.mean())

    def test_the_answer_does_not_depend_on_the_memory_that_it_may_use(self, graded):
        whole = bootstrap_mean_ap(*graded, num_resamples=97)
        for chunk_bytes in (1, 10_000, 100_000):
            parts = bootstrap_mean_ap(*graded, num_resamples=97, chunk_bytes=chunk_bytes)
            np.testing.assert_array_equal(parts.resampled, whole.resampled)

    def test_the_same_seed_gives_the_same_and_another_another(self, graded):
        first, again, other = (
            bootstrap_mean_ap(*graded, num_resamples=50, seed=seed).low for seed in (1, 1, 2)
        )
        assert first == again != other

    def test_a_higher_confidence_gives_a_wider_interval(self, graded):
        narrow, wide = (
            bootstrap_mean_ap(*graded, confidence=confidence) for confidence in (0.5, 0.99)
        )
        assert wide.low < narrow.low < narrow.high < wide.high

    def test_tensors_and_half_precision_will_do(self, graded):
        targets, scores = graded
        halves = bootstrap_mean_ap(
            torch.tensor(targets), torch.tensor(scores, dtype=torch.bfloat16), num_resamples=20
        )
        widened = torch.tensor(scores, dtype=torch.bfloat16).float().numpy()
        same = bootstrap_mean_ap(targets, widened, num_resamples=20)
        np.testing.assert_array_equal(halves.resampled, same.resampled)

    @settings(max_examples=30, deadline=None)
    @given(
        labels=st.lists(st.sampled_from([1, 0, -1]), min_size=1, max_size=12),
        seed=st.integers(0, 1000),
    )
    def test_any_labels_agree_with_a_plain_loop(self, labels, seed):
        targets = np.array([*labels, 1])
        scores = np.random.default_rng(seed).integers(0, 4, len(targets)) / 3
        interval = bootstrap_mean_ap(targets, scores, num_resamples=20, seed=seed)
        plain = [
            plain_mean_ap(targets[rows][:, None], scores[rows][:, None])
            for rows in plain_draws(len(targets), 20, seed)
        ]
        np.testing.assert_allclose(interval.resampled, plain, rtol=1e-12)


class TestMean:
    def test_every_draw_is_the_mean_of_its_images(self):
        hits = np.random.default_rng(0).random(80) < 0.7
        interval = bootstrap_mean(hits, num_resamples=100, seed=4)
        plain = hits[plain_draws(80, 100, 4)].mean(axis=1)
        np.testing.assert_allclose(interval.resampled, plain, rtol=1e-12)
        assert interval.value == hits.mean()
        assert interval.num_degenerate == 0

    def test_the_spread_is_the_standard_error_of_a_share(self):
        hits = np.arange(1000) < 700
        interval = bootstrap_mean(hits, num_resamples=4000)
        assert interval.std == pytest.approx(np.sqrt(0.7 * 0.3 / 1000), rel=0.1)
        half = (interval.high - interval.low) / 2
        assert half == pytest.approx(1.96 * interval.std, rel=0.1)

    def test_one_image_leaves_no_range(self):
        interval = bootstrap_mean([True])
        assert (interval.low, interval.value, interval.high) == (1, 1, 1)

    def test_the_answer_does_not_depend_on_the_memory_that_it_may_use(self):
        values = np.random.default_rng(0).normal(size=333)
        whole = bootstrap_mean(values, num_resamples=41)
        parts = bootstrap_mean(values, num_resamples=41, chunk_bytes=1)
        np.testing.assert_array_equal(whole.resampled, parts.resampled)


class TestDifference:
    def test_both_are_scored_on_the_same_draws(self, graded):
        targets, scores = graded
        other = scores + np.random.default_rng(1).normal(size=scores.shape)
        paired = bootstrap_mean_ap_difference(targets, scores, other, num_resamples=60, seed=5)
        first, second = (
            bootstrap_mean_ap(targets, each, num_resamples=60, seed=5) for each in (scores, other)
        )
        np.testing.assert_array_equal(paired.resampled, first.resampled - second.resampled)
        assert paired.value == first.value - second.value

    def test_a_score_does_not_differ_from_itself(self, graded):
        targets, scores = graded
        paired = bootstrap_mean_ap_difference(targets, scores, scores)
        assert (paired.value, paired.low, paired.high, paired.p_value) == (0, 0, 0, 1)
        assert not paired.is_real

    def test_only_the_order_of_the_scores_counts(self, graded):
        targets, scores = graded
        paired = bootstrap_mean_ap_difference(targets, scores, 10 * scores - 3)
        assert paired.p_value == 1

    def test_a_much_better_score_is_really_better(self):
        random = np.random.default_rng(0)
        targets = (random.random((400, 3)) < 0.3).astype(int)
        good, poor = (targets + spread * random.normal(size=targets.shape) for spread in (0.5, 2))
        better = bootstrap_mean_ap_difference(targets, good, poor)
        worse = bootstrap_mean_ap_difference(targets, poor, good)
        assert better.is_real
        assert 0 < better.low < better.value < better.high
        assert better.p_value == pytest.approx(2 / 1001)
        assert (worse.value, worse.low, worse.high) == (-better.value, -better.high, -better.low)
        assert worse.p_value == better.p_value

    def test_pairing_finds_what_two_intervals_hide(self):
        random = np.random.default_rng(0)
        first = random.random(500) < 0.6
        second = first.copy()
        second[np.flatnonzero(first)[:15]] = False
        paired = bootstrap_mean_difference(first, second)
        assert paired.value == pytest.approx(15 / 500)
        assert paired.is_real
        assert bootstrap_mean(second).high > bootstrap_mean(first).low

    def test_the_p_value_is_twice_the_share_on_the_far_side(self):
        random = np.random.default_rng(2)
        first, second = random.random(100) < 0.6, random.random(100) < 0.5
        paired = bootstrap_mean_difference(first, second, num_resamples=500)
        far = min((paired.resampled <= 0).sum(), (paired.resampled >= 0).sum())
        assert paired.p_value == pytest.approx(2 * (1 + far) / 501)

    def test_chance_differences_are_seldom_called_real(self):
        random = np.random.default_rng(8)
        real = sum(
            bootstrap_mean_difference(
                random.random(200) < 0.5, random.random(200) < 0.5, num_resamples=300, seed=trial
            ).is_real
            for trial in range(200)
        )
        # 5 % of 200 by the interval's own claim: 10, with a standard deviation of 3.
        assert real < 25


class TestRefusals:
    @pytest.mark.parametrize(
        ("targets", "scores", "message"),
        [
            ([1, 0], [0.5, float("nan")], r"scores are NaN for 1 of 2 images \(1\)"),
            ([1, 0], [0.5], r"targets have the shape \(2, 1\) but scores \(1, 1\)"),
            ([0, 0], [0.5, 0.1], "no class of the 1 has a positive among the 2 images"),
            ([], [], "at least one image"),
            (["a"], [0.5], "give real numbers"),
            ([[1, 0], [1]], [0.5, 0.1], "cannot be read as an array"),
        ],
    )
    def test_what_has_no_mean_ap_is_refused(self, targets, scores, message):
        with pytest.raises(MetricError, match=message):
            bootstrap_mean_ap(targets, scores)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"num_resamples": 0}, "num_resamples is 0"),
            ({"confidence": 95}, "confidence is 95"),
        ],
    )
    def test_options_out_of_range_are_refused(self, options, message):
        with pytest.raises(MetricError, match=message):
            bootstrap_mean([1.0, 0.0], **options)

    def test_a_pair_of_different_lengths_is_refused(self):
        with pytest.raises(MetricError, match="first has 3 values but second has 2"):
            bootstrap_mean_difference([1, 0, 1], [1, 0])

    def test_a_table_has_no_one_mean(self):
        with pytest.raises(MetricError, match="one value an image"):
            bootstrap_mean(np.ones((3, 2)))
