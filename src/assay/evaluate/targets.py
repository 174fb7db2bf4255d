"""Labels of any shape the data comes in -> one column of {1, 0, -1} per class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import DataError
from assay.evaluate.arrays import as_numpy, some_of

__all__ = ["LabelTable", "read_targets"]


@dataclass(frozen=True)
class LabelTable:
    """Which classes each row shows."""

    values: NDArray[np.int64]  # (N,) class ids, -1 = ignored; or (N, L) of {1, 0, -1}
    class_ids: tuple[int, ...]  # sorted; those that occur, or 0..L-1
    multi_label: bool

    def column(self, class_id: int) -> NDArray[np.int8]:
        """(N,) for one class: 1 present, 0 absent, -1 ignored. Ids that do not occur are absent."""
        if self.multi_label:
            return np.asarray(self.values[:, class_id], np.int8)
        column = np.asarray(self.values == class_id, np.int8)
        column[self.values == -1] = -1
        return column

    def columns(self, class_ids: Sequence[int]) -> NDArray[np.int8]:
        """(N, len(class_ids)) of {1, 0, -1}."""
        table = np.empty((len(self.values), len(class_ids)), np.int8)
        for place, class_id in enumerate(class_ids):
            table[:, place] = self.column(class_id)
        return table


def read_targets(targets: Any, *, name: str = "targets") -> LabelTable:
    """Read labels in either form.

    Args:
        targets: (N,) or (N, 1): one class id a row, any ids from 0 up, -1 where the row is ignored.
            (N, L) with L > 1: 1 where the class is present, 0 absent, -1 ignored. Whole numbers;
            float arrays will do if their values are whole.
        name: what messages call them.

    Raises:
        DataError: another shape, a value that is no label, or no row at all.
    """
    array = _whole_numbers(targets, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 2:
        _refuse(array, (array < -1) | (array > 1), name, "several labels a row are 1, 0 or -1")
        return LabelTable(array, tuple(range(array.shape[1])), multi_label=True)
    _refuse(array, array < -1, name, "a class id is at least 0, or -1 for an ignored row")
    ids = np.unique(array[array >= 0])
    return LabelTable(array, tuple(int(class_id) for class_id in ids), multi_label=False)


def _whole_numbers(targets: Any, name: str) -> NDArray[np.int64]:
    try:
        array = as_numpy(targets)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} cannot be read as an array: {error}.") from error
    if array.ndim not in (1, 2) or 0 in array.shape:
        raise DataError(
            f"{name} have the shape {array.shape}: give one class id a row, (N,) or (N, 1), or one "
            f"column a class, (N, L), with at least one row."
        )
    if array.dtype.kind not in "biuf":
        raise DataError(f"{name} hold {array.dtype}: give whole numbers.")
    if array.dtype.kind == "f":
        fractions = ~(np.abs(array) < 2**53) | (array != np.floor(array))
        _refuse(array, fractions, name, "labels are whole numbers")
    return array.astype(np.int64)


def _refuse(array: NDArray[Any], bad: NDArray[np.bool_], name: str, rule: str) -> None:
    if not bad.any():
        return
    rows = np.unique(np.nonzero(bad)[0])
    raise DataError(
        f"{name} hold {array[bad].flat[0]:g} in {len(rows)} of {len(array)} rows "
        f"({some_of(rows)}): {rule}."
    )
