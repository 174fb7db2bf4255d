"""What the SVM solver demands of its inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from assay.errors import ConfigError, DataError
from assay.evaluate.arrays import some_of
from assay.evaluate.linear_svc import SVMProblem

__all__ = ["check_features", "check_problems", "check_sample_weight", "check_settings"]


def check_features(features: NDArray[Any] | Tensor) -> None:
    """Refuse all but a matrix of real numbers; whether they are finite is seen when it is read.

    Raises:
        DataError
    """
    if not isinstance(features, np.ndarray | Tensor):
        raise DataError(
            f"features are a {type(features).__name__}: give an array or a tensor, (N, D)."
        )
    if features.ndim != 2 or 0 in features.shape:
        raise DataError(f"features have the shape {tuple(features.shape)}: give one vector a row.")
    real = (
        features.dtype.kind in "biuf"
        if isinstance(features, np.ndarray)
        else not features.dtype.is_complex
    )
    if not real:
        raise DataError(f"features hold {features.dtype}: give real numbers.")


def check_problems(problems: Sequence[SVMProblem], num_rows: int) -> None:
    """Refuse labels, rows and costs that make no problem over ``num_rows`` rows.

    Raises:
        DataError: labels or rows.
        ConfigError: a cost.
    """
    checked: set[int] = set()
    for place, problem in enumerate(problems):
        if not (math.isfinite(problem.cost) and problem.cost > 0):
            raise ConfigError(f"problem {place} has the cost {problem.cost}: give one above 0.")
        if id(problem.labels) not in checked:
            _check_labels(problem.labels, num_rows, place)
        if id(problem.rows) not in checked:
            _check_rows(problem.rows, num_rows, place)
        checked |= {id(problem.labels), id(problem.rows)}


def check_sample_weight(
    sample_weight: NDArray[np.floating] | None, num_rows: int
) -> NDArray[np.float64]:
    """(N,) float64, all 1 for None.

    Raises:
        DataError: another shape, or weights that are negative or not finite.
    """
    if sample_weight is None:
        return np.ones(num_rows)
    weights = np.asarray(sample_weight, np.float64)
    if weights.shape != (num_rows,):
        raise DataError(f"sample_weight has the shape {weights.shape}: give one a row, {num_rows}.")
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        raise DataError(f"sample_weight is negative or not finite at {some_of(bad)}.")
    return weights


def check_settings(
    *,
    class_weight: tuple[float, float],
    intercept_scaling: float,
    tolerance: float | None,
    max_iter: int,
    dtype: str,
    device: str | torch.device | None,
    threads: int | None,
    memory_bytes: int,
) -> torch.device:
    """Refuse settings that make no sense, all of them in one error.

    Returns:
        The device to compute on.

    Raises:
        ConfigError
    """
    faults = []
    if not all(math.isfinite(weight) and weight > 0 for weight in class_weight):
        faults.append(f"class_weight is {class_weight}: both must be above 0")
    if not (math.isfinite(intercept_scaling) and intercept_scaling >= 0):
        faults.append(f"intercept_scaling is {intercept_scaling}: it must be 0 or more")
    if tolerance is not None and not 0 < tolerance < 1:
        faults.append(f"tolerance is {tolerance}: it must lie between 0 and 1")
    if dtype not in ("float64", "float32"):
        faults.append(f"dtype is {dtype!r}: it must be 'float64' or 'float32'")
    counts = {"max_iter": max_iter, "threads": threads, "memory_bytes": memory_bytes}
    faults += [
        f"{name} is {count}: it must be 1 or more"
        for name, count in counts.items()
        if count is not None and count < 1
    ]
    target = torch.device("cpu")
    try:
        target = torch.device("cpu" if device is None else device)
    except RuntimeError as error:
        faults.append(f"device is {device!r}: {error}")
    if faults:
        raise ConfigError("The SVM solver cannot run: " + "; ".join(faults) + ".")
    return target


def _check_labels(labels: NDArray[np.int8], num_rows: int, place: int) -> None:
    if labels.shape != (num_rows,):
        raise DataError(
            f"problem {place} has labels of the shape {labels.shape}: give one for each of the "
            f"{num_rows} rows of the features."
        )
    bad = np.flatnonzero((labels != 1) & (labels != -1))
    if len(bad):
        raise DataError(
            f"problem {place} has the label {labels[bad[0]]} at {some_of(bad)}: give +1 or -1."
        )


def _check_rows(rows: NDArray[np.int64], num_rows: int, place: int) -> None:
    if rows.ndim != 1 or len(rows) == 0 or rows.dtype.kind not in "iu":
        raise DataError(f"problem {place} has no rows to be fitted on: give their numbers, (n,).")
    if rows.min() < 0 or rows.max() >= num_rows:
        raise DataError(
            f"problem {place} is fitted on rows {rows.min()} to {rows.max()}, but the features "
            f"have {num_rows}."
        )
    if len(np.unique(rows)) != len(rows):
        raise DataError(
            f"problem {place} is fitted on some rows twice: give each row once, and sample_weight "
            f"for what weighs more."
        )
