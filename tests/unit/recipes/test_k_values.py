"""Which k values the commands try where there are few images."""

from __future__ import annotations

import numpy as np
import pytest

from assay.errors import AssayWarning, ConfigError
from assay.recipes.evaluate_knn import usable_neighbours
from assay.recipes.evaluate_low_shot import usable_k_values


def test_neighbours_are_those_of_dino_and_the_one_that_was_asked_for() -> None:
    assert usable_neighbours(5, 1000) == ([5, 10, 20, 100, 200], 5)
    assert usable_neighbours(20, 1000) == ([10, 20, 100, 200], 20)


def test_more_neighbours_than_images_are_left_out_and_named() -> None:
    with pytest.warns(AssayWarning, match="k = 100, 200 left out: there are 30"):
        assert usable_neighbours(200, 30) == ([10, 20], 20)


def test_with_fewer_images_than_any_k_all_of_them_vote() -> None:
    with pytest.warns(AssayWarning):
        assert usable_neighbours(20, 7) == ([7], 7)


def test_k_values_above_the_smallest_class_are_left_out_and_named() -> None:
    targets = np.repeat([[4], [9]], [5, 3], axis=0)

    assert usable_k_values([1, 2, 3], targets, []) == [1, 2, 3]
    with pytest.warns(AssayWarning, match="k = 4, 8 left out: class 9 has 3"):
        assert usable_k_values([1, 4, 8], targets, []) == [1]


def test_of_several_labels_an_image_only_the_wanted_classes_count() -> None:
    targets = np.array([[1, 0], [1, 0], [1, 1], [-1, 0]])

    assert usable_k_values([1, 3], targets, [0]) == [1, 3]
    with pytest.warns(AssayWarning, match="class 1 has 1"):
        assert usable_k_values([1, 3], targets, []) == [1]


def test_no_k_value_that_is_left_is_an_error_with_the_count() -> None:
    with pytest.raises(ConfigError, match="all too large: class 0 has 2"):
        usable_k_values([4, 8], np.array([[0], [0], [1], [1], [1]]), [])
