"""SVMLowShotTrainer on real digits: against scikit-learn, by its contract, and given bad input."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import LinearSVC

from assay.errors import AssayWarning, ConfigError, DataError
from assay.evaluate import (
    SVMLowShotTrainer,
    SVMTrainer,
    average_precision,
    draw_low_shot_sample,
    get_precision_recall,
)

COSTS = [1.0, 0.1, 10.0]
CLASSES = (3, 5, 8)


def unit(rows):
    rows = rows.astype(np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def fit(features, labels, cost):
    svc = LinearSVC(C=cost, class_weight={1: 2, -1: 1}, random_state=0, dual=False, max_iter=2000)
    return svc.fit(unit(features), np.where(labels == 1, 1, -1))


def as_columns(rows):
    """The same rows with one column a class."""
    targets = np.stack([rows.targets == each for each in CLASSES], axis=1).astype(np.int64)
    return SimpleNamespace(features=rows.features, targets=targets)


@pytest.fixture(scope="module")
def places(some_digits):
    return some_digits


@pytest.fixture(scope="module")
def voc(some_digits):
    return tuple(as_columns(rows) for rows in some_digits)


@pytest.fixture
def make(tmp_path):
    """Makes low-shot trainers in one process, whose results stand in the test's own folder."""

    def make(dataset_name, config=None, *, layer="layer4", low_shot=None, **keywords):
        settings = {
            "costs": {"costs_list": COSTS},
            "dual": False,
            "low_shot": {
                "dataset_name": dataset_name,
                "sample_inds": [1, 2],
                "k_values": [1, 4],
                **(low_shot or {}),
            },
            **(config or {}),
        }
        return SVMLowShotTrainer(settings, layer, tmp_path / "svm", num_workers=1, **keywords)

    return make


@pytest.fixture(scope="module")
def swept(voc, tmp_path_factory):
    """A trainer after a whole sweep of 2 samples and 2 values of k, with its result."""
    trainer = SVMLowShotTrainer(
        {
            "costs": {"costs_list": COSTS},
            "dual": False,
            "low_shot": {"dataset_name": "voc07", "sample_inds": [1, 2], "k_values": [1, 4]},
        },
        "pixels",
        tmp_path_factory.mktemp("svm"),
        num_workers=1,
    )
    return trainer, trainer.sweep(*voc)


def train_and_test(trainer, sets, number, kvalue):
    train, test = sets
    sample = draw_low_shot_sample(train.targets, number, kvalue)
    trainer.train(train.features[sample.rows], sample.targets, number, kvalue)
    return trainer.test(test.features, test.targets, number, kvalue)


@pytest.fixture
def train_counting(fits_made):
    """Train; returns how many SVMs were taken over and how many were fitted."""

    def train(trainer, sample, features, *numbers):
        steps = []
        with fits_made() as made:
            trainer.train(features[sample.rows], sample.targets, *numbers, progress=steps.append)
        return sum(steps) - sum(made), sum(made)

    return train


class TestAgainstScikitLearn:
    def test_one_column_a_class_is_trained_on_its_own_rows(self, voc, make):
        train, test = voc
        sample = draw_low_shot_sample(train.targets, 1, 4)
        mean_ap = train_and_test(make("voc"), voc, 1, 4)
        expected = np.empty((3, 3))
        for class_id in range(3):
            drawn = sample.targets[:, class_id] != -1
            features = train.features[sample.rows][drawn]
            for place, cost in enumerate(COSTS):
                svc = fit(features, sample.targets[drawn, class_id], cost)
                scores = svc.decision_function(unit(test.features))
                expected[class_id, place] = get_precision_recall(test.targets[:, class_id], scores)[
                    3
                ]
        np.testing.assert_allclose(mean_ap, expected.mean(axis=0)[None], atol=1e-12)

    def test_one_class_a_row_is_trained_against_all_other_rows(self, places, make):
        train, test = places
        sample = draw_low_shot_sample(train.targets, 2, 4)
        mean_ap = train_and_test(make("places205"), places, 2, 4)
        features = train.features[sample.rows]
        expected = np.empty((3, 3))
        for row, class_id in enumerate(CLASSES):
            for place, cost in enumerate(COSTS):
                svc = fit(features, np.where(sample.targets == class_id, 1, 0), cost)
                scores = svc.decision_function(unit(test.features))
                expected[row, place] = get_precision_recall(test.targets == class_id, scores)[3]
        np.testing.assert_allclose(mean_ap, expected.mean(axis=0)[None], atol=1e-12)

    def test_cross_validated_aps_are_those_of_linear_svc(self, places, make):
        train, _ = places
        trainer = make("places")
        sample = draw_low_shot_sample(train.targets, 1, 4)
        train_and_test(trainer, places, 1, 4)
        result = trainer.aggregate([4], [1])
        features, labels = train.features[sample.rows], np.where(sample.targets == 5, 1, 0)
        for place, cost in enumerate(COSTS):
            aps = []
            for fitted, scored in StratifiedKFold(3).split(features, labels):
                svc = fit(features[fitted], labels[fitted], cost)
                scores = svc.decision_function(unit(features[scored]))
                aps.append(average_precision(labels[scored], scores))
            assert result.crossval_ap[0, 0, 1, place] == pytest.approx(np.mean(aps), abs=1e-12)


class TestTraining:
    def test_it_is_an_svm_trainer(self, make):
        assert isinstance(make("voc"), SVMTrainer)

    def test_a_sample_may_come_as_labels_of_the_full_set(self, voc, make):
        train, test = voc
        sample = draw_low_shot_sample(train.targets, 1, 4)
        own_rows = train_and_test(make("voc", layer="own"), voc, 1, 4)
        full = np.full(train.targets.shape, -1)
        full[sample.rows] = sample.targets
        trainer = make("voc", layer="full")
        trainer.train(train.features, full, 1, 4)
        np.testing.assert_array_equal(trainer.test(test.features, test.targets, 1, 4), own_rows)

    def test_each_svm_of_each_sample_can_be_loaded(self, places, make):
        trainer = make("places")
        for number in (1, 2):
            train_and_test(trainer, places, number, 1)
        first, second = (trainer.load_low_shot_model(5, 10.0, number, 1) for number in (1, 2))
        assert first.weights.shape == (64,)
        assert not np.array_equal(first.weights, second.weights)
        with pytest.raises(DataError, match="class 4 is not trained: 3, 5, 8 are"):
            trainer.load_low_shot_model(4, 10.0, 1, 1)
        with pytest.raises(DataError, match="no SVM was trained at cost 7"):
            trainer.load_low_shot_model(5, 7.0, 1, 1)

    def test_a_subset_of_the_classes_can_be_trained(self, voc, make):
        result = make("voc", {"cls_list": [2, 0]}).sweep(*voc)
        assert result.class_ids == (2, 0)
        assert result.test_ap.shape == (2, 2, 2, 3)

    def test_a_listed_class_of_places_has_images_of_all_others_as_negatives(self, places, make):
        some = make("places", {"cls_list": [5]}, layer="some").sweep(*places)
        every = make("places", layer="every").sweep(*places)
        np.testing.assert_array_equal(some.test_ap[:, :, 0], every.test_ap[:, :, 1])

    def test_small_samples_are_not_cross_validated(self, voc, make, train_counting):
        trainer, (train, _) = make("voc"), voc
        counts = []
        for kvalue in (2, 3):
            sample = draw_low_shot_sample(train.targets, 1, kvalue)
            counts.append(train_counting(trainer, sample, train.features, 1, kvalue)[1])
        assert counts == [9, 36]

    def test_cross_validation_can_be_left_out(self, voc, make, train_counting):
        trainer, (train, test) = make("voc", cross_validate=False), voc
        sample = draw_low_shot_sample(train.targets, 1, 4)
        assert train_counting(trainer, sample, train.features, 1, 4) == (0, 9)
        trainer.test(test.features, test.targets, 1, 4)
        assert "crossval_mean" not in trainer.aggregate_stats([4], [1])["k=4"]

    def test_the_full_protocol_still_runs_beside_it(self, voc, make):
        trainer = make("voc")
        train_and_test(trainer, voc, 1, 4)
        assert trainer.evaluate(*voc).mean_ap > 0.8
        assert trainer.aggregate_stats([4], [1])["k=4"]["mean"] > 0

    def test_a_class_without_a_positive_test_row_is_told_and_left_out(self, voc, make):
        train, test = voc
        targets = test.targets.copy()
        targets[:, 1] = 0
        sets = (train, SimpleNamespace(features=test.features, targets=targets))
        with pytest.warns(AssayWarning, match=r"1 of 3 classes have no positive test row \(1\)"):
            mean_ap = train_and_test(make("voc"), sets, 1, 4)
        assert np.isfinite(mean_ap).all()

    def test_test_rows_labelled_ignored_never_count(self, voc, make):
        train, test = voc
        sets = (
            train,
            SimpleNamespace(
                features=np.vstack([test.features, train.features[:20]]),
                targets=np.vstack([test.targets, np.full((20, 3), -1)]),
            ),
        )
        np.testing.assert_array_equal(
            train_and_test(make("voc", layer="more"), sets, 1, 4),
            train_and_test(make("voc", layer="plain"), voc, 1, 4),
        )


class TestSummary:
    def test_the_percentages_are_of_the_best_cost_of_the_mean(self, swept):
        trainer, _ = swept
        stats = trainer.aggregate_stats([1, 4], [1, 2])
        assert list(stats) == ["k=1", "k=4"]
        for kvalue in (1, 4):
            samples = np.vstack(
                [np.load(trainer.folder / f"test_ap_sample{s}_k{kvalue}.npy") for s in (1, 2)]
            )
            best = samples.mean(axis=0).argmax()
            figures = stats[f"k={kvalue}"]
            assert figures["cost"] == COSTS[best]
            for name in ("mean", "max", "min", "std"):
                assert figures[name] == round(100 * getattr(samples[:, best], name)(), 2)

    def test_the_files_hold_the_statistics_at_every_cost(self, swept):
        trainer, result = swept
        for name in ("mean", "max", "min", "std"):
            stored = np.load(trainer.folder / f"test_ap_{name}.npy", allow_pickle=False)
            np.testing.assert_array_equal(stored, getattr(result.mean_ap, name)(axis=1))
            assert stored.shape == (2, 3)

    def test_the_result_has_the_documented_shapes(self, swept):
        _, result = swept
        assert result.layer == "pixels"
        assert result.class_ids == (0, 1, 2)
        assert (result.k_values, result.sample_inds) == ((1, 4), (1, 2))
        assert result.test_ap.shape == result.crossval_ap.shape == (2, 2, 3, 3)
        assert [point.low_shot_kvalue for point in result.points] == [1, 4]
        assert result.points[1].mean > result.points[0].mean > 0.4

    def test_class_aps_average_to_the_mean(self, swept):
        _, result = swept
        for point in result.points:
            assert point.class_ap.shape == (3,)
            assert point.class_ap.mean() == pytest.approx(point.mean)

    def test_the_cross_validated_figure_stands_beside_it_where_k_permits(self, swept):
        trainer, result = swept
        stats = trainer.aggregate_stats([1, 4], [1, 2])
        assert "crossval_mean" not in stats["k=1"]
        assert np.isnan(result.points[0].crossval_mean)
        mean_crossval = result.crossval_ap[1].mean(axis=1)
        by_cost = np.argsort(COSTS)
        chosen = [by_cost[np.argmax(row[by_cost])] for row in mean_crossval]
        honest = [result.mean_ap[1, sample, place] for sample, place in enumerate(chosen)]
        assert stats["k=4"]["crossval_mean"] == round(100 * np.mean(honest), 2)
        assert stats["k=4"]["crossval_std"] == round(100 * np.std(honest), 2)
        assert stats["k=4"]["crossval_mean"] <= stats["k=4"]["max"]
        np.testing.assert_array_equal(result.points[1].crossval_costs, np.array(COSTS)[chosen])

    def test_part_of_the_samples_can_be_summed_up(self, swept):
        trainer, result = swept
        part = trainer.aggregate([4], [2])
        np.testing.assert_array_equal(part.test_ap[0, 0], result.test_ap[1, 1])
        assert part.points[0].std == 0
        trainer.aggregate([1, 4], [1, 2])

    def test_of_equal_means_the_lowest_cost_is_chosen(self, make):
        trainer = make("places")
        features = np.repeat(np.eye(2), 4, axis=0)
        targets = np.repeat([1, 2], 4)
        trainer.train(features, targets, 1, 4)
        trainer.test(features, targets, 1, 4)
        assert trainer.aggregate_stats([4], [1])["k=4"] == {
            **{"mean": 100.0, "max": 100.0, "min": 100.0, "std": 0.0, "cost": 0.1},
            **{"crossval_mean": 100.0, "crossval_std": 0.0},
        }

    def test_a_sample_that_is_not_trained_is_named(self, swept):
        trainer, _ = swept
        with pytest.raises(DataError, match="sample 7 at k = 1 is not trained"):
            trainer.aggregate_stats([1, 4], [1, 7])
        assert not list(trainer.folder.rglob("*sample7*"))

    def test_a_sample_that_is_not_tested_is_named(self, voc, make):
        trainer, (train, _) = make("voc"), voc
        sample = draw_low_shot_sample(train.targets, 1, 4)
        trainer.train(train.features[sample.rows], sample.targets, 1, 4)
        with pytest.raises(DataError, match="sample 1 at k = 4 is trained but not tested"):
            trainer.aggregate_stats([4], [1])

    def test_samples_tested_on_different_rows_are_not_mixed(self, voc, make):
        trainer, (train, test) = make("voc"), voc
        train_and_test(trainer, voc, 1, 4)
        train_and_test(trainer, (train, train), 2, 4)
        with pytest.raises(DataError, match="sample 2 at k = 4 was tested on other rows"):
            trainer.aggregate_stats([4], [1, 2])
        trainer.test(test.features, test.targets, 2, 4)
        trainer.aggregate_stats([4], [1, 2])


class TestReuse:
    def test_the_same_again_is_taken_over_and_another_sample_is_not(
        self, voc, make, train_counting
    ):
        train, _ = voc
        first, second = (draw_low_shot_sample(train.targets, number, 4) for number in (1, 2))
        assert train_counting(make("voc"), first, train.features, 1, 4) == (0, 36)
        assert train_counting(make("voc"), first, train.features, 1, 4) == (36, 0)
        assert train_counting(make("voc"), second, train.features, 1, 4) == (0, 36)
        again = make("voc", {"force_retrain": True})
        assert train_counting(again, second, train.features, 1, 4) == (0, 36)

    def test_a_stopped_run_goes_on_and_gives_what_a_fresh_one_gives(
        self, voc, make, train_counting, class_by_class
    ):
        train, test = voc
        sample = draw_low_shot_sample(train.targets, 1, 4)
        fits = []

        class Kill(BaseException):
            """Ends a training as Ctrl-C does."""

        def progress(count):
            fits.append(count)
            if sum(fits) >= 12 + 5:
                raise Kill

        with pytest.raises(Kill):
            make("voc").train(train.features[sample.rows], sample.targets, 1, 4, progress=progress)
        with pytest.raises(DataError, match="no training that came to its end"):
            make("voc").test(test.features, test.targets, 1, 4)
        assert train_counting(make("voc"), sample, train.features, 1, 4) == (12, 24)
        fresh = train_and_test(make("voc", layer="fresh"), voc, 1, 4)
        np.testing.assert_array_equal(make("voc").test(test.features, test.targets, 1, 4), fresh)

    def test_training_again_takes_the_old_test_results_away(self, voc, make):
        trainer, (train, _) = make("voc"), voc
        train_and_test(trainer, voc, 1, 4)
        trainer.aggregate_stats([4], [1])
        sample = draw_low_shot_sample(train.targets, 3, 4)
        trainer.train(train.features[sample.rows], sample.targets, 1, 4)
        assert not list(trainer.folder.glob("test_ap*"))
        with pytest.raises(DataError, match="not tested"):
            trainer.aggregate_stats([4], [1])

    def test_models_of_other_settings_are_refused(self, voc, make):
        _, test = voc
        train_and_test(make("voc"), voc, 1, 4)
        other = make("voc", {"costs": {"costs_list": [5.0]}})
        with pytest.raises(DataError, match=r"costs was \[1.0, 0.1, 10.0\], is \[5.0\]"):
            other.test(test.features, test.targets, 1, 4)
        with pytest.raises(DataError, match="trained with other settings"):
            other.aggregate_stats([4], [1])

    def test_a_damaged_test_result_is_named(self, voc, make):
        trainer = make("voc")
        train_and_test(trainer, voc, 1, 4)
        (trainer.folder / "low_shot" / "sample1_k4" / "test_ap.npy").write_bytes(b"")
        with pytest.raises(DataError, match=r"sample1_k4: its test cannot be read .*test again"):
            trainer.aggregate_stats([4], [1])

    def test_the_settings_are_left_as_they_were(self, tmp_path):
        config = {"costs": {"costs_list": [1.0], "base": 2.0, "power_range": [1, 3]}}
        trainer = SVMLowShotTrainer(config, "fc", tmp_path)
        assert trainer.costs_list == [1.0, 2.0, 4.0]
        assert config == {"costs": {"costs_list": [1.0], "base": 2.0, "power_range": [1, 3]}}


class TestRefusals:
    @pytest.mark.parametrize("name", ["coco", "imagenet", "VOC", "", None])
    def test_other_data_sets_are_named_in_the_error(self, make, name):
        with pytest.raises(ConfigError, match=f"dataset_name is {name!r}: give voc or voc07"):
            make(name)

    @pytest.mark.parametrize("name", ["voc", "voc07", "places", "places205", "places_extra"])
    def test_the_published_data_sets_are_known(self, make, name):
        assert make(name).low_shot.multi_label == name.startswith("voc")

    def test_all_faults_of_the_settings_are_in_one_error(self, make):
        with pytest.raises(ConfigError) as caught:
            make("vok", low_shot={"k_values": [1, 1], "sample_inds": [-1], "seeds": 3})
        for part in ("mean 'voc'", "k_values is [1, 1]", "sample_inds is [-1]", "seeds is not"):
            assert part in str(caught.value)

    def test_targets_of_the_other_form_are_refused(self, voc, places, make):
        for name, sets, hint in (("voc", places, "to places"), ("places", voc, "to voc")):
            with pytest.raises(DataError, match=hint):
                make(name).train(sets[0].features, sets[0].targets, 1, 4)

    def test_a_class_without_a_positive_is_named(self, voc, make):
        train, _ = voc
        targets = train.targets.copy()
        targets[:, 1] = 0
        with pytest.raises(DataError, match="class 1 has 0 positive training rows\n"):
            make("voc").train(train.features, targets, 1, 4)

    def test_a_k_that_some_class_cannot_fill_is_told_before_training(self, voc, make):
        trainer = make("voc", low_shot={"k_values": [1, 1000]})
        with pytest.raises(DataError, match="k = 1000 needs as many positive rows"):
            trainer.sweep(*voc)
        assert not list(trainer.folder.rglob("*.npz"))

    @pytest.mark.parametrize(
        ("k_values", "sample_inds", "message"),
        [([], [1], "k_values is"), ([0], [1], "k_values is"), ([1], [2, 2], "sample_inds is")],
    )
    def test_lists_that_cannot_be_are_refused(self, make, k_values, sample_inds, message):
        with pytest.raises(ConfigError, match=message):
            make("voc").aggregate_stats(k_values, sample_inds)

    def test_testing_before_training_is_refused(self, voc, make):
        with pytest.raises(DataError, match="sample 1 at k = 1 is not trained"):
            make("voc").test(voc[1].features, voc[1].targets, 1, 1)
