"""Weights are planned into a model first; a plan that fails changes nothing."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from assay.checkpoint.formats import write_weights_file
from assay.checkpoint.initialize import (
    init_model_from_file,
    init_model_from_weights,
    init_weights,
)
from assay.checkpoint.positions import resize_positions
from assay.checkpoint.rename import RenameRule
from assay.checkpoint.state_dict_text import print_loaded_dict_info, print_state_dict_shapes
from assay.errors import ConfigError, ModelError

SETTINGS: dict[str, Any] = {"MODEL": {"FEATURE_EVAL_SETTINGS": {"EVAL_MODE_ON": False}}}
TRUNK_ALONE: dict[str, Any] = {"MODEL": {"FEATURE_EVAL_SETTINGS": {"EVAL_MODE_ON": True}}}


class Trunk(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self._feature_blocks = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))


class Model(nn.Module):
    """Named as VISSL names its models."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = Trunk()
        self.heads = nn.ModuleList([nn.Linear(4, 2)])


class Positions(nn.Module):
    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.pos_embed = nn.Parameter(torch.rand(1, tokens, 8))


def values(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def run_of(model: Model) -> dict[str, Any]:
    parts = {"trunk": model.trunk.state_dict(), "heads": model.heads.state_dict()}
    return {"classy_state_dict": {"base_model": {"model": parts}}, "phase_idx": 3}


def test_a_run_of_vissl_is_loaded_whole() -> None:
    source, model = Model(), Model()
    result = init_model_from_weights(SETTINGS, model, run_of(source), "classy_state_dict", None)
    assert result is model
    assert same(values(model), values(source))


def test_heads_stay_where_the_trunk_alone_is_evaluated() -> None:
    source, model = Model(), Model()
    before = values(model.heads)
    init_model_from_weights(TRUNK_ALONE, model, run_of(source), "classy_state_dict", [])
    assert same(values(model.heads), before)
    assert same(values(model.trunk), values(source.trunk))


def test_the_prefix_is_replaced_first_and_then_appended(caplog: pytest.LogCaptureFixture) -> None:
    source, model = Model(), Model()
    arrays = {
        f"module.{name}": tensor.numpy()
        for name, tensor in source.trunk._feature_blocks.state_dict().items()
    }
    with caplog.at_level(logging.INFO):
        init_model_from_weights(
            SETTINGS,
            model,
            {"state_dict": arrays},
            "state_dict",
            ["num_batches"],
            replace_prefix="module.",
            append_prefix="trunk._feature_blocks.",
        )
    assert torch.equal(
        model.trunk.state_dict()["_feature_blocks.0.weight"],
        source.trunk.state_dict()["_feature_blocks.0.weight"],
    )
    assert "its name contains 'num_batches'" in caplog.text
    assert "missing        heads.0.weight" in caplog.text


def test_names_of_another_model_are_refused_and_what_is_there_is_offered() -> None:
    model = Model()
    before = values(model)
    with pytest.raises(ModelError, match="APPEND_PREFIX"):
        init_model_from_weights(SETTINGS, model, {"model": {"conv": torch.ones(1)}}, "model", None)
    with pytest.raises(ModelError, match="'model'"):
        init_model_from_weights(SETTINGS, model, {"model": {"conv": torch.ones(1)}}, "modl", None)
    assert same(values(model), before)


def test_a_plan_that_fails_changes_nothing() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 4))
    before = values(model)
    wrong = {**values(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 4)))}
    wrong["1.bias"] = torch.ones(5)
    with pytest.raises(ModelError, match=r"1\.bias \(\[5\] in the file, \[4\] in the model\)"):
        init_weights(model, wrong)
    del wrong["1.bias"]
    wrong["more"] = torch.ones(1)
    with pytest.raises(ModelError, match=r"missing: 1\.bias.*not in the model: more"):
        init_weights(model, wrong, strict="all")
    assert same(values(model), before)
    plan = init_weights(model, wrong)
    assert (plan.missing, plan.unexpected) == (("1.bias",), ("more",))
    assert plan.lines()[-1] == "3 loaded, 1 missing, 1 unexpected"


@pytest.mark.parametrize(
    "value",
    [torch.ones(4, dtype=torch.int64), np.array(["a"] * 4), np.ones(4, object), 3, None,
     torch.ones(4, dtype=torch.complex64), torch.ones(4).to_sparse()],
    ids=["integers", "text", "objects", "number", "none", "complex", "sparse"],
)  # fmt: skip
def test_what_cannot_become_weights_is_said(value: object) -> None:
    model = nn.Linear(1, 4)
    before = values(model)
    with pytest.raises(ModelError, match=r"1 cannot be converted: bias"):
        init_weights(model, {"weight": torch.ones(4, 1), "bias": value})
    assert same(values(model), before)
    plan = init_weights(model, {"weight": torch.ones(4, 1), "bias": value}, strict="off")
    assert plan.loaded == ("weight",)
    assert torch.equal(model.bias, before["bias"])


def test_dtypes_are_converted_and_told() -> None:
    model = nn.Linear(2, 2).half()
    plan = init_weights(model, {"weight": np.eye(2)[::-1], "bias": np.ones(2, ">f8")})
    assert [str(c.theirs) for c in plan.dtype_changes] == ["float64", "float64"]
    assert model.weight.tolist() == [[0, 1], [1, 0]]
    assert model.weight.dtype == torch.float16


def test_nothing_in_common_is_an_error_however_lenient() -> None:
    with pytest.raises(ModelError, match="Nothing in the file fits"):
        init_weights(nn.Linear(1, 1), {"a": torch.ones(1)}, strict="off")


def test_skipping_everything_by_the_empty_text_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="empty"):
        init_weights(nn.Linear(1, 1), {}, skip_layers=[""])


def test_an_unknown_strictness_is_said() -> None:
    with pytest.raises(ConfigError, match="'all', 'fit' and 'off'"):
        init_weights(nn.Linear(1, 1), {}, strict="yes")  # type: ignore[arg-type]


def test_a_tied_tensor_that_the_file_has_once_is_not_missing() -> None:
    model = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})
    model["b"].weight = model["a"].weight
    names = {"a.weight": torch.ones(2, 2), "a.bias": torch.ones(2), "b.bias": torch.ones(2)}
    plan = init_weights(model, names, strict="all")
    assert [(s.name, s.reason) for s in plan.skipped] == [
        ("b.weight", "it is the same tensor as a.weight, which is loaded")
    ]
    assert model["b"].weight.tolist() == [[1, 1], [1, 1]]


def test_a_model_without_memory_is_said() -> None:
    with torch.device("meta"):
        model = nn.Linear(2, 2)
    with pytest.raises(ModelError, match="to_empty"):
        init_weights(model, values(nn.Linear(2, 2)))


def test_a_model_whose_state_dict_is_a_copy_is_said() -> None:
    model = nn.Linear(2, 2)
    model._register_state_dict_hook(
        lambda module, state, prefix, metadata: state.update(
            {name: tensor.clone() for name, tensor in state.items()}
        )
    )
    with pytest.raises(ModelError, match="gives a copy of weight"):
        init_weights(model, {"weight": torch.ones(2, 2), "bias": torch.ones(2)})


def test_positions_of_another_grid_are_interpolated_when_asked() -> None:
    small, large = Positions(1 + 16), Positions(1 + 64)
    with pytest.raises(ModelError, match="1 differ in shape"):
        init_weights(large, small.state_dict())
    plan = init_weights(large, small.state_dict(), interpolate_positions=True)
    assert [change.name for change in plan.resized] == ["pos_embed"]
    assert torch.equal(large.pos_embed[:, 0], small.pos_embed[:, 0])
    grid = small.pos_embed[:, 1:].detach().reshape(1, 4, 4, 8).permute(0, 3, 1, 2)
    expected = nn.functional.interpolate(grid, size=(8, 8), mode="bicubic", antialias=True)
    assert torch.equal(large.pos_embed[:, 1:], expected.flatten(2).transpose(1, 2))


def test_positions_that_are_constant_stay_constant() -> None:
    moved = resize_positions(torch.full((1, 3 + 9, 4), 2.5, dtype=torch.float16), (1, 3 + 25, 4))
    assert moved.dtype == torch.float16
    assert torch.allclose(moved, torch.full((), 2.5, dtype=torch.float16))


@pytest.mark.parametrize("ending", [".pth", ".safetensors", ".npz", ".safetensors.index.json"])
def test_a_file_of_every_format_gives_the_same_model(tmp_path: Path, ending: str) -> None:
    source, model = Model().eval(), Model().eval()
    file = tmp_path / f"w{ending}"
    write_weights_file(file, {f"module.{n}": t for n, t in source.state_dict().items()})
    plan = init_model_from_file(model, file, strip=["module."], strict="all")
    assert len(plan.loaded) == len(source.state_dict())
    assert same(values(model), values(source))
    again = Model()
    init_model_from_file(again, file, rename=[RenameRule(r"^module\.", "")], strict="all")
    assert same(values(again), values(source))


def test_errors_name_the_file(tmp_path: Path) -> None:
    write_weights_file(tmp_path / "w.pth", {"a": torch.ones(1)})
    with pytest.raises(ModelError, match=r"w\.pth: .*Nothing in the file fits"):
        init_model_from_file(nn.Linear(1, 1), tmp_path / "w.pth")


def test_shapes_and_what_was_loaded_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    state = {"trunk.w": torch.ones(2, 3), "heads.b": np.ones(4), "epoch": 3}
    print_state_dict_shapes(state)
    assert capsys.readouterr().out.splitlines() == [
        "trunk.w  [2, 3] float32",
        "heads.b  [4] float64",
        "epoch    (int)",
    ]
    own = {"trunk.w": torch.ones(2, 3), "heads.b": torch.ones(4), "x": torch.ones(1)}
    print_loaded_dict_info(own, state, None, TRUNK_ALONE["MODEL"])
    assert capsys.readouterr().out.splitlines() == [
        "loaded     trunk.w  [2, 3] float32",
        "skipped    heads.b",
        "not found  x",
        "extra      epoch",
    ]


@pytest.mark.parametrize("ending", [".pth", ".safetensors", ".npz", ".safetensors.index.json"])
def test_a_tensor_of_the_file_may_go_to_several_places(tmp_path: Path, ending: str) -> None:
    shared = torch.arange(50_000.0)  # many pages, which are given back after the first copy
    write_weights_file(tmp_path / f"w{ending}", {"a.v": shared, "b.v": shared, "c.v": shared[:9]})
    model = nn.ModuleDict({name: nn.Module() for name in "abc"})
    for name, part in model.items():
        part.v = nn.Parameter(torch.zeros(9 if name == "c" else 50_000))
    init_model_from_file(model, tmp_path / f"w{ending}", strict="all")
    assert torch.equal(model["a"].v, shared)
    assert torch.equal(model["b"].v, shared)
    assert torch.equal(model["c"].v, shared[:9])


def test_positions_that_do_not_go_together_are_said() -> None:
    with pytest.raises(ModelError, match="no grid of patches"):
        resize_positions(torch.ones(1, 5, 4), (1, 7, 4))
