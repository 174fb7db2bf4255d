"""What a training takes over from an earlier one, and what it must not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from assay.errors import AssayWarning, DataError
from assay.evaluate import SVMTrainer
from assay.evaluate.svm_store import SVMStore

FITS_PER_CLASS = 3 * (3 + 1)


class Kill(BaseException):
    """Ends a training as Ctrl-C does."""


@pytest.fixture
def train_counting(fits_made):
    """Train; returns how many fits were taken over and how many were made."""

    def train(svm, rows):
        steps = []
        with fits_made() as made:
            svm.train(rows.features, rows.targets, progress=steps.append)
        return sum(steps) - sum(made), sum(made)

    return train


def train_until(svm, rows, fits):
    """Train and stop after so many fits or some more."""
    done = []

    def progress(count):
        done.append(count)
        if sum(done) >= fits:
            raise Kill

    with pytest.raises(Kill):
        svm.train(rows.features, rows.targets, progress=progress)


class TestInterruption:
    def test_a_stopped_run_goes_on_and_gives_what_a_fresh_one_gives(
        self, some_digits, trainer, train_counting, class_by_class
    ):
        train, test = some_digits
        stopped, fresh = trainer(layer="stopped"), trainer(layer="fresh")
        train_until(stopped, train, fits=2 * FITS_PER_CLASS + 5)
        assert train_counting(trainer(layer="stopped"), train) == (
            2 * FITS_PER_CLASS,
            FITS_PER_CLASS,
        )
        fresh.train(train.features, train.targets)
        for name in ("crossval_ap.npy", "svm.json"):
            assert (stopped.folder / name).read_bytes() == (fresh.folder / name).read_bytes()
        np.testing.assert_array_equal(
            trainer(layer="stopped").test(test.features, test.targets),
            fresh.test(test.features, test.targets),
        )

    def test_a_stopped_run_leaves_nothing_that_passes_for_a_result(
        self, some_digits, trainer, class_by_class
    ):
        train, test = some_digits
        svm = trainer()
        svm.evaluate(train, test)
        train_until(trainer({"force_retrain": True}), train, fits=FITS_PER_CLASS + 5)
        assert [path.name for path in svm.folder.iterdir()] == ["models"]
        with pytest.raises(DataError, match="train first"):
            trainer().test(test.features, test.targets)

    def test_a_killed_process_leaves_only_whole_classes(
        self, some_digits, trainer, tmp_path, train_counting, class_by_class
    ):
        train, _ = some_digits
        np.savez(tmp_path / "rows.npz", features=train.features, targets=train.targets)
        script = textwrap.dedent(f"""
            import os, signal, numpy as np
            from assay.evaluate import SVMTrainer, svm_stored_training
            svm_stored_training.problems_at_once = lambda *_: 1
            rows = np.load({str(tmp_path / "rows.npz")!r})
            svm = SVMTrainer(
                {{"costs": {{"costs_list": [1.0, 0.1, 10.0]}}, "dual": False}},
                "layer4", {str(tmp_path / "svm")!r}, num_workers=1)
            fits = []
            def progress(count):
                fits.append(count)
                if sum(fits) >= {FITS_PER_CLASS + 5}:
                    os.kill(os.getpid(), signal.SIGKILL)
            svm.train(rows["features"], rows["targets"], progress=progress)
        """)
        killed = subprocess.run([sys.executable, "-c", script], timeout=300, check=False)
        assert killed.returncode == -signal.SIGKILL
        assert train_counting(trainer(), train) == (FITS_PER_CLASS, 2 * FITS_PER_CLASS)
        fresh = trainer(layer="fresh")
        fresh.train(train.features, train.targets)
        assert (fresh.folder / "crossval_ap.npy").read_bytes() == (
            tmp_path / "svm" / "layer4" / "crossval_ap.npy"
        ).read_bytes()

    def test_a_full_disk_leaves_no_half_file(
        self, some_digits, trainer, monkeypatch, train_counting
    ):
        train, _ = some_digits

        def full(*_, **__):
            raise OSError(28, "No space left on device")

        svm = trainer()
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match=r"class_3\.npz: cannot write: .*free some space"):
            svm.train(train.features, train.targets)
        monkeypatch.undo()
        assert not list((svm.folder / "models").iterdir())
        assert train_counting(svm, train) == (0, 3 * FITS_PER_CLASS)


class TestReuse:
    @pytest.fixture
    def trained(self, some_digits, trainer):
        """A folder with a whole training."""
        train, _ = some_digits
        svm = trainer()
        svm.train(train.features, train.targets)
        return svm

    def test_the_same_again_is_taken_over(self, some_digits, trainer, trained, train_counting):
        assert train_counting(trainer(), some_digits[0]) == (3 * FITS_PER_CLASS, 0)

    def test_force_retrain_takes_nothing_over(self, some_digits, trainer, trained, train_counting):
        svm = trainer({"force_retrain": True})
        assert train_counting(svm, some_digits[0]) == (0, 3 * FITS_PER_CLASS)

    @pytest.mark.parametrize(
        "change",
        [
            lambda rows: (rows.features + np.eye(1, 64, dtype=np.float32) * 1e-3, rows.targets),
            lambda rows: (rows.features[:-1], rows.targets[:-1]),
            lambda rows: (rows.features[::-1], rows.targets[::-1]),
            lambda rows: (rows.features[:, ::-1], rows.targets),
        ],
    )
    def test_other_features_take_nothing_over(
        self, some_digits, trainer, trained, change, train_counting
    ):
        features, targets = change(some_digits[0])
        rows = SimpleNamespace(features=features, targets=targets)
        assert train_counting(trainer(), rows) == (0, 3 * FITS_PER_CLASS)

    def test_other_labels_take_over_the_classes_whose_labels_stay(
        self, some_digits, trainer, trained, train_counting
    ):
        train, _ = some_digits
        targets = np.where(train.targets == 8, 9, train.targets)
        targets[np.flatnonzero(targets == 5)[0]] = 9
        rows = SimpleNamespace(features=train.features, targets=targets)
        assert train_counting(trainer(), rows) == (FITS_PER_CLASS, 2 * FITS_PER_CLASS)
        assert trainer().load_model(9, 1.0).class_id == 9

    @pytest.mark.parametrize(
        "change",
        [
            {"normalize": False},
            {"max_iter": 1999},
            {"penalty": "l1", "max_iter": 100_000},
            {"costs": {"costs_list": [1.0, 0.1, 20.0]}},
            {"costs": {"costs_list": [0.1, 1.0, 10.0]}},
        ],
    )
    def test_other_settings_take_nothing_over(
        self, some_digits, trainer, trained, change, train_counting
    ):
        with pytest.raises(DataError, match="trained with other settings"):
            trainer(change).get_best_cost_value()
        with pytest.raises(DataError, match="trained with other settings"):
            trainer(change).test(some_digits[1].features, some_digits[1].targets)
        assert train_counting(trainer(change), some_digits[0]) == (0, 3 * FITS_PER_CLASS)

    def test_another_meaning_of_ignored_labels_takes_nothing_over(
        self, some_digits, trainer, trained, train_counting
    ):
        svm = trainer(ignore_label="drop")
        assert train_counting(svm, some_digits[0]) == (0, 3 * FITS_PER_CLASS)

    def test_a_longer_class_list_takes_over_what_is_there(
        self, some_digits, trainer, train_counting
    ):
        train, _ = some_digits
        trainer({"cls_list": [5]}).train(train.features, train.targets)
        svm = trainer({"cls_list": [8, 5]})
        assert train_counting(svm, train) == (FITS_PER_CLASS, FITS_PER_CLASS)
        assert np.load(svm.folder / "crossval_ap.npy").shape == (2, 3)

    def test_training_again_removes_the_test_results_before(self, some_digits, trainer, trained):
        train, test = some_digits
        trained.test(test.features, test.targets)
        trained.train(train.features, train.targets)
        assert {path.name for path in trained.folder.iterdir()} == {
            "models",
            "svm.json",
            "crossval_ap.npy",
        }

    @pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 no archive", None])
    def test_a_damaged_class_is_said_and_trained_again(
        self, some_digits, trainer, trained, damage, train_counting
    ):
        path = trained.folder / "models" / "class_5.npz"
        path.write_bytes(path.read_bytes()[:-200] if damage is None else damage)
        with pytest.warns(AssayWarning, match=r"class_5\.npz is damaged"):
            taken_over, made = train_counting(trainer(), some_digits[0])
        assert (taken_over, made) == (2 * FITS_PER_CLASS, FITS_PER_CLASS)

    def test_a_class_that_is_damaged_anywhere_is_trained_again_or_what_it_was(self, trained):
        path = trained.folder / "models" / "class_5.npz"
        store = SVMStore(trained.folder.parent, trained.folder.name)
        fingerprint = store.record().fingerprint_of[5]
        whole, models = path.read_bytes(), store.load_class(5, fingerprint)
        generator = np.random.default_rng(0)
        for _ in range(300):
            content = bytearray(whole[: generator.integers(len(whole) + 1)] or whole)
            for place in generator.integers(len(content), size=generator.integers(4)):
                content[place] = generator.integers(256)
            path.write_bytes(content)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AssayWarning)
                loaded = store.load_class(5, fingerprint)
            assert loaded is None or np.array_equal(loaded.weights, models.weights)

    @pytest.mark.parametrize(
        "changes",
        [
            {"class_id": np.array([5, 5])},
            {"costs": np.array([0.1])},
            {"weights": np.array(0.5)},
            {"weights": np.full((3, 64), "a")},
            {"biases": np.zeros((3, 1))},
            {"fingerprint": np.array(["a", "b"])},
        ],
    )
    def test_a_class_whose_arrays_do_not_fit_is_not_loaded(self, trained, changes):
        path = trained.folder / "models" / "class_5.npz"
        store = SVMStore(trained.folder.parent, trained.folder.name)
        fingerprint = store.record().fingerprint_of[5]
        np.savez(path, **{**np.load(path), **changes})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AssayWarning)
            assert store.load_class(5, fingerprint) is None

    @pytest.mark.parametrize("name", ["svm.json", "crossval_ap.npy"])
    def test_a_result_that_is_no_file_is_an_error_that_names_it(
        self, some_digits, trainer, trained, name
    ):
        (trained.folder / name).unlink()
        (trained.folder / name).mkdir()
        with pytest.raises(DataError, match=rf"{name} cannot be read"):
            trainer().test(some_digits[1].features, some_digits[1].targets)

    def test_a_lost_class_is_missed_when_testing(self, some_digits, trainer, trained):
        (trained.folder / "models" / "class_5.npz").unlink()
        with pytest.raises(DataError, match="lost the models of class 5"):
            trainer().test(some_digits[1].features, some_digits[1].targets)

    @pytest.mark.parametrize(
        "text", ["", "{}", "[]", '{"schema": 99}', '{"schema": 1, "class_ids": 1e400}', "[" * 10**5]
    )
    def test_a_damaged_record_is_refused_until_trained_again(
        self, some_digits, trainer, trained, text, train_counting
    ):
        train, test = some_digits
        (trained.folder / "svm.json").write_text(text)
        with pytest.raises(DataError, match=r"svm\.json cannot be read"):
            trainer().test(test.features, test.targets)
        assert train_counting(trainer(), train) == (3 * FITS_PER_CLASS, 0)
        trainer().test(test.features, test.targets)

    def test_nothing_that_is_stored_needs_pickle(self, trained):
        for path in trained.folder.rglob("*.np[yz]"):
            loaded = np.load(path, allow_pickle=False)
            assert isinstance(loaded, np.ndarray) or all(
                loaded[key].dtype != object for key in loaded
            )

    def test_one_model_is_loaded_by_class_and_cost(self, some_digits, trained):
        train, _ = some_digits
        model = trained.load_model(5, 0.1)
        assert (model.class_id, model.cost, model.weights.shape) == (5, 0.1, (64,))
        rows = train.features / np.linalg.norm(train.features, axis=1, keepdims=True)
        scores = rows @ model.weights + model.bias
        assert scores[train.targets == 5].mean() > scores[train.targets != 5].mean()

    def test_a_model_that_is_not_there_is_refused(self, trained):
        with pytest.raises(DataError, match="class 4 is not trained: 3, 5, 8 are"):
            trained.load_model(4, 1.0)
        with pytest.raises(DataError, match=r"at cost 2: there are \[1\.0, 0\.1, 10\.0\]"):
            trained.load_model(5, 2.0)

    def test_layers_do_not_share_results(self, some_digits, trainer, trained, train_counting):
        assert train_counting(trainer(layer="layer3"), some_digits[0]) == (0, 3 * FITS_PER_CLASS)


def test_evaluating_loads_no_scikit_learn_before_it_trains():
    script = (
        "import sys, assay.evaluate; assert 'numpy' not in sys.modules; "
        "import assay.evaluate.svm; assert not {'sklearn', 'torch', 'joblib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    assert SVMTrainer.__module__ == "assay.evaluate.svm"
