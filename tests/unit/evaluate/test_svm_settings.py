"""The section SVM of the settings: defaults, the list of costs, and all faults at once."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from omegaconf import OmegaConf

from assay.errors import ConfigError
from assay.evaluate.svm_settings import SVMSettings


def test_an_empty_section_has_the_contracts_defaults():
    assert SVMSettings.from_config({}) == SVMSettings(
        normalize=True,
        cls_list=(),
        loss="squared_hinge",
        penalty="l2",
        dual=True,
        max_iter=2000,
        cross_val_folds=3,
        costs=(0.1, 0.01),
        force_retrain=False,
        ignore_label="negative",
    )


def test_powers_of_the_base_follow_the_list_and_no_cost_comes_twice():
    costs = {"costs_list": [4, 0.5, 4.0], "base": 2.0, "power_range": [-1, 4]}
    assert SVMSettings.from_config({"costs": costs}).costs == (4.0, 0.5, 1.0, 2.0, 8.0)


def test_without_a_base_above_zero_the_range_adds_nothing():
    for base in (-1.0, 0, -1):
        costs = {"costs_list": [1.0], "base": base, "power_range": [4, 20]}
        assert SVMSettings.from_config({"costs": costs}).costs == (1.0,)


def test_the_list_may_be_empty_where_there_are_powers():
    costs = {"costs_list": [], "base": 10, "power_range": [0, 2]}
    assert SVMSettings.from_config({"costs": costs}).costs == (1.0, 10.0)


def test_the_users_mapping_is_not_changed():
    config = {"costs": {"costs_list": [1.0], "base": 2.0, "power_range": [0, 3]}, "cls_list": [2]}
    before = copy.deepcopy(config)
    SVMSettings.from_config(config)
    assert config == before


def test_composed_settings_and_arrays_will_do():
    plain = {"cls_list": [3, 1], "costs": {"costs_list": [1, 10], "base": 2.0}}
    composed = OmegaConf.create(plain)
    arrays = {
        "cls_list": np.array([3, 1]),
        "normalize": np.True_,
        "costs": {"costs_list": np.array([1.0, 10.0]), "base": np.float64(2.0)},
    }
    expected = SVMSettings.from_config(plain)
    assert SVMSettings.from_config(composed) == expected
    assert SVMSettings.from_config(arrays) == expected
    assert expected.cls_list == (3, 1)


def test_all_faults_stand_in_one_error():
    config = {
        "normalise": True,
        "loss": "hing",
        "max_iter": 0,
        "cross_val_folds": 1,
        "cls_list": [-1],
        "costs": {"costs_list": [0.1, -1.0], "bases": 2},
    }
    with pytest.raises(ConfigError) as caught:
        SVMSettings.from_config(config, ignore_label="skip")
    for said in (
        "normalise is not a setting. Did you mean 'normalize'?",
        "loss is 'hing': give squared_hinge or hinge",
        "max_iter is 0",
        "cross_val_folds is 1: give a whole number of at least 2",
        "cls_list is [-1]",
        "costs [-1.0] are not usable",
        "costs.bases is not a setting. Did you mean 'costs.base'",
        "ignore_label is 'skip': give negative or drop",
    ):
        assert said in str(caught.value)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ([], "SVM is"),
        ({"normalize": "yes"}, "normalize is 'yes': give true or false"),
        ({"dual": 1}, "dual is 1"),
        ({"max_iter": 10.5}, "max_iter is 10.5"),
        ({"max_iter": True}, "max_iter is True"),
        ({"cls_list": "all"}, "cls_list is 'all'"),
        ({"cls_list": [1.5]}, "cls_list"),
        ({"costs": None}, "costs is None: give a mapping"),
        ({"costs": {"costs_list": []}}, "costs are empty"),
        ({"costs": {"costs_list": "0.1"}}, "give a list of numbers"),
        ({"costs": {"costs_list": [float("nan")]}}, r"\[nan\] are not usable"),
        ({"costs": {"costs_list": [float("inf")]}}, r"\[inf\] are not usable"),
        ({"costs": {"costs_list": [1e-320]}}, r"\[1e-320\] .* from 1e-12 to 1e\+12"),
        ({"costs": {"costs_list": [1e308]}}, r"\[1e\+308\] are not usable"),
        ({"costs": {"base": 1.0, "power_range": [0, 10**9]}}, "more than 1000 powers"),
        ({"costs": {"base": "two"}}, "costs.base is 'two'"),
        ({"costs": {"base": 2, "power_range": [1]}}, "two whole numbers"),
        ({"costs": {"base": 2, "power_range": [3, 3]}}, "is empty"),
        ({"costs": {"base": 10.0, "power_range": [300, 400]}}, "beyond a float"),
        ({"loss": "hinge", "dual": False}, "has no solver"),
        ({"loss": "hinge", "penalty": "l1"}, "has no solver"),
        ({"penalty": "l1"}, "has no solver"),
    ],
)
def test_a_value_that_cannot_be_is_named(config, said):
    with pytest.raises(ConfigError, match=said):
        SVMSettings.from_config(config)
