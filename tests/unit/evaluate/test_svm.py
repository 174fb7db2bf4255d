"""SVMTrainer on real digits: against scikit-learn, by its contract, and given bad input."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import LinearSVC

from assay.errors import AssayWarning, ConfigError, DataError, OutputError
from assay.evaluate import SVMTrainer, get_precision_recall

COSTS = [1.0, 0.1, 10.0]


def multi_label(targets, classes):
    return np.stack([targets == each for each in classes], axis=1).astype(np.int64)


def unit(rows):
    rows = rows.astype(np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def by_scikit_learn(rows, class_id, cost, folds=3, **options):
    """Cross-validated AP and final model, straight from scikit-learn."""
    features, labels = unit(rows.features), np.where(rows.targets == class_id, 1, -1)

    def fit(chosen):
        svc = LinearSVC(C=cost, class_weight={1: 2, -1: 1}, random_state=0, **options)
        return svc.fit(features[chosen], labels[chosen])

    aps = []
    for fitted, scored in StratifiedKFold(folds).split(features, labels):
        decision = fit(fitted).decision_function(features[scored])
        aps.append(average_precision_score(labels[scored] == 1, decision))
    return np.mean(aps), fit(np.arange(len(labels)))


@pytest.fixture(scope="module")
def trained(digits, tmp_path_factory):
    """A trainer of all ten digits, with its result."""
    trainer = SVMTrainer(
        {"costs": {"costs_list": COSTS}, "dual": False},
        "pixels",
        tmp_path_factory.mktemp("svm"),
        num_workers=1,
    )
    return trainer, trainer.evaluate(*digits)


class TestAgainstScikitLearn:
    def test_cross_validated_aps_are_those_of_linear_svc(self, digits, trained):
        _, result = trained
        for class_id in (0, 8):
            for place, cost in enumerate(COSTS):
                theirs, _ = by_scikit_learn(digits[0], class_id, cost, dual=False, max_iter=2000)
                assert result.crossval_ap[class_id, place] == pytest.approx(theirs, abs=1e-12)

    def test_the_stored_model_is_linear_svcs(self, digits, trained):
        trainer, _ = trained
        _, theirs = by_scikit_learn(digits[0], 8, 10.0, dual=False, max_iter=2000, tol=1e-9)
        ours = trainer.load_model(8, 10.0)
        np.testing.assert_allclose(ours.weights, theirs.coef_[0], rtol=1e-5, atol=1e-6)
        assert ours.bias == pytest.approx(theirs.intercept_[0], rel=1e-5)

    def test_test_aps_are_of_linear_svcs_scores_at_the_chosen_cost(self, digits, trained):
        _, result = trained
        test = digits[1]
        cost = result.chosen_cost[3]
        _, theirs = by_scikit_learn(digits[0], 3, cost, dual=False, max_iter=2000, tol=1e-9)
        scores = theirs.decision_function(unit(test.features))
        np.testing.assert_allclose(result.test_scores[:, 3], scores, rtol=1e-5, atol=1e-6)
        expected = get_precision_recall(test.targets == 3, scores)[3]
        assert result.test_ap[3] == pytest.approx(expected, abs=1e-12)

    def test_the_chosen_cost_maximises_the_cross_validated_ap(self, trained):
        _, result = trained
        for row, chosen in zip(result.crossval_ap, result.chosen_cost, strict=True):
            best = [cost for cost, ap in zip(COSTS, row, strict=True) if ap == row.max()]
            assert chosen == min(best)

    def test_the_result_has_the_documented_shapes(self, digits, trained):
        _, result = trained
        train, test = digits
        assert result.layer == "pixels"
        assert result.class_ids == tuple(range(10))
        np.testing.assert_array_equal(result.costs, COSTS)
        assert result.crossval_ap.shape == (10, 3)
        assert result.test_scores.shape == result.test_targets.shape == (400, 10)
        assert result.test_targets.dtype == np.int8
        np.testing.assert_array_equal(result.num_train_positives, np.bincount(train.targets))
        np.testing.assert_array_equal(result.num_test_positives, np.bincount(test.targets))
        assert result.mean_ap == pytest.approx(result.test_ap.mean())
        assert result.mean_ap > 0.9
        assert result.num_undefined == 0

    def test_the_files_hold_what_the_result_says(self, trained):
        trainer, result = trained

        def stored(name):
            return np.load(trainer.folder / name, allow_pickle=False)

        np.testing.assert_array_equal(stored("crossval_ap.npy"), result.crossval_ap)
        np.testing.assert_array_equal(stored("chosen_cost.npy"), result.chosen_cost)
        np.testing.assert_array_equal(stored("test_ap.npy"), result.test_ap[:, None])
        assert trainer.folder.name == "pixels"

    @pytest.mark.parametrize(
        "options",
        [
            {"loss": "squared_hinge", "penalty": "l2", "dual": True},
            {"loss": "squared_hinge", "penalty": "l1", "dual": False},
            {"loss": "hinge", "penalty": "l2", "dual": True},
        ],
    )
    def test_loss_penalty_and_form_mean_what_linear_svc_means(self, some_digits, trainer, options):
        train, _ = some_digits
        svm = trainer({"costs": {"costs_list": [1.0]}, "cross_val_folds": 2, **options})
        svm.train(train.features, train.targets)
        theirs, model = by_scikit_learn(train, 5, 1.0, folds=2, max_iter=2000, **options)
        assert np.load(svm.folder / "crossval_ap.npy")[1, 0] == pytest.approx(theirs, abs=1e-12)
        # The peer stops at its own tolerance.
        np.testing.assert_allclose(svm.load_model(5, 1.0).weights, model.coef_[0], atol=1e-4)


class TestContract:
    def test_train_then_test_give_a_column_of_aps(self, some_digits, trainer):
        train, test = some_digits
        svm = trainer()
        svm.train(train.features, train.targets)
        ap = svm.test(test.features, test.targets)
        assert ap.shape == (3, 1)
        assert ap.min() > 0.8

    def test_training_class_by_class_gives_the_same(self, some_digits, trainer):
        train, test = some_digits
        whole, single = trainer(layer="whole"), trainer(layer="single")
        whole.train(train.features, train.targets)
        for class_id in (8, 3, 5):
            single.train_cls(train.features, train.targets, class_id)
        for name in ("crossval_ap.npy", "svm.json"):
            assert (whole.folder / name).read_bytes() == (single.folder / name).read_bytes()
        np.testing.assert_array_equal(
            whole.test(test.features, test.targets), single.test(test.features, test.targets)
        )

    def test_a_class_that_is_not_there_is_named(self, some_digits, trainer):
        train, _ = some_digits
        with pytest.raises(DataError, match=r"class 4 is not among .* 3, 5, 8"):
            trainer().train_cls(train.features, train.targets, 4)

    def test_test_refuses_classes_that_are_not_trained_yet(self, some_digits, trainer):
        train, test = some_digits
        svm = trainer()
        svm.train_cls(train.features, train.targets, 5)
        with pytest.raises(DataError, match="classes 3, 8 are not trained"):
            svm.test(test.features, test.targets)

    def test_the_best_cost_is_read_from_the_matrix_and_ties_go_to_the_smaller(self, trainer):
        svm = trainer()
        matrix = [[0.9, 0.5, 0.1], [0.2, 0.7, 0.7], [0.8, 0.8, 0.8]]
        np.save(svm.folder / "crossval_ap.npy", np.array(matrix))
        np.testing.assert_array_equal(svm.get_best_cost_value(), [1.0, 0.1, 0.1])
        np.testing.assert_array_equal(np.load(svm.folder / "chosen_cost.npy"), [1.0, 0.1, 0.1])

    def test_without_training_there_is_no_best_cost_and_no_test(self, some_digits, trainer):
        _, test = some_digits
        with pytest.raises(DataError, match=r"crossval_ap\.npy is not there: train first"):
            trainer().get_best_cost_value()
        with pytest.raises(DataError, match="train first"):
            trainer().test(test.features, test.targets)

    @pytest.mark.parametrize("matrix", [[[0.5, np.nan, 0.1]], [0.5, 0.1, 0.1], [[0.5, 0.1]]])
    def test_a_matrix_that_cannot_be_ours_is_refused(self, trainer, matrix):
        svm = trainer()
        np.save(svm.folder / "crossval_ap.npy", np.array(matrix))
        with pytest.raises(DataError, match=r"crossval_ap\.npy .* train again"):
            svm.get_best_cost_value()

    def test_class_ids_need_not_count_from_zero(self, some_digits, trainer):
        train, test = some_digits
        result = trainer().evaluate(
            train, SimpleNamespace(features=test.features, targets=test.targets[:, None])
        )
        assert result.class_ids == (3, 5, 8)

    def test_cls_list_selects_classes_in_its_order(self, some_digits, trainer):
        train, test = some_digits
        every = trainer(layer="all").evaluate(train, test)
        some = trainer({"cls_list": [8, 3, 8]}, layer="some").evaluate(train, test)
        assert some.class_ids == (8, 3)
        np.testing.assert_array_equal(some.crossval_ap, every.crossval_ap[[2, 0]])
        np.testing.assert_array_equal(some.test_ap, every.test_ap[[2, 0]])

    def test_several_labels_a_row_train_as_single_ones_do(self, some_digits, trainer):
        single = trainer(layer="single").evaluate(*some_digits)
        several = trainer(layer="several").evaluate(
            *(
                SimpleNamespace(
                    features=each.features, targets=multi_label(each.targets, [3, 5, 8])
                )
                for each in some_digits
            )
        )
        assert several.class_ids == (0, 1, 2)
        np.testing.assert_array_equal(several.crossval_ap, single.crossval_ap)
        np.testing.assert_array_equal(several.test_ap, single.test_ap)

    def test_progress_adds_up_to_the_fits_counted(self, some_digits, trainer):
        train, _ = some_digits
        steps = []
        svm = trainer()
        assert svm.count_fits(train.targets) == 3 * 3 * 4
        svm.train(train.features, train.targets, progress=steps.append)
        assert sum(steps) == 36
        steps.clear()
        svm.train(train.features, train.targets, progress=steps.append)
        assert steps == [36]

    @pytest.mark.parametrize(
        ("loss", "apart"),
        [
            ("squared_hinge", 1e-6),
            # LinearSVC draws at random: only processes of their own keep it repeatable.
            ("hinge", 0),
        ],
    )
    def test_more_cores_give_the_same(self, some_digits, tmp_path, loss, apart):
        train, _ = some_digits
        costs = {"costs_list": [1.0]}
        config = {"costs": costs, "cross_val_folds": 2, "cls_list": [5, 8], "loss": loss}
        for workers in (1, 2):
            SVMTrainer(config, "layer4", tmp_path / str(workers), num_workers=workers).train(
                train.features, train.targets
            )
        one, two = (tmp_path / str(workers) / "layer4" for workers in (1, 2))
        assert (one / "crossval_ap.npy").read_bytes() == (two / "crossval_ap.npy").read_bytes()
        with np.load(one / "models/class_5.npz") as a, np.load(two / "models/class_5.npz") as b:
            np.testing.assert_allclose(a["weights"], b["weights"], rtol=0, atol=apart)


class TestIgnoredLabels:
    @pytest.fixture
    def labelled(self, some_digits):
        """Training rows in columns 3, 5, 8; every tenth row is ignored for the digit 5."""
        train, test = some_digits
        columns = multi_label(train.targets, [3, 5, 8])
        columns[::10, 1] = -1
        return train.features, columns, test.features, multi_label(test.targets, [3, 5, 8])

    def test_training_rows_count_as_negatives_by_default(self, labelled, trainer):
        features, columns, *_ = labelled
        ignoring, plain = trainer(layer="ignoring"), trainer(layer="plain")
        ignoring.train(features, columns)
        plain.train(features, np.where(columns == -1, 0, columns))
        np.testing.assert_array_equal(
            ignoring.load_model(1, 1.0).weights, plain.load_model(1, 1.0).weights
        )

    def test_training_rows_are_left_out_on_request(self, labelled, trainer):
        features, columns, *_ = labelled
        ignoring, without = trainer(ignore_label="drop"), trainer(layer="without")
        ignoring.train(features, columns)
        kept = columns[:, 1] != -1
        without.train(features[kept], columns[kept])
        for cost in COSTS:
            np.testing.assert_allclose(
                ignoring.load_model(1, cost).weights,
                without.load_model(1, cost).weights,
                atol=1e-6,
            )

    def test_an_ignored_single_label_is_ignored_for_every_class(self, some_digits, trainer):
        train, _ = some_digits
        targets = np.where(np.arange(len(train.targets)) % 10, train.targets, -1)
        ignoring, without = trainer(ignore_label="drop"), trainer(layer="without")
        ignoring.train(train.features, targets)
        without.train(train.features[targets != -1], targets[targets != -1])
        np.testing.assert_array_equal(
            np.load(ignoring.folder / "crossval_ap.npy"),
            np.load(without.folder / "crossval_ap.npy"),
        )

    def test_test_rows_never_count_for_the_class_that_ignores_them(self, labelled, trainer):
        features, columns, test_features, test_columns = labelled
        svm = trainer()
        svm.train(features, columns)
        marked = test_columns.copy()
        marked[:40, 1] = -1
        everything = svm.test(test_features, test_columns)
        ignoring = svm.test(test_features, marked)
        np.testing.assert_array_equal(ignoring[[0, 2]], everything[[0, 2]])
        assert ignoring[1] == svm.test(test_features[40:], test_columns[40:])[1]


class TestUndefinedClasses:
    def test_a_class_without_positive_test_rows_is_nan_warned_of_and_counted(
        self, some_digits, trainer
    ):
        train, test = some_digits
        kept = test.targets != 5
        rows = SimpleNamespace(features=test.features[kept], targets=test.targets[kept])
        svm = trainer()
        with pytest.warns(AssayWarning, match=r"1 of 3 classes have no positive test row \(5\)"):
            result = svm.evaluate(train, rows)
        assert np.isnan(result.test_ap).tolist() == [False, True, False]
        assert result.mean_ap == pytest.approx(result.test_ap[[0, 2]].mean())
        assert result.num_undefined == 1
        np.testing.assert_array_equal(np.load(svm.folder / "test_ap.npy")[:, 0], result.test_ap)

    def test_test_classes_that_were_not_trained_are_named(self, digits, some_digits, trainer):
        train, _ = some_digits
        svm = trainer()
        svm.train(train.features, train.targets)
        with pytest.warns(AssayWarning, match=r"7 classes that no training row shows \(0, 1"):
            svm.test(digits[1].features, digits[1].targets)

    def test_fits_that_do_not_converge_are_counted_in_one_warning(self, some_digits, trainer):
        train, _ = some_digits
        svm = trainer({"max_iter": 1, "dual": True})
        with pytest.warns(AssayWarning) as caught:
            svm.train(train.features, train.targets)
        assert len(caught) == 1
        assert re.search(r" \d+ of 36 SVM fits stopped at max_iter=1 ", str(caught[0].message))
        assert caught[0].filename == __file__


class TestFeatures:
    @pytest.mark.parametrize(
        "convert",
        [
            np.float64,
            np.float16,
            np.uint8,
            np.asfortranarray,
            lambda rows: np.repeat(rows, 2, axis=1)[:, ::2],
            lambda rows: rows[::-1].copy()[::-1],
            torch.from_numpy,
            lambda rows: torch.from_numpy(rows).bfloat16().requires_grad_(),
        ],
    )
    def test_any_real_type_and_layout_give_the_same(self, some_digits, trainer, convert):
        # Pixels are whole numbers up to 16: each of these types holds them exactly.
        train, test = some_digits
        plain = trainer(layer="plain").evaluate(train, test)
        converted = trainer(layer="converted").evaluate(
            *(
                SimpleNamespace(features=convert(rows.features), targets=rows.targets)
                for rows in (train, test)
            )
        )
        np.testing.assert_array_equal(plain.test_scores, converted.test_scores)

    def test_rows_have_unit_length_only_if_normalised(self, some_digits, trainer):
        train, test = some_digits
        scales = np.linspace(0.5, 2.0, len(train.targets), dtype=np.float32)[:, None]
        scaled = SimpleNamespace(features=train.features * scales, targets=train.targets)
        for normalize, agrees in ((True, True), (False, False)):
            config = {"normalize": normalize, "costs": {"costs_list": [0.01]}}
            plain = trainer(config, layer="plain").evaluate(train, test)
            other = trainer(config, layer="scaled").evaluate(scaled, test)
            assert np.allclose(plain.test_scores, other.test_scores, rtol=1e-4) == agrees

    def test_rows_of_zeros_stay_zeros_and_score_the_bias(self, some_digits, trainer):
        train, test = some_digits
        features = train.features.copy()
        features[::20] = 0
        result = trainer().evaluate(
            SimpleNamespace(features=features, targets=train.targets),
            SimpleNamespace(features=test.features * 0, targets=test.targets),
        )
        svm = trainer()
        biases = [
            svm.load_model(class_id, cost).bias
            for class_id, cost in zip(result.class_ids, result.chosen_cost, strict=True)
        ]
        np.testing.assert_array_equal(result.test_scores, np.tile(biases, (len(test.targets), 1)))

    def test_the_callers_arrays_stay_as_they_are(self, some_digits, trainer):
        train, test = some_digits
        config = {"costs": {"costs_list": [1.0], "base": 10.0, "power_range": [0, 2]}}
        before = [train.features.copy(), train.targets.copy()]
        trainer(config).evaluate(train, test)
        np.testing.assert_array_equal(train.features, before[0])
        np.testing.assert_array_equal(train.targets, before[1])
        assert config == {"costs": {"costs_list": [1.0], "base": 10.0, "power_range": [0, 2]}}

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            (lambda f, t: (f[:-1], t), "rows of features but .* of targets"),
            (lambda f, t: (f[:, 0], t), r"shape \(181,\)"),
            (lambda f, t: (f[:0], t[:0]), r"shape \(0, 64\)"),
            (lambda f, t: (f.reshape(-1, 8, 8), t), "pool or flatten"),
            (lambda f, t: (f.astype(complex), t), "real numbers"),
            (lambda f, t: (f.astype(str), t), "real numbers"),
            (lambda f, t: (np.where(np.arange(64) == 3, np.nan, f), t), "in 181 of 181 rows"),
            (lambda f, t: (np.where(f == f.max(), np.inf, f), t), "NaN or infinity"),
            (lambda f, t: (f, t + 0.5), "labels are whole numbers"),
            (lambda f, t: (f, np.full_like(t, -1)), "no class to train"),
        ],
    )
    def test_what_cannot_be_trained_on_is_refused(self, some_digits, trainer, change, said):
        train, _ = some_digits
        svm = trainer()
        with pytest.raises(DataError, match=said):
            svm.train(*change(train.features, train.targets))
        assert not list(svm.folder.iterdir())

    def test_nan_rows_are_named(self, some_digits, trainer):
        train, _ = some_digits
        features = train.features.copy()
        features[[3, 17], 5] = np.nan
        with pytest.raises(DataError, match=r"in 2 of 181 rows \(3, 17\)"):
            trainer().train(features, train.targets)

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            (lambda f, t: (f[:, :60], t), "60 columns but the SVMs were trained on 64"),
            (lambda f, t: (f, t[:-1]), "do not fit together"),
            (lambda f, t: (f, multi_label(t, [3, 5])), "one column a class but the training"),
        ],
    )
    def test_test_rows_that_do_not_fit_are_refused(self, some_digits, trainer, change, said):
        train, test = some_digits
        svm = trainer()
        svm.train(train.features, train.targets)
        with pytest.raises(DataError, match=said):
            svm.test(*change(test.features, test.targets))
        assert not (svm.folder / "test_ap.npy").exists()

    def test_test_labels_of_another_width_are_refused(self, some_digits, trainer):
        train, test = some_digits
        svm = trainer()
        svm.train(train.features, multi_label(train.targets, [3, 5, 8]))
        with pytest.raises(DataError, match="2 columns but the training targets had 3"):
            svm.test(test.features, multi_label(test.targets, [3, 5]))


class TestClassesThatCannotBeTrained:
    def test_fewer_positives_than_folds_name_every_such_class(self, some_digits, trainer):
        train, _ = some_digits
        targets = train.targets.copy()
        targets[:2], targets[2:4] = 70, 71
        with pytest.raises(DataError) as caught:
            trainer().train(train.features, targets)
        message = str(caught.value)
        assert "class 70 has 2 positive training rows, fewer than the 3 folds" in message
        assert "class 71 has 2 positive" in message
        assert "class 3 " not in message
        assert "cross_val_folds" in message

    def test_they_can_be_left_out(self, some_digits, trainer):
        train, _ = some_digits
        targets = train.targets.copy()
        targets[:2] = 70
        svm = trainer({"cls_list": [3, 5]})
        svm.train(train.features, targets)
        assert len(svm.get_best_cost_value()) == 2

    def test_one_class_only_is_refused(self, some_digits, trainer):
        train, _ = some_digits
        with pytest.raises(DataError, match="class 6 is shown by all 181 training rows"):
            trainer().train(train.features, np.full(len(train.targets), 6))

    def test_a_column_without_positives_is_refused(self, some_digits, trainer):
        train, _ = some_digits
        with pytest.raises(DataError, match="class 1 has 0 positive"):
            trainer().train(train.features, multi_label(train.targets, [3, 4, 8]))

    def test_rows_that_are_dropped_do_not_count(self, some_digits, trainer):
        train, _ = some_digits
        columns = multi_label(train.targets, [3, 5, 8])
        columns[columns[:, 0] == 0, 0] = -1
        trainer().train(train.features, columns)
        with pytest.raises(DataError, match="class 0 is shown by all"):
            trainer(ignore_label="drop").train(train.features, columns)

    def test_a_class_that_the_labels_lack_is_named(self, some_digits, trainer):
        train, _ = some_digits
        with pytest.raises(ConfigError, match=r"lack: 4, 9\. They have 3, 5, 8"):
            trainer({"cls_list": [9, 3, 4]}).train(train.features, train.targets)


class TestFiles:
    @pytest.mark.parametrize("layer", ["_blocks.10", "trunk res5 avg", "层"])
    def test_odd_layer_names_name_folders(self, tmp_path, layer):
        assert SVMTrainer({}, layer, str(tmp_path)).folder == tmp_path / layer

    @pytest.mark.parametrize("layer", ["", ".", ".."])
    def test_layer_names_that_lead_elsewhere_are_refused(self, tmp_path, layer):
        with pytest.raises(ConfigError, match="cannot name a folder"):
            SVMTrainer({}, layer, tmp_path)

    @pytest.mark.parametrize("layer", ["../other", "a/b", "a\\b", "a\0", "deep." * 60])
    def test_layer_names_that_no_folder_can_have_name_one_right_below(self, tmp_path, layer):
        folder = SVMTrainer({}, layer, tmp_path).folder
        assert folder.is_dir()
        assert folder.parent == tmp_path

    def test_a_folder_that_cannot_be_made_is_an_output_error(self, tmp_path):
        (tmp_path / "svm").write_text("in the way")
        with pytest.raises(OutputError, match="svm"):
            SVMTrainer({}, "layer4", tmp_path / "svm")

    def test_input_files_are_read_and_mapped(self, some_digits, trainer, tmp_path):
        train, _ = some_digits
        np.save(tmp_path / "features.npy", train.features.astype(np.float16))
        np.save(tmp_path / "targets.npy", train.targets[:, None])
        features, targets = trainer().load_input_data(
            tmp_path / "features.npy", str(tmp_path / "targets.npy")
        )
        assert isinstance(features, np.memmap)
        assert features.dtype == np.float16
        np.testing.assert_array_equal(features, train.features)
        np.testing.assert_array_equal(targets, train.targets)

    def test_mapped_files_train_like_arrays(self, some_digits, trainer, tmp_path):
        train, _ = some_digits
        np.save(tmp_path / "features.npy", train.features)
        np.save(tmp_path / "targets.npy", train.targets)
        mapped, plain = trainer(layer="mapped"), trainer(layer="plain")
        mapped.train(*mapped.load_input_data(tmp_path / "features.npy", tmp_path / "targets.npy"))
        plain.train(train.features, train.targets)
        for name in ("crossval_ap.npy", "svm.json"):
            assert (mapped.folder / name).read_bytes() == (plain.folder / name).read_bytes()

    def test_input_files_that_cannot_be_used_are_named(self, some_digits, trainer, tmp_path):
        train, _ = some_digits
        np.save(tmp_path / "features.npy", train.features)
        np.save(tmp_path / "short.npy", train.targets[:-1])
        np.save(tmp_path / "objects.npy", np.array([print, {}]), allow_pickle=True)
        np.savez(tmp_path / "archive.npz", train.targets)
        (tmp_path / "broken.npy").write_bytes((tmp_path / "features.npy").read_bytes()[:1000])
        (tmp_path / "text.npy").write_text("0 1 2")
        svm = trainer()
        for name, said in (
            ("missing.npy", "is not there"),
            ("short.npy", "180 of targets"),
            ("objects.npy", "cannot be read"),
            ("archive.npz", "is an archive"),
            ("broken.npy", "cannot be read"),
            ("text.npy", "cannot be read"),
        ):
            with pytest.raises(DataError, match=rf"{name}.*{said}"):
                svm.load_input_data(tmp_path / "features.npy", tmp_path / name)
