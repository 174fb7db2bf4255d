"""Labels of every shape become columns of 1, 0 and -1."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from assay.errors import DataError
from assay.evaluate.targets import read_targets


def test_class_ids_become_one_column_each():
    labels = read_targets([7, 2, -1, 7])
    assert labels.class_ids == (2, 7)
    assert not labels.multi_label
    np.testing.assert_array_equal(labels.column(7), [1, 0, -1, 1])
    np.testing.assert_array_equal(labels.columns([7, 2]), [[1, 0], [0, 1], [-1, -1], [1, 0]])
    assert labels.columns([7, 2]).dtype == np.int8


def test_an_id_that_does_not_occur_is_absent():
    np.testing.assert_array_equal(read_targets([7, -1]).column(3), [0, -1])


def test_several_labels_a_row_keep_their_columns():
    labels = read_targets([[1, 0, -1], [0, 0, 1]])
    assert labels.class_ids == (0, 1, 2)
    assert labels.multi_label
    np.testing.assert_array_equal(labels.column(2), [-1, 1])


@pytest.mark.parametrize(
    "targets",
    [
        np.array([[4], [-1]], np.int8),
        np.array([4.0, -1.0], np.float32),
        torch.tensor([4, -1]),
        (4, -1),
        np.array([4, 9, -1, 9])[::2],
    ],
)
def test_forms_of_the_same_ids_are_read_alike(targets):
    np.testing.assert_array_equal(read_targets(targets).values, [4, -1])


def test_truth_values_are_labels():
    labels = read_targets(np.array([[True, False], [False, True]]))
    np.testing.assert_array_equal(labels.values, np.eye(2))


def test_the_callers_array_stays_as_it_is():
    targets = np.array([1, -1, 0])
    column = read_targets(targets).column(1)
    column[:] = 5
    np.testing.assert_array_equal(targets, [1, -1, 0])


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        ([], r"shape \(0,\)"),
        (np.zeros((3, 0)), r"shape \(3, 0\)"),
        (np.zeros((2, 2, 2)), r"shape \(2, 2, 2\)"),
        (3, r"shape \(\)"),
        ([0, -2, -2], r"hold -2 in 2 of 3 rows \(1, 2\): a class id is at least 0"),
        ([[1, 0], [2, 0]], r"hold 2 in 1 of 2 rows \(1\): several labels a row are 1, 0 or -1"),
        ([0.5, 1], "hold 0.5 in 1 of 2 rows"),
        ([float("nan"), 1], "labels are whole numbers"),
        ([1e300, 1], "labels are whole numbers"),
        (["cat", "dog"], "give whole numbers"),
        ([[1, 0], [1]], "cannot be read"),
    ],
)
def test_what_is_no_label_is_refused(targets, said):
    with pytest.raises(DataError, match=said):
        read_targets(targets)
