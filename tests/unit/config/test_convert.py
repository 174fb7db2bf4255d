from __future__ import annotations

import sys
from copy import deepcopy
from typing import Any

import pytest
from omegaconf import OmegaConf

from assay.config import AttrDict, convert_to_attrdict, is_hydra_available
from assay.errors import ConfigError


def test_the_second_result_is_the_section_config_of_the_first(defaults: Any) -> None:
    cfg, config = convert_to_attrdict(defaults)

    assert cfg.config is config
    assert type(config.SVM.costs) is AttrDict
    assert cfg.engine_name == "train"


def test_command_line_arguments_are_merged_and_nothing_given_is_changed(defaults: Any) -> None:
    before, argv = deepcopy(defaults), list(sys.argv)

    cfg, config = convert_to_attrdict(
        defaults, ["config.SVM.max_iter=5", "+config.LOSS.mine.x=[1,{a: 2}]", "node_id=3"]
    )

    assert config.SVM.max_iter == 5
    assert config.LOSS.mine.x[1].a == 2
    assert cfg.node_id == 3
    assert defaults == before
    assert sys.argv == argv


def test_plain_dicts_and_attrdicts_are_taken_too(defaults: Any) -> None:
    cfg, _ = convert_to_attrdict(defaults)

    assert convert_to_attrdict(cfg)[0] == cfg
    assert convert_to_attrdict(cfg.to_dict(), ["node_id=1"])[0] == cfg | {"node_id": 1}


def test_a_configuration_with_keys_of_its_own_is_taken_as_it_is() -> None:
    cfg = OmegaConf.create({"VERSION": 1, "config": {"A": {"b": "${config.c}"}, "c": [{"d": 1}]}})

    _, config = convert_to_attrdict(cfg, ["config.new=7"])

    assert config == {"A": {"b": [{"d": 1}]}, "c": [{"d": 1}], "new": 7}
    assert config.A.b[0].d == 1


@pytest.mark.parametrize(
    ("cfg", "arguments", "words"),
    [
        ({"VERSION": 2, "config": {}}, [], "VERSION: expected 1.*given 2"),
        ({"VERSION": True, "config": {}}, [], "VERSION: expected 1.*given True"),
        ({"config": {}}, [], "VERSION: expected 1.*given nothing"),
        ({"VERSION": 1}, [], "config: expected a section"),
        ({"VERSION": 1, "config": {}}, ["config=demo"], "config: expected a section.*override"),
        ({"VERSION": 1, "config": {}}, ["VERSION=3"], "given 3 .override 'VERSION=3'"),
        ({"VERSION": 1, "config": {"a": "${b}"}}, [], r"config\.a: .*'b' not found"),
        ({"VERSION": 1, "config": {}}, [5], "override '5': write KEY=VALUE"),
        ([1], [], "a list"),
    ],
)
def test_what_cannot_be_converted_is_refused(cfg: Any, arguments: list[Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        convert_to_attrdict(cfg, arguments)


def test_several_faults_come_in_one_error() -> None:
    with pytest.raises(ConfigError, match="2 settings are wrong") as caught:
        convert_to_attrdict({"VERSION": 2})
    assert "VERSION" in str(caught.value)
    assert "config:" in str(caught.value)


def test_hydra_is_available_here() -> None:
    assert is_hydra_available() is True


def test_hydra_is_not_available_where_its_import_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hydra", None)

    assert is_hydra_available() is False


RATE_SCALED = ["config.OPTIMIZER.param_schedulers.lr.auto_lr_scaling.auto_scale=true"]


def test_what_follows_from_other_settings_is_inferred(defaults: Any) -> None:
    _, config = convert_to_attrdict(defaults, RATE_SCALED)

    assert config.OPTIMIZER.param_schedulers.lr["values"][0] == pytest.approx(0.8)
    assert config.DATA.TRAIN.LABEL_TYPE == "sample_index"


def test_inference_can_be_left_out(defaults: Any) -> None:
    _, config = convert_to_attrdict(defaults, RATE_SCALED, infer=False)

    assert config.OPTIMIZER.param_schedulers.lr["values"] == [0.1, 0.01, 0.001]
    assert config.DATA.TRAIN.LABEL_TYPE == "standard"
