"""State dicts within checkpoints: found by key, by dotted path and by name."""

from __future__ import annotations

import pytest
import torch

from assay.checkpoint.nested import find_state_dicts, state_dict_at, state_dict_named
from assay.errors import ModelError

NET = {"fc.weight": torch.ones(2, 2), "fc.bias": torch.ones(2)}
TREE = {
    "model": NET,
    "model_ema": {"fc.weight": torch.zeros(2, 2)},
    "a.b": {"c": NET},
    "optimizer": {"state": {"exp_avg": torch.ones(2)}},
    "epoch": 3,
}


def test_all_state_dicts_are_found_and_the_optimizer_is_left_out() -> None:
    assert list(find_state_dicts(TREE)) == ["model", "model_ema", "a.b.c"]


def test_keys_may_hold_dots() -> None:
    assert state_dict_at(TREE, "a.b.c").keys() == NET.keys()


@pytest.mark.parametrize("path", ["modle", "epoch", "model.fc", ""])
def test_what_is_not_there_is_said_and_the_rest_offered(path: str) -> None:
    with pytest.raises(ModelError, match=r"'model' \(2 tensors\)"):
        state_dict_at(TREE, path)


def test_a_network_is_found_by_a_word_of_its_key() -> None:
    assert state_dict_named(TREE, "ema")[0] == "model_ema"
    flat = {
        f"{who}.{name}": tensor for who in ("teacher", "student") for name, tensor in NET.items()
    }
    path, tensors = state_dict_named({"model": flat}, "teacher")
    assert (path, list(tensors)) == ("model.teacher.", list(NET))
    with pytest.raises(ModelError, match="by the name of 'query'"):
        state_dict_named(TREE, "query")
