"""The layout of VISSL's runs, and the beginnings of its names."""

from __future__ import annotations

from typing import Any

import pytest

from assay.checkpoint.vissl_names import (
    check_model_compatibility,
    check_model_compatibilty,
    get_checkpoint_model_state_dict,
    heads_are_initialised,
    torchvision_to_vissl,
    vissl_to_torchvision,
)
from assay.errors import ModelError

PLAIN: dict[str, Any] = {"MODEL": {"FEATURE_EVAL_SETTINGS": {"EVAL_MODE_ON": False}}}
EXTRACTOR: dict[str, Any] = {
    "MODEL": {
        "FEATURE_EVAL_SETTINGS": {
            "EVAL_MODE_ON": True,
            "FREEZE_TRUNK_ONLY": True,
            "LINEAR_EVAL_FEAT_POOL_OPS_MAP": [["res5", ["Identity", []]]],
        }
    }
}
RUN = {
    "base_model": {
        "model": {"trunk": {"_feature_blocks.conv1.w": 1}, "heads": {"0.clf.0.b": 2}},
    },
}


def test_a_run_gets_the_names_of_the_model() -> None:
    assert get_checkpoint_model_state_dict(PLAIN, RUN) == {
        "trunk._feature_blocks.conv1.w": 1,
        "heads.0.clf.0.b": 2,
    }
    assert get_checkpoint_model_state_dict(EXTRACTOR, {"classy_state_dict": RUN}) == {
        "trunk.base_model._feature_blocks.conv1.w": 1,
        "heads.0.clf.0.b": 2,
    }


@pytest.mark.parametrize("run", [{}, {"base_model": 3}, {"base_model": {"model": {}}}])
def test_what_is_no_run_is_said(run: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match=r"lacks base_model\.model\.trunk"):
        get_checkpoint_model_state_dict(PLAIN, run)


def test_names_have_to_begin_as_the_models_do() -> None:
    check_model_compatibility(PLAIN, {"trunk._feature_blocks.a": 1, "heads.0.b": 2})
    check_model_compatibility(EXTRACTOR, {"trunk.base_model._feature_blocks.a": 1})
    with pytest.raises(ModelError, match=r"REMOVE_PREFIX to 'module\.'"):
        check_model_compatibility(PLAIN, {"module.conv1": 1})
    with pytest.raises(ModelError, match=r"1 of 2 names"):
        check_model_compatibility(EXTRACTOR, {"trunk._feature_blocks.a": 1, "heads.0.b": 2})
    assert check_model_compatibilty is check_model_compatibility


@pytest.mark.parametrize(
    ("on", "both", "heads"), [(False, False, True), (True, False, False), (True, True, True)]
)
def test_heads_are_left_where_the_trunk_alone_is_evaluated(
    on: bool, both: bool, heads: bool
) -> None:
    settings = {"EVAL_MODE_ON": on, "EVAL_TRUNK_AND_HEAD": both}
    assert heads_are_initialised({"FEATURE_EVAL_SETTINGS": settings}) is heads
    assert heads_are_initialised({})


def test_torchvision_and_vissl_and_back() -> None:
    names = {"conv1.weight": 1, "layer1.0.bn1.bias": 2}
    assert vissl_to_torchvision(torchvision_to_vissl({**names, "fc.weight": 3})) == names
    deep = torchvision_to_vissl(names, prefix="trunk.base_model._feature_blocks.")
    assert vissl_to_torchvision(deep) == names
    with pytest.raises(ModelError, match="No name starts with"):
        vissl_to_torchvision(names)
