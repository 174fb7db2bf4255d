"""Weighted nearest neighbours: against a plain loop, in any chunks, and given bad input."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import AssayWarning, ConfigError, DataError
from assay.evaluate import KNNAccuracy, KNNMeanAP, KNNSettings, evaluate_knn, get_precision_recall

FEW = KNNSettings(k_values=(1, 5, 10))


def rows(features, targets):
    return SimpleNamespace(features=np.asarray(features), targets=np.asarray(targets))


def unit(features):
    features = np.asarray(features, np.float64)
    return features / np.linalg.norm(features, axis=1, keepdims=True)


def plain_votes(train, query, k, temperature=0.07):
    """One query's votes by class id, written as the definition reads."""
    cosines = unit(train.features) @ unit(query[None])[0]
    nearest = sorted(range(len(cosines)), key=lambda row: (-cosines[row], row))[:k]
    votes = {}
    for row in nearest:
        label = int(train.targets[row])
        votes[label] = votes.get(label, 0) + np.exp(cosines[row] / temperature)
    return votes


@pytest.fixture
def labelled():
    """90 rows of 3 classes that overlap, and 40 to classify."""
    random = np.random.default_rng(0)
    centres = random.normal(size=(3, 16))

    def draw(count):
        classes = random.integers(0, 3, count)
        features = centres[classes] + 1.5 * random.normal(size=(count, 16))
        return rows(features.astype(np.float32), np.array([4, 9, 200])[classes])

    return draw(90), draw(40)


@pytest.fixture
def tagged():
    """60 rows with 4 labels each, some ignored, and 30 to rank."""
    random = np.random.default_rng(0)
    directions = random.normal(size=(4, 12))

    def draw(count):
        targets = (random.random((count, 4)) < 0.35).astype(np.int64)
        features = targets @ directions + random.normal(size=(count, 12))
        targets[random.random(targets.shape) < 0.05] = -1
        return rows(features, targets)

    return draw(60), draw(30)


class TestAccuracy:
    def test_predictions_are_those_of_a_plain_loop(self, labelled):
        train, test = labelled
        result = evaluate_knn(train, test, FEW)
        assert isinstance(result, KNNAccuracy)
        for place, k in enumerate(FEW.k_values):
            for row, query in enumerate(test.features):
                votes = plain_votes(train, query, k)
                assert result.predictions[place, row] == max(votes, key=votes.get)

    def test_accuracy_is_the_share_of_hits(self, labelled):
        train, test = labelled
        result = evaluate_knn(train, test, FEW)
        hits = result.predictions == test.targets
        np.testing.assert_array_equal(result.top1_hits, hits)
        np.testing.assert_array_equal(result.top1, hits.mean(axis=1))
        assert result.class_ids == (4, 9, 200)
        assert result.top1[2] > 0.6

    def test_top5_looks_at_the_five_classes_with_the_most_votes(self):
        random = np.random.default_rng(0)
        train = rows(random.normal(size=(60, 4)), random.integers(0, 12, 60))
        test = rows(random.normal(size=(30, 4)), random.integers(0, 12, 30))
        result = evaluate_knn(train, test, KNNSettings(k_values=(30,)))
        expected = []
        for query, label in zip(test.features, test.targets, strict=True):
            votes = plain_votes(train, query, 30)
            expected.append(label in sorted(votes, key=lambda each: -votes[each])[:5])
        np.testing.assert_array_equal(result.top5_hits[0], expected)
        assert result.top5 > result.top1

    def test_a_class_without_a_vote_is_no_hit(self):
        train = rows([[1.0, 0], [0, 1]], [0, 1])
        result = evaluate_knn(train, rows([[1.0, 0]], [1]), KNNSettings(k_values=(1,)))
        assert not result.top5_hits.any()

    def test_neighbours_weigh_by_their_similarity(self):
        train = rows([[1.0, 0], [1, 1], [1, 1.001]], [0, 1, 1])
        query = rows([[1.0, 0.01]], [0])
        sharp, flat = (
            evaluate_knn(train, query, KNNSettings(k_values=(3,), temperature=temperature))
            for temperature in (0.01, 100.0)
        )
        assert sharp.predictions == 0
        assert flat.predictions == 1

    def test_classes_of_equal_votes_rank_by_their_id(self):
        train = rows([[1.0, 0], [1, 0]], [8, 2])
        result = evaluate_knn(train, rows([[1.0, 0]], [8]), KNNSettings(k_values=(2,)))
        assert result.predictions == 2
        assert result.top5_hits.all()

    def test_ignored_rows_neither_vote_nor_count(self, labelled):
        train, test = labelled
        noisy_train = rows(
            np.vstack([train.features, test.features]),
            np.concatenate([train.targets, np.full(40, -1)]),
        )
        noisy_test = rows(
            np.vstack([train.features[:3], test.features]),
            np.concatenate([[-1] * 3, test.targets]),
        )
        plain, noisy = evaluate_knn(train, test, FEW), evaluate_knn(noisy_train, noisy_test, FEW)
        np.testing.assert_array_equal(noisy.predictions, plain.predictions)
        np.testing.assert_array_equal(noisy.rows, np.arange(3, 43))

    def test_classes_that_only_test_rows_show_are_misses_and_told(self, labelled):
        train, test = labelled
        with pytest.warns(AssayWarning, match=r"1 classes that no training row shows \(77\)"):
            result = evaluate_knn(train, rows(test.features, [77] * 40), FEW)
        assert not result.top5_hits.any()


class TestMeanAP:
    def test_scores_are_the_share_of_the_votes(self, tagged):
        train, test = tagged
        result = evaluate_knn(train, test, FEW)
        assert isinstance(result, KNNMeanAP)
        cosines = unit(test.features) @ unit(train.features).T
        for place, k in enumerate(FEW.k_values):
            for row in range(30):
                nearest = np.argsort(-cosines[row], kind="stable")[:k]
                weights = np.exp(cosines[row, nearest] / 0.07)[:, None]
                labels = train.targets[nearest]
                cast = (weights * (labels != -1)).sum(axis=0)
                expected = (weights * (labels == 1)).sum(axis=0) / np.where(cast > 0, cast, 1)
                np.testing.assert_allclose(result.scores[place, row], expected, rtol=1e-5)

    def test_test_aps_leave_ignored_labels_out(self, tagged):
        train, test = tagged
        result = evaluate_knn(train, test, FEW)
        for place in range(3):
            for class_id, labels in enumerate(test.targets.T):
                scores = result.scores[place, :, class_id]
                expected = get_precision_recall(labels == 1, scores, labels != -1)[3]
                assert result.test_ap[place, class_id] == pytest.approx(expected)
        np.testing.assert_allclose(result.mean_ap, result.test_ap.mean(axis=1))
        assert result.num_undefined == 0

    def test_a_class_without_a_positive_is_told_and_left_out(self, tagged):
        train, test = tagged
        targets = test.targets.copy()
        targets[:, 2] = 0
        with pytest.warns(AssayWarning, match=r"1 of 4 classes have no positive test row \(2\)"):
            result = evaluate_knn(train, rows(test.features, targets), FEW)
        assert np.isnan(result.test_ap[:, 2]).all()
        assert result.num_undefined == 1
        assert np.isfinite(result.mean_ap).all()


class TestExactness:
    @pytest.mark.parametrize("device", [None, "cpu"])
    @pytest.mark.parametrize("chunks", [(1, 1), (7, 11), (40, 3), (1000, 1000)])
    def test_the_answer_does_not_depend_on_chunks_or_backend(self, labelled, chunks, device):
        train, test = labelled
        # Near ties everywhere: each row three times, once off by what float32 can just tell.
        copies = [train.features, train.features * np.float32(1 + 1e-6), train.features]
        database = rows(np.vstack(copies), np.tile(train.targets, 3)[::-1])
        one = evaluate_knn(database, test, FEW)
        other = evaluate_knn(
            database, test, FEW, query_chunk=chunks[0], database_chunk=chunks[1], device=device
        )
        np.testing.assert_array_equal(other.predictions, one.predictions)
        np.testing.assert_array_equal(other.top5_hits, one.top5_hits)

    @pytest.mark.parametrize("device", [None, "cpu"])
    @pytest.mark.parametrize("l2_norm", [True, False])
    def test_scores_agree_to_the_last_bit(self, tagged, device, l2_norm):
        chosen = KNNSettings(k_values=(1, 9), l2_norm=l2_norm)
        one = evaluate_knn(*tagged, chosen)
        other = evaluate_knn(*tagged, chosen, query_chunk=4, database_chunk=5, device=device)
        np.testing.assert_array_equal(other.scores, one.scores)

    @pytest.mark.gpu
    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
    def test_a_gpu_gives_the_same_bits(self, tagged):
        one = evaluate_knn(*tagged, FEW)
        other = evaluate_knn(*tagged, FEW, device="cuda", database_chunk=7)
        np.testing.assert_array_equal(other.scores, one.scores)

    @pytest.mark.parametrize("device", [None, "cpu"])
    @pytest.mark.parametrize("database_chunk", [1, 4, 100])
    def test_of_equal_rows_the_lowest_index_is_nearest(self, device, database_chunk):
        train = rows(np.ones((12, 3)), np.arange(12))
        result = evaluate_knn(
            train,
            rows(np.ones((2, 3)), [2, 3]),
            KNNSettings(k_values=(3,)),
            device=device,
            database_chunk=database_chunk,
        )
        # Rows 0, 1 and 2 vote, each for itself.
        assert result.top5_hits.tolist() == [[True, False]]

    @settings(max_examples=40, deadline=None)
    @given(seed=st.integers(0, 10_000), chunk=st.integers(1, 20), k=st.integers(1, 15))
    def test_coarse_features_full_of_ties_agree_with_a_stable_sort(self, seed, chunk, k):
        random = np.random.default_rng(seed)
        train = rows(random.integers(-1, 2, (15, 3)), np.arange(15))
        query = random.integers(-1, 2, (4, 3))
        products = query @ train.features.T
        settings_of_k = KNNSettings(k_values=(k,), temperature=1.0, l2_norm=False)
        tags = rows(train.features, np.eye(15, dtype=int))
        with pytest.warns(AssayWarning, match="no positive test row"):
            result = evaluate_knn(
                tags, rows(query, np.zeros((4, 15), int)), settings_of_k, database_chunk=chunk
            )
        for row in range(4):
            nearest = np.argsort(-products[row], kind="stable")[:k]
            assert set(np.flatnonzero(result.scores[0, row])) == set(nearest)

    def test_rows_of_any_size_and_type_will_do(self, labelled):
        train, test = labelled
        one = evaluate_knn(train, test, FEW)
        big, small = (
            evaluate_knn(
                rows(train.features.astype(np.float64) * scale, train.targets),
                rows(test.features.astype(np.float64) * scale, test.targets),
                FEW,
            )
            for scale in (2.0**500, 2.0**-500)
        )
        np.testing.assert_array_equal(big.predictions, one.predictions)
        np.testing.assert_array_equal(small.predictions, one.predictions)
        halves = [
            SimpleNamespace(features=torch.tensor(each.features).half(), targets=each.targets)
            for each in labelled
        ]
        assert (evaluate_knn(*halves, FEW).predictions == one.predictions).mean() > 0.95

    def test_products_of_long_rows_do_not_overflow_the_votes(self, labelled):
        train, test = (rows(each.features * 1000, each.targets) for each in labelled)
        result = evaluate_knn(train, test, KNNSettings(k_values=(5,), l2_norm=False))
        assert result.top1 > 0.3

    def test_the_callers_arrays_stay_as_they_are(self, labelled):
        train, test = labelled
        before = train.features.copy(), test.features.copy()
        evaluate_knn(train, test, FEW)
        np.testing.assert_array_equal(train.features, before[0])
        np.testing.assert_array_equal(test.features, before[1])

    def test_memory_mapped_rows_will_do(self, labelled, tmp_path):
        train, test = labelled
        np.save(tmp_path / "rows.npy", train.features)
        mapped = rows([0], train.targets)
        mapped.features = np.load(tmp_path / "rows.npy", mmap_mode="r")
        np.testing.assert_array_equal(
            evaluate_knn(mapped, test, FEW).predictions, evaluate_knn(train, test, FEW).predictions
        )


class TestDropSelf:
    def test_a_row_has_no_vote_on_its_own_image(self, labelled):
        train, _ = labelled
        ids = [f"image{row}" for row in range(90)]
        result = evaluate_knn(
            train, train, KNNSettings(k_values=(1,)), train_ids=ids, test_ids=ids, database_chunk=8
        )
        cosines = unit(train.features) @ unit(train.features).T
        np.fill_diagonal(cosines, -np.inf)
        np.testing.assert_array_equal(
            result.predictions[0], train.targets[np.argmax(cosines, axis=1)]
        )

    @pytest.mark.parametrize("device", [None, "cpu"])
    def test_an_identical_image_of_another_id_keeps_its_vote(self, device):
        train = rows([[1.0, 0], [1, 0], [0, 1]], [5, 6, 7])
        result = evaluate_knn(
            train,
            train,
            KNNSettings(k_values=(1,)),
            train_ids=[10, 11, 12],
            test_ids=[10, 11, 12],
            device=device,
        )
        assert result.predictions[0, :2].tolist() == [6, 5]

    def test_ids_need_not_be_in_the_rows_order(self):
        train = rows([[1.0, 0], [0.9, 0.1], [0, 1]], [5, 6, 7])
        result = evaluate_knn(
            train,
            rows([[1.0, 0]], [6]),
            KNNSettings(k_values=(1,)),
            train_ids=["c", "a", "b"],
            test_ids=["c"],
        )
        assert result.predictions == 6

    def test_ids_of_ignored_rows_are_left_out_with_them(self):
        train = rows([[0.0, 1], [1, 0], [0.9, 0.1]], [-1, 5, 6])
        result = evaluate_knn(
            train,
            rows([[1.0, 0]], [6]),
            KNNSettings(k_values=(1,)),
            train_ids=[1, 2, 3],
            test_ids=[2],
        )
        assert result.predictions == 6

    def test_k_must_leave_room_for_the_rows_that_are_dropped(self, labelled):
        train, _ = labelled
        with pytest.raises(ConfigError, match="90 rows, of which up to 1 are a query's own"):
            evaluate_knn(
                train,
                train,
                KNNSettings(k_values=(90,)),
                train_ids=np.arange(90),
                test_ids=np.arange(90),
            )

    @pytest.mark.parametrize(
        ("ids", "message"),
        [
            ({"train_ids": range(90)}, "one side alone"),
            ({"train_ids": range(89), "test_ids": range(40)}, r"train_ids have the shape \(89,\)"),
            ({"train_ids": range(90), "test_ids": ["a"] * 40}, "give both in one type"),
        ],
    )
    def test_ids_that_do_not_fit_are_refused(self, labelled, ids, message):
        with pytest.raises(DataError, match=message):
            evaluate_knn(*labelled, FEW, **ids)


class TestRefusals:
    @pytest.mark.parametrize("side", [0, 1])
    def test_nan_is_refused(self, labelled, side):
        labelled[side].features[3, 2] = np.nan
        with pytest.raises(DataError, match=r"NaN or infinity in 1 of \d+ rows \(3\)"):
            evaluate_knn(*labelled, FEW)

    def test_a_k_above_the_database_is_refused(self, labelled):
        with pytest.raises(ConfigError, match="k is 200 but the database has 90 rows"):
            evaluate_knn(*labelled)

    @pytest.mark.parametrize("device", ["cuda:999", "no such device"])
    def test_a_device_that_cannot_compute_is_refused(self, labelled, device):
        with pytest.raises(ConfigError, match=f"device {device} cannot compute"):
            evaluate_knn(*labelled, FEW, device=device)

    def test_other_columns_are_refused(self, labelled):
        train, test = labelled
        with pytest.raises(DataError, match="15 columns but training features 16"):
            evaluate_knn(train, rows(test.features[:, 1:], test.targets), FEW)

    def test_targets_of_two_forms_are_refused(self, labelled, tagged):
        with pytest.raises(DataError, match="give one class id a row in both"):
            evaluate_knn(labelled[0], rows(labelled[1].features, np.zeros((40, 3), int)), FEW)

    def test_all_ignored_is_refused(self, labelled):
        with pytest.raises(DataError, match="all test rows are labelled -1"):
            evaluate_knn(labelled[0], rows(labelled[1].features, [-1] * 40), FEW)

    def test_rows_of_zeros_are_told(self, labelled):
        train, test = labelled
        test.features[5] = 0
        with pytest.warns(AssayWarning, match=r"1 of 40 test rows are all zeros \(rows 5\)"):
            result = evaluate_knn(train, test, FEW)
        # All cosines are 0, so the first row of the database is the first neighbour.
        assert result.predictions[0, 5] == train.targets[0]


class TestSettings:
    def test_the_section_of_the_settings_is_read(self):
        chosen = KNNSettings.from_config({"SIGMA": 0.2, "TOPK": [5, 20], "L2_NORM_FEATS": True})
        assert chosen == KNNSettings(k_values=(5, 20), temperature=0.2, l2_norm=True)

    def test_missing_keys_have_the_sections_defaults(self):
        expected = KNNSettings(k_values=(200,), temperature=0.1, l2_norm=False)
        assert KNNSettings.from_config({}) == expected

    def test_without_settings_they_are_those_of_dino(self):
        assert KNNSettings() == KNNSettings((10, 20, 100, 200), 0.07, True)

    def test_all_faults_are_in_one_error(self):
        section = {"SIGMA": 0, "TOPK": [3, 0], "L2_NORM_FEATS": "no", "TOPKK": 1}
        with pytest.raises(ConfigError) as caught:
            KNNSettings.from_config(section)
        for part in ("SIGMA is 0", r"TOPK is [3, 0]", "L2_NORM_FEATS is 'no'", "mean 'TOPK'"):
            assert part in str(caught.value)
