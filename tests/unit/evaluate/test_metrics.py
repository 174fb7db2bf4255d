"""Average precision: golden cases, a brute-force reference, laws, and inputs that break tools."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from assay.errors import AssayWarning, MetricError
from assay.evaluate import (
    MeanAP,
    average_precision,
    calculate_ap,
    get_precision_recall,
    mean_average_precision,
    precision_recall,
)

NAN = float("nan")
INF = float("inf")

# Repeatable, and no verdict by the clock.
law = settings(derandomize=True, deadline=None)


def brute_force(targets, scores, weights):
    """Precision, recall and threshold by counting at each threshold, in exact fractions."""
    counted = [(t > 0, s) for t, s, w in zip(targets, scores, weights, strict=True) if w]
    total = sum(positive for positive, _ in counted)
    points = []
    for threshold in sorted({s for _, s in counted}, reverse=True):
        retrieved = [positive for positive, s in counted if s >= threshold]
        hits = sum(retrieved)
        points.append((Fraction(hits, len(retrieved)), Fraction(hits, total), threshold))
    return points


def brute_force_interpolated_ap(points):
    area, last = Fraction(0), Fraction(0)
    for _, recall, _ in points:
        best = max(p for p, r, _ in points if r >= recall)
        area, last = area + (recall - last) * best, recall
    return float(area)


def brute_force_step_ap(points):
    area, last = Fraction(0), Fraction(0)
    for precision, recall, _ in points:
        area, last = area + (recall - last) * precision, recall
    return float(area)


@st.composite
def rankings(draw):
    """Targets with a positive that counts, scores with many ties, weights."""
    size = draw(st.integers(1, 30))
    targets = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    score = st.one_of(st.integers(-3, 3).map(float), st.sampled_from([INF, -INF, 0.5, -0.0]))
    scores = draw(st.lists(score, min_size=size, max_size=size))
    weights = draw(st.lists(st.integers(0, 1), min_size=size, max_size=size))
    chosen = draw(st.integers(0, size - 1))
    targets[chosen], weights[chosen] = 1, 1
    return targets, scores, weights


class TestGetPrecisionRecall:
    def test_a_case_computed_by_hand(self):
        # Ranked: + - + - +   -> P 1, 1/2, 2/3, 1/2, 3/5; envelope over the hits 1, 2/3, 3/5.
        P, R, score, ap = get_precision_recall([1, 0, 1, 0, 1], [9, 8, 7, 6, 5])
        np.testing.assert_allclose(P, [1, 1 / 2, 2 / 3, 1 / 2, 3 / 5], rtol=1e-15)
        np.testing.assert_allclose(R, [1 / 3, 1 / 3, 2 / 3, 2 / 3, 1], rtol=1e-15)
        np.testing.assert_array_equal(score, [9, 8, 7, 6, 5])
        assert ap == pytest.approx((1 + 2 / 3 + 3 / 5) / 3, abs=1e-15)

    def test_the_envelope_lifts_an_early_miss(self):
        # Ranked: - + +  -> P 0, 1/2, 2/3; the envelope is 2/3 everywhere.
        assert get_precision_recall([0, 1, 1], [3, 2, 1])[3] == pytest.approx(2 / 3, abs=1e-15)
        assert average_precision([0, 1, 1], [3, 2, 1]) == pytest.approx(7 / 12, abs=1e-15)

    def test_equal_scores_pass_one_threshold_together(self):
        P, R, score, ap = get_precision_recall([1, 0, 0, 1], [2, 1, 1, 1])
        np.testing.assert_array_equal(P, [1, 1 / 2])
        np.testing.assert_array_equal(R, [1 / 2, 1])
        np.testing.assert_array_equal(score, [2, 1])
        assert ap == 0.75

    def test_the_result_is_of_float64_and_a_float(self):
        P, R, score, ap = get_precision_recall(np.array([1, 0], np.int8), np.float16([1, 0]))
        assert P.dtype == R.dtype == score.dtype == np.float64
        assert type(ap) is float

    def test_counts_above_one_are_one_positive(self):
        once = get_precision_recall([1, 0, 1, 0], [4, 3, 2, 1])
        often = get_precision_recall([5, 0, 2, -1], [4, 3, 2, 1])
        for left, right in zip(once, often, strict=True):
            np.testing.assert_array_equal(left, right)

    def test_weight_zero_leaves_the_image_out(self):
        kept = get_precision_recall([1, 0, 1], [4, 2, 1])
        for weights in ([1, 0, 1, 1], (True, False, True, True), np.float32([1, 0, 1, 1])):
            weighted = get_precision_recall([1, 0, 0, 1], [4, 3, 2, 1], weights)
            for left, right in zip(kept, weighted, strict=True):
                np.testing.assert_array_equal(left, right)

    def test_the_best_ranking_is_exactly_one(self):
        for positives in range(1, 60):
            targets = [1] * positives + [0] * 7
            scores = -np.arange(len(targets))
            assert get_precision_recall(targets, scores)[3] == 1.0
            assert average_precision(targets, scores) == 1.0

    def test_one_image(self):
        assert get_precision_recall([1], [-3.5])[3] == 1.0

    def test_infinite_scores_are_scores(self):
        P, _, score, ap = get_precision_recall([1, 0, 1, 0], [INF, INF, 0, -INF])
        np.testing.assert_allclose(P, [1 / 2, 2 / 3, 1 / 2])
        np.testing.assert_array_equal(score, [INF, 0, -INF])
        assert ap == pytest.approx(2 / 3)

    def test_no_positive_is_nan_with_a_warning(self):
        with pytest.warns(AssayWarning, match="none of the 3 samples"):
            P, R, score, ap = get_precision_recall([0, 0, 0], [1, 2, 3])
        assert math.isnan(ap)
        assert np.isnan(R).all()
        np.testing.assert_array_equal(P, [0, 0, 0])
        np.testing.assert_array_equal(score, [3, 2, 1])

    def test_a_positive_that_is_ignored_is_none(self):
        with pytest.warns(AssayWarning, match="positive"):
            assert math.isnan(get_precision_recall([1, 0], [1, 2], [0, 1])[3])

    def test_nothing_at_all_is_nan_with_a_warning(self):
        with pytest.warns(AssayWarning, match="none of the 0 samples"):
            P, _, _, ap = get_precision_recall([], [])
        assert len(P) == 0
        assert math.isnan(ap)

    def test_nan_scores_are_refused_with_their_number_and_place(self):
        scores = [0.1, NAN, 0.3, NAN]
        with pytest.raises(MetricError, match=r"2 of 4 values of scores are NaN \(at 1, 3\)"):
            get_precision_recall([1, 0, 1, 0], scores)
        with pytest.raises(MetricError, match="2 of 4"):
            average_precision([1, 0, 1, 0], scores, [1, 0, 1, 0])

    @pytest.mark.parametrize(
        ("targets", "scores", "weights", "said"),
        [
            ([1, 0], [1.0], None, "2 targets but 1 scores"),
            ([1, 0], [1.0, 2.0], [1], "1 weights but 2 scores"),
            ([1, 0], [1.0, 2.0], [1, 0.5], "neither 0 nor 1 at 1"),
            ([1, 0], [1.0, 2.0], [1, NAN], "neither 0 nor 1 at 1"),
            ([NAN, 0], [1.0, 2.0], None, "targets are NaN"),
            ([[1, 0], [0, 1]], [1.0, 2.0], None, r"shape \(2, 2\)"),
            (["a", "b"], [1.0, 2.0], None, "real numbers"),
            ([1, 0], [1j, 2.0], None, "real numbers"),
            ([1, 0], [[1.0], [2.0, 3.0]], None, "cannot be read"),
        ],
    )
    def test_what_cannot_be_ranked_is_refused(self, targets, scores, weights, said):
        with pytest.raises(MetricError, match=said):
            get_precision_recall(targets, scores, weights)

    @pytest.mark.parametrize(
        "convert",
        [
            list,
            tuple,
            np.float16,
            np.int64,
            lambda scores: np.repeat(np.array(scores), 2)[::2],
            lambda scores: np.array(scores)[:, None],
            lambda scores: torch.tensor(scores, dtype=torch.bfloat16),
            lambda scores: torch.tensor(scores, dtype=torch.float16, requires_grad=True),
            lambda scores: torch.tensor(scores, dtype=torch.int32),
            lambda scores: torch.tensor(scores).repeat_interleave(2)[::2],
        ],
    )
    def test_scores_come_in_any_real_form(self, convert):
        targets, scores = [1, 0, 1, 0, 1], [5.0, 4.0, 3.0, 3.0, -1.0]
        expected = get_precision_recall(targets, scores)
        for left, right in zip(
            expected, get_precision_recall(targets, convert(scores)), strict=True
        ):
            np.testing.assert_array_equal(left, right)

    def test_the_callers_arrays_stay_as_they_are(self):
        targets, scores = np.array([0, 1, 1]), np.array([-0.0, 3.0, 2.0])
        weights = np.array([1, 1, 0])
        before = [array.copy() for array in (targets, scores, weights)]
        get_precision_recall(targets, scores, weights)
        for now, then in zip((targets, scores, weights), before, strict=True):
            np.testing.assert_array_equal(now, then)
        assert np.signbit(scores[0])

    @law
    @given(rankings())
    def test_it_agrees_with_counting_at_each_threshold(self, ranking):
        points = brute_force(*ranking)
        P, R, score, ap = get_precision_recall(*ranking)
        np.testing.assert_allclose(P, [float(p) for p, _, _ in points], rtol=1e-15)
        np.testing.assert_allclose(R, [float(r) for _, r, _ in points], rtol=1e-15)
        np.testing.assert_array_equal(score, [s for _, _, s in points])
        assert ap == pytest.approx(brute_force_interpolated_ap(points), abs=1e-14)
        assert average_precision(*ranking) == pytest.approx(brute_force_step_ap(points), abs=1e-14)

    @law
    @given(rankings(), st.randoms(use_true_random=False))
    def test_the_order_of_the_images_changes_no_bit(self, ranking, random):
        order = list(range(len(ranking[0])))
        random.shuffle(order)
        shuffled = [[values[place] for place in order] for values in ranking]
        for left, right in zip(
            get_precision_recall(*ranking), get_precision_recall(*shuffled), strict=True
        ):
            assert np.asarray(left).tobytes() == np.asarray(right).tobytes()

    @law
    @given(rankings())
    def test_a_rising_transform_of_the_scores_changes_no_ap(self, ranking):
        targets, scores, weights = ranking
        transformed = np.arctan(np.array(scores)) * 3 + 1
        for ap in (average_precision, lambda *given: get_precision_recall(*given)[3]):
            assert ap(targets, scores, weights) == ap(targets, transformed, weights)

    @law
    @given(rankings())
    def test_the_envelope_never_lowers_the_ap_and_both_lie_in_0_to_1(self, ranking):
        curve = precision_recall(*ranking)
        assert 0 < curve.step_ap <= curve.interpolated_ap + 1e-15
        assert curve.interpolated_ap <= 1


class TestPrecisionRecall:
    def test_it_counts_what_it_ranks(self):
        curve = precision_recall([2, 0, 1, 1], [1, 2, 3, 4], [1, 1, 1, 0])
        assert (curve.num_positives, curve.num_samples) == (2, 3)

    def test_without_a_positive_it_is_silent_and_undefined(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            curve = precision_recall([0, 0], [1, 2])
        assert math.isnan(curve.step_ap)
        assert math.isnan(curve.interpolated_ap)


class TestCalculateAp:
    def test_a_curve_computed_by_hand(self):
        ap = calculate_ap([0.25, 0.25, 0.5, 0.5, 0.75], [1.0, 0.5, 2 / 3, 0.5, 0.6])
        assert ap == pytest.approx(0.25 * 1 + 0.25 * 2 / 3 + 0.25 * 0.6)
        assert type(ap) is float

    def test_one_point_reaches_down_to_recall_zero(self):
        assert calculate_ap([0.5], [0.8]) == 0.4

    def test_lists_arrays_and_tensors_give_the_same(self):
        rec, prec = [0.5, 1.0], [1.0, 0.5]
        for form in (np.array, np.float32, torch.tensor):
            assert calculate_ap(form(rec), form(prec)) == 0.75

    def test_recall_rounded_in_float32_is_taken(self):
        assert calculate_ap([0.5, 1.0000001], [1.0, 1.0]) == 1.0

    @pytest.mark.parametrize(
        ("rec", "prec", "said"),
        [
            ([], [], "empty"),
            ([0.5, 1], [1], "2 values but prec has 1"),
            ([0.5, NAN], [1, 1], "of rec are NaN"),
            ([0.5, 1], [NAN, 1], "of prec are NaN"),
            ([1, 0.5], [1, 1], "rec falls after 0"),
            ([50, 100], [1, 1], "not percent"),
            ([0.5, 1], [1, -0.5], "prec is outside"),
        ],
    )
    def test_what_is_no_curve_is_refused(self, rec, prec, said):
        with pytest.raises(MetricError, match=said):
            calculate_ap(rec, prec)


class TestAveragePrecision:
    @law
    @given(rankings())
    def test_it_is_scikit_learns(self, ranking):
        targets, scores, weights = (np.array(values) for values in ranking)
        finite = np.clip(scores, -1e6, 1e6)  # scikit-learn refuses infinities
        theirs = average_precision_score(targets > 0, finite, sample_weight=weights)
        assert average_precision(targets, finite, weights) == pytest.approx(theirs, abs=1e-12)

    @pytest.mark.parametrize("decimals", [1, 2, 12])
    def test_it_is_scikit_learns_on_many_samples(self, decimals):
        rng = np.random.default_rng(decimals)
        targets = rng.random(5000) < 0.1
        scores = np.round(rng.normal(size=5000) + targets, decimals)
        theirs = average_precision_score(targets, scores)
        assert average_precision(targets, scores) == pytest.approx(theirs, abs=1e-12)

    def test_no_positive_is_nan_with_a_warning(self):
        with pytest.warns(AssayWarning, match="undefined"):
            assert math.isnan(average_precision([0, 0], [1, 2]))


class TestMeanAveragePrecision:
    def test_undefined_classes_are_left_out_and_counted(self):
        assert mean_average_precision([0.5, NAN, 1.0]) == MeanAP(0.75, 2, 1)

    def test_a_column_of_classes_will_do(self):
        assert mean_average_precision(np.array([[0.25], [0.75]])) == MeanAP(0.5, 2, 0)

    def test_if_all_are_undefined_so_is_the_mean(self):
        mean = mean_average_precision([NAN, NAN])
        assert math.isnan(mean.value)
        assert (mean.num_defined, mean.num_undefined) == (0, 2)

    def test_no_class_is_refused(self):
        with pytest.raises(MetricError, match="empty"):
            mean_average_precision([])
