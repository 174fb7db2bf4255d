"""What low-shot training leaves on disk.

::

    {output_dir}/{layer}/
      test_ap_sample{S}_k{K}.npy    (1, costs) float64, mean test AP over classes
      test_ap_mean.npy              (k values, costs) over samples; also _max, _min, _std
      low_shot/sample{S}_k{K}/
        models/class_{id}.npz       as in :mod:`assay.evaluate.svm_store`: every cost of a class
        svm.json                    what was trained on what
        crossval_ap.npy             (classes, costs), NaN where k is below the folds
        test_ap.npy                 (classes, costs)
        tested.json                 which training was tested on what; written last

Every file is written whole or not at all, and nothing in them is executed when they are read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from assay._atomic import explain_os_errors, write_json
from assay.errors import DataError
from assay.evaluate.svm_store import SVMStore, TrainingRecord

__all__ = ["STATISTICS", "LowShotStore", "TestedSample", "common_classes"]

STATISTICS = ("mean", "max", "min", "std")

_SCHEMA = 1


@dataclass(frozen=True)
class TestedSample:
    """What one sample and k came to, on which test rows."""

    test_ap: NDArray[np.float64]  # (C, K)
    crossval_ap: NDArray[np.float64]  # (C, K)
    test_digest: str  # of the test rows and their labels


class LowShotStore:
    """Reads and writes the low-shot results in the folder of one layer.

    Args:
        folder: ``{output_dir}/{layer}``, which is there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._layer = SVMStore(folder.parent, folder.name)

    def sample_folder(self, sample_num: int, kvalue: int) -> Path:
        """The folder of one sample and k; it need not be there."""
        return self.folder / "low_shot" / _name(sample_num, kvalue)

    def of_sample(self, sample_num: int, kvalue: int) -> SVMStore:
        """Where the models of one sample and k stand; the folder is made."""
        return SVMStore(self.folder / "low_shot", _name(sample_num, kvalue))

    def forget_tests(self, sample_num: int, kvalue: int) -> None:
        """Delete the test results of one sample and k, and all that was made of them."""
        of_sample = self.sample_folder(sample_num, kvalue)
        paths = [of_sample / "tested.json", of_sample / "test_ap.npy"]
        paths += [self.folder / f"test_ap_{_name(sample_num, kvalue)}.npy"]
        paths += [self.folder / f"test_ap_{statistic}.npy" for statistic in STATISTICS]
        for path in paths:
            with explain_os_errors(path):
                path.unlink(missing_ok=True)

    def save_test(
        self,
        sample_num: int,
        kvalue: int,
        record: TrainingRecord,
        test_ap: NDArray[np.float64],
        mean_ap: NDArray[np.float64],
        test_digest: str,
    ) -> None:
        """Write ``test_ap`` (C, K) and ``mean_ap`` (1, K) of the models of ``record``."""
        store = self.of_sample(sample_num, kvalue)
        store.save_array("test_ap.npy", test_ap)
        self._layer.save_array(f"test_ap_{_name(sample_num, kvalue)}.npy", mean_ap)
        write_json(
            store.folder / "tested.json",
            {"schema": _SCHEMA, "trained": record.fingerprints, "test_digest": test_digest},
        )

    def load_test(self, sample_num: int, kvalue: int, record: TrainingRecord) -> TestedSample:
        """What :meth:`save_test` wrote for these models.

        Raises:
            DataError: nothing was, it was for other models, or a file is damaged.
        """
        folder = self.sample_folder(sample_num, kvalue)
        untested = (
            f"sample {sample_num} at k = {kvalue} is trained but not tested ({folder}): test it."
        )
        try:
            document = json.loads((folder / "tested.json").read_text(encoding="utf-8"))
            if document["schema"] != _SCHEMA:
                raise ValueError("it is of another version")
            if tuple(document["trained"]) != record.fingerprints:
                raise DataError(untested)
            return TestedSample(
                test_ap=_load_matrix(folder / "test_ap.npy", record),
                crossval_ap=_load_matrix(folder / "crossval_ap.npy", record),
                test_digest=str(document["test_digest"]),
            )
        except FileNotFoundError as error:
            raise DataError(untested) from error
        except DataError:
            raise
        except (ValueError, KeyError, TypeError, EOFError) as error:
            raise DataError(f"{folder}: its test cannot be read ({error}): test again.") from error

    def save_statistic(self, statistic: str, matrix: NDArray[np.float64]) -> None:
        """Write one of :data:`STATISTICS`, (k values, costs)."""
        self._layer.save_array(f"test_ap_{statistic}.npy", matrix)


def common_classes(
    tested: Mapping[tuple[int, int], tuple[TrainingRecord, TestedSample]],
) -> tuple[int, ...]:
    """The classes of all trainings, by (k, sample number).

    Raises:
        DataError: one was trained on other classes or tested on other rows than the first.
    """
    (first_key, (first, first_test)), *others = tested.items()
    for key, (record, test) in others:
        differs = None
        if record.class_ids != first.class_ids:
            differs = "trained on other classes"
        elif test.test_digest != first_test.test_digest:
            differs = "tested on other rows or labels"
        if differs:
            raise DataError(
                f"sample {key[1]} at k = {key[0]} was {differs} than sample {first_key[1]} at k = "
                f"{first_key[0]}: train and test all of them alike."
            )
    return first.class_ids


def _name(sample_num: int, kvalue: int) -> str:
    return f"sample{sample_num}_k{kvalue}"


def _load_matrix(path: Path, record: TrainingRecord) -> NDArray[np.float64]:
    matrix = np.load(path, allow_pickle=False)
    if matrix.shape != (len(record.class_ids), len(record.settings["costs"])):
        raise ValueError(f"{path.name} has the shape {matrix.shape}")
    return np.asarray(matrix, np.float64)
