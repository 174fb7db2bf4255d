"""What each test image scored in one layer of a run, kept so that runs can be compared later."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay._atomic import atomic_path, make_folder
from assay.errors import DataError
from assay.features.npy_reading import read_npz

__all__ = ["SCORES_NAME", "StoredScores", "load_scores", "save_scores"]

SCORES_NAME = "test_scores.npz"


@dataclass(frozen=True)
class StoredScores:
    """The scores of N test images for C classes, or whether each of them was classified rightly."""

    scores: NDArray[
        np.float64
    ]  # (N, C) higher = more of the class; or (N,) of {1, 0}: right, wrong
    targets: NDArray[np.int64]  # (N, C) of {1, 0, -1}, -1 = ignored; or (N,) class ids
    inds: NDArray[np.int64]  # (N,) index of the test set, rising
    class_ids: NDArray[np.int64]  # (C,)


def save_scores(folder: Path, stored: StoredScores) -> None:
    """Write ``test_scores.npz`` to ``folder``, whole or not at all.

    Raises:
        OutputError: it cannot be written.
    """
    with atomic_path(make_folder(folder) / SCORES_NAME) as partial:
        np.savez(
            partial,
            scores=stored.scores,
            targets=stored.targets,
            inds=stored.inds,
            class_ids=stored.class_ids,
        )


def load_scores(folder: Path) -> StoredScores:
    """Read ``test_scores.npz``; nothing in it is executed.

    Raises:
        DataError: the file is missing or damaged.
    """
    path = folder / SCORES_NAME
    try:
        arrays = read_npz(path)
        stored = StoredScores(
            scores=np.asarray(arrays["scores"], np.float64),
            targets=np.asarray(arrays["targets"], np.int64),
            inds=np.asarray(arrays["inds"], np.int64),
            class_ids=np.asarray(arrays["class_ids"], np.int64),
        )
    except FileNotFoundError as error:
        raise DataError(
            f"{path} is not there: run the command of that run again; it is written beside the "
            f"results."
        ) from error
    except (OSError, ValueError, KeyError) as error:
        raise _damaged(path, error) from error
    if stored.scores.shape != stored.targets.shape or len(stored.scores) != len(stored.inds):
        raise _damaged(path, "its arrays do not fit together")
    return stored


def _damaged(path: Path, reason: Any) -> DataError:
    return DataError(f"{path} cannot be read: {reason}. Run the command of that run again.")
