"""The low-shot protocol against the same SVMs by scikit-learn, one `LinearSVC` after another.

    python benchmarks/low_shot_sweep.py [--small]

One of the protocol's five samples: 1, 2, 4, 8, 16, 32, 64 and 96 positives and 19 times as many
negatives for each of 20 classes, at 11 costs: 1760 SVMs on rows of 2048 features, each scored on
4952 test rows. The other four are as much work again, on both sides, and share nothing with it.
Both sides use all cores, fit the same rows, and compute the same APs; ours also stores every model.
Neither cross-validates.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import joblib
import numpy as np
from _measure import peak_memory, print_claim, read_small_flag, take_turns
from _svm_data import draw_svm_data
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from assay.errors import AssayWarning
from assay.evaluate import SVMLowShotTrainer, draw_low_shot_sample, precision_recall

COSTS = (0.01, 0.1, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 50.0, 100.0, 1000.0)
# As far as LinearSVC, which stops at a tolerance, may be off the optimum that both look for.
AP_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Work:
    """What both sides do; small enough to be handed to another process."""

    num_train: int
    num_test: int
    num_features: int
    num_classes: int
    costs: tuple[float, ...]
    samples: tuple[int, ...]
    k_values: tuple[int, ...]

    @property
    def num_svms(self) -> int:
        return len(self.costs) * len(self.samples) * len(self.k_values) * self.num_classes


FULL = Work(5011, 4952, 2048, 20, COSTS, (1,), (1, 2, 4, 8, 16, 32, 64, 96))
SMALL = Work(1000, 300, 128, 5, (0.1, 1.0, 100.0), (1,), (1, 4))


@dataclass(frozen=True)
class Rows:
    """One split."""

    features: np.ndarray  # (N, D) float32, rows of unit length
    targets: np.ndarray  # (N, C) of {1, 0}


def draw_rows(work: Work) -> tuple[Rows, Rows]:
    """Rows to train on, and rows to test on."""
    data = draw_svm_data(work.num_train + work.num_test, work.num_features, work.num_classes)
    rows = data.features.astype(np.float32)
    targets = (data.labels == 1).astype(np.int64)
    cut = work.num_train
    return Rows(rows[:cut], targets[:cut]), Rows(rows[cut:], targets[cut:])


def ours(work: Work, train: Rows, test: Rows) -> np.ndarray:
    """(samples, k values, costs) mean APs by the trainer, in a folder of its own."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        config = {
            "costs": {"costs_list": list(work.costs)},
            "low_shot": {"sample_inds": list(work.samples), "k_values": list(work.k_values)},
        }
        trainer = SVMLowShotTrainer(config, "res5", folder, cross_validate=False)
        return trainer.sweep(train, test).mean_ap.swapaxes(0, 1)


def peer(work: Work, train: Rows, test: Rows) -> np.ndarray:
    """(samples, k values, costs) mean APs by scikit-learn, all cores busy."""
    test_features = test.features.astype(np.float64)
    means = []
    # Threads suffice, for LinearSVC holds no lock while it solves, and they copy no rows.
    with joblib.Parallel(n_jobs=-1, prefer="threads") as parallel:
        for number, kvalue in itertools.product(work.samples, work.k_values):
            sample = draw_low_shot_sample(train.targets, number, kvalue)
            features = train.features[sample.rows].astype(np.float64)
            aps = parallel(
                joblib.delayed(fit_and_score)(
                    features, sample.targets[:, each], cost, test_features, test.targets[:, each]
                )
                for each in range(work.num_classes)
                for cost in work.costs
            )
            means.append(np.reshape(aps, (work.num_classes, -1)).mean(axis=0))
    return np.reshape(means, (len(work.samples), len(work.k_values), -1))


def fit_and_score(
    features: np.ndarray, labels: np.ndarray, cost: float, test: np.ndarray, targets: np.ndarray
) -> float:
    drawn = labels != -1
    svc = LinearSVC(C=cost, class_weight={1: 2, 0: 1}, dual=True, max_iter=2000, random_state=0)
    svc.fit(features[drawn], labels[drawn])
    return precision_recall(targets, svc.decision_function(test)).interpolated_ap


def ours_from_seed(work: Work) -> np.ndarray:
    return ours(work, *draw_rows(work))


def peer_from_seed(work: Work) -> np.ndarray:
    return peer(work, *draw_rows(work))


def main() -> None:
    small = read_small_flag(__doc__)
    # How far the two are apart is checked below, which says more than either's warning.
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", AssayWarning)
    work = SMALL if small else FULL
    rows = draw_rows(work)
    # The smallest samples alone warm both sides up: the whole takes minutes.
    brief = replace(work, samples=work.samples[:1], k_values=work.k_values[:1])
    ours(brief, *rows), peer(brief, *rows)
    answers: dict[str, np.ndarray] = {}
    timings = take_turns(
        lambda: answers.update(ours=ours(work, *rows)),
        lambda: answers.update(peer=peer(work, *rows)),
        pairs=3,
        warm_ups=0,
    )
    apart = np.abs(answers["ours"] - answers["peer"]).max()
    print(f"mean APs are at most {apart:.1e} apart, over all samples, k values and costs")
    if apart > AP_TOLERANCE:
        sys.exit("the two sides disagree")
    memory = peak_memory(ours_from_seed, work), peak_memory(peer_from_seed, work)
    print_claim(
        f"{work.num_svms} low-shot SVMs beside LinearSVC on all cores (10 times its rate; mean AP "
        f"within {apart:.1e})",
        timings,
        unit="SVMs/s",
        amount=float(work.num_svms),
        memory=memory,
    )


if __name__ == "__main__":
    main()
