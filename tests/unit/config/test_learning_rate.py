from __future__ import annotations

import copy
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.config import (
    AttrDict,
    assert_learning_rate,
    get_scaled_lr_scheduler,
    resolve_linear_schedule,
)
from assay.config.rate_schedules import resolved_warmups, scaled_rate, scaled_schedule
from assay.errors import ConfigError

SCALING = {"auto_scale": True, "base_value": 0.1, "base_lr_batch_size": 256}
WARMUP = {"name": "linear", "start_value": 0.1, "end_value": 0.1}
COSINE = {"name": "cosine", "start_value": 0.1, "end_value": 0.001}
WARMED_UP = {
    "name": "composite",
    "update_interval": "step",
    "schedulers": [WARMUP, COSINE],
    "interval_scaling": ["rescaled", "fixed"],
    "lengths": [0.1, 0.9],
    # What the shipped defaults leave in a composite, which reads none of it.
    "values": [0.1, 0.01, 0.001],
    "milestones": [30, 60],
    "start_value": 0.1,
    "end_value": 0.0,
    "value": 0.1,
}


def config_with(
    lr: dict[str, Any] | None = None,
    lr_head: dict[str, Any] | None = None,
    *,
    nodes: int = 1,
    processes: int = 8,
    batch: int = 32,
    **head: Any,
) -> AttrDict:
    """8 x 32 images a node: the batch size for which the base rate is right."""
    scaled = {"auto_lr_scaling": SCALING}
    return AttrDict(
        {
            "DATA": {"TRAIN": {"BATCHSIZE_PER_REPLICA": batch}},
            "DISTRIBUTED": {"NUM_NODES": nodes, "NUM_PROC_PER_NODE": processes},
            "OPTIMIZER": {
                "weight_decay": 1e-4,
                "head_optimizer_params": {
                    "use_different_lr": False,
                    "use_different_wd": False,
                    "weight_decay": 1e-6,
                    **head,
                },
                "param_schedulers": {
                    "lr": {**scaled, **(lr or COSINE)},
                    "lr_head": {**scaled, **(lr_head or COSINE)},
                },
            },
        }
    )


# kind and keys -> the keys after scaling to 0.4
SCALED = [
    (COSINE, {"start_value": 0.4, "end_value": pytest.approx(0.004)}),
    (
        {"name": "multistep", "values": [0.1, 0.01, 0.001]},
        {"values": pytest.approx([0.4, 0.04, 0.004])},
    ),
    ({"name": "step", "values": [1.0, 0.5, 0.1]}, {"values": [0.4, 0.2, 0.1]}),
    ({"name": "step", "values": (2, 1)}, {"values": [0.4, 0.2]}),
    ({"name": "multistep", "values": [0.3]}, {"values": [0.4]}),
    ({"name": "multistep", "values": [0.3, 0.0, 0.0]}, {"values": [0.4, 0.0, 0.0]}),
    ({"name": "multistep", "values": [0.0, 0.0]}, {"values": [0.4, 0.0]}),
    ({"name": "multistep", "values": [0.0]}, {"values": [0.4]}),
    ({"name": "cosine", "start_value": 0, "end_value": 0}, {"start_value": 0.4, "end_value": 0.0}),
    ({"name": "step_with_fixed_gamma", "base_value": 1, "gamma": 0.9}, {"base_value": 0.4}),
    ({"name": "linear", "start_value": 0.0, "end_value": 0.1}, {"end_value": 0.4}),
    ({"name": "inverse_sqrt", "start_value": 0.0}, {"start_value": 0.4}),
    ({"name": "constant"}, {"value": 0.4}),
]


@pytest.mark.parametrize(("schedule", "changed"), SCALED)
def test_each_kind_of_schedule_keeps_its_shape(
    schedule: dict[str, Any], changed: dict[str, Any]
) -> None:
    before = copy.deepcopy(schedule)

    scaled = get_scaled_lr_scheduler(AttrDict({}), schedule, 0.4)

    assert scaled == {**schedule, **changed}
    assert schedule == before
    assert isinstance(scaled, AttrDict)


# schedule -> what is wrong with it
UNSCALABLE = [
    ({"name": "cosine", "start_value": 0.0, "end_value": 0.1}, "start_value", "0 cannot be scaled"),
    ({"name": "multistep", "values": [0.0, 0.1]}, "values[0]", "0 cannot be scaled"),
    ({"name": "multistep", "values": []}, "values", "at least one rate"),
    ({"name": "multistep", "values": [1e-300, 1, 1]}, "values", "all range"),
    ({"name": "multistep", "values": 0.1}, "values", "a list"),
    ({"name": "multistep"}, "values", "missing"),
    ({"name": "step", "values": [0.1, "0.01"]}, "values[1]", "a finite number"),
    ({"name": "step", "values": [0.1, float("nan")]}, "values[1]", "a finite number"),
    ({"name": "cosine", "start_value": 0.1}, "end_value", "a cosine schedule needs it"),
    ({"name": "cosine", "start_value": True, "end_value": 0}, "start_value", "a finite number"),
    ({"name": "cosin", "start_value": 0.1}, "name", "'cosine'"),
    ({"start_value": 0.1}, "name", "missing"),
    ({"name": "composite", "schedulers": []}, "schedulers", "needs parts"),
    ({"name": "composite", "schedulers": ["linear"]}, "schedulers[0]", "a section of keys"),
    ({"name": "composite", "schedulers": [COSINE], "lengths": [0.5, 0.5]}, "lengths", "2 entries"),
    ({"name": "composite", "schedulers": [{"name": "liner"}]}, "schedulers[0].name", "'linear'"),
]


@pytest.mark.parametrize(("schedule", "key", "words"), UNSCALABLE)
def test_what_cannot_be_scaled_is_named(schedule: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        get_scaled_lr_scheduler(config_with(), schedule, 0.4)

    assert str(caught.value).startswith(f"param_schedulers.{key}: ")
    assert words in str(caught.value)


@given(
    base=st.floats(1e-6, 10),
    batch=st.integers(1, 10**6),
    base_batch=st.integers(1, 10**5),
)
def test_twice_the_batch_is_twice_the_rate_or_its_square_root(
    base: float, batch: int, base_batch: int
) -> None:
    def rate(images: int, rule: str) -> float:
        return scaled_rate(base, images, base_batch, rule=rule)

    assert rate(2 * batch, "linear") == pytest.approx(2 * rate(batch, "linear"))
    assert rate(4 * batch, "sqrt") == pytest.approx(2 * rate(batch, "sqrt"))
    assert rate(base_batch, "linear") == pytest.approx(base)
    assert rate(base_batch, "sqrt") == pytest.approx(base)


def test_an_unknown_rule_of_scaling_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"linear or sqrt, given 'sqr'\. Did you mean 'sqrt'"):
        scaled_rate(0.1, 1, 1, rule="sqr")


PARTS = st.sampled_from(
    [
        COSINE,
        {"name": "constant", "value": 0.1},
        {"name": "step", "values": [0.1, 0.01]},
        {"name": "inverse_sqrt", "start_value": 0.1},
        {"name": "linear", "start_value": 0.0, "end_value": 0.1},
    ]
)


@given(
    parts=st.lists(PARTS, min_size=1, max_size=5),
    nodes=st.integers(1, 4),
    rate=st.floats(1e-3, 1),
)
def test_the_parts_of_a_composite_keep_their_order(
    parts: list[dict[str, Any]], nodes: int, rate: float
) -> None:
    lengths = [1 / len(parts)] * len(parts)
    composite = {"name": "composite", "schedulers": parts, "lengths": lengths}
    scaled = scaled_schedule(composite, rate)

    resolved = resolved_warmups(scaled, rate / nodes, one_node=nodes == 1).schedule

    wanted = [part["name"] for part in parts if nodes > 1 or part["name"] != "linear"]
    left = resolved.get("schedulers", [resolved])
    assert [part["name"] for part in left] == (wanted or ["constant"])
    if "lengths" in resolved:
        assert sum(resolved["lengths"]) == pytest.approx(1)
        assert len(resolved["lengths"]) == len(left)


def test_a_warm_up_climbs_from_the_rate_of_a_node_to_that_of_all() -> None:
    cfg = config_with(WARMED_UP, nodes=4)

    lr = assert_learning_rate(cfg).OPTIMIZER.param_schedulers.lr

    assert lr.schedulers[0].start_value == pytest.approx(0.1)
    assert lr.schedulers[0].end_value == pytest.approx(0.4)
    assert lr.schedulers[1].start_value == pytest.approx(0.4)
    assert lr.schedulers[1].end_value == pytest.approx(0.004)
    assert lr.lengths == [0.1, 0.9]


def test_a_warm_up_with_nowhere_to_climb_goes_and_leaves_nothing_behind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cfg = config_with(WARMED_UP, batch=64)

    with caplog.at_level(logging.INFO, logger="assay"):
        lr = assert_learning_rate(cfg).OPTIMIZER.param_schedulers.lr

    assert lr == {
        "auto_lr_scaling": SCALING,
        "name": "cosine",
        "update_interval": "step",
        "start_value": pytest.approx(0.2),
        "end_value": pytest.approx(0.002),
    }
    assert "lr.schedulers[0]: on one node the warm-up would start at 0.2" in caplog.text


def test_of_several_parts_those_that_stay_fill_the_time() -> None:
    schedule = {
        **WARMED_UP,
        "auto_lr_scaling": SCALING,
        "schedulers": [WARMUP, COSINE, {"name": "constant", "value": 0.1}],
        "interval_scaling": ["rescaled", "fixed", "rescaled"],
        "lengths": [0.2, 0.6, 0.2],
    }

    resolved = resolve_linear_schedule(config_with(), schedule)

    assert [part.name for part in resolved.schedulers] == ["cosine", "constant"]
    assert resolved.lengths == pytest.approx([0.75, 0.25])
    assert sum(resolved.lengths) == 1
    assert resolved.interval_scaling == ["fixed", "rescaled"]
    assert len(schedule["schedulers"]) == 3  # what was given stays


def test_all_useless_warm_ups_go_also_within_a_part() -> None:
    inner = {"name": "composite", "schedulers": [WARMUP, COSINE], "auto_lr_scaling": SCALING}
    schedule = {
        "name": "composite",
        "auto_lr_scaling": SCALING,
        "schedulers": [WARMUP, WARMUP, inner],
    }

    resolved = resolve_linear_schedule(config_with(), schedule)

    assert resolved == {"auto_lr_scaling": SCALING, **COSINE}


def test_a_composite_of_useless_warm_ups_alone_is_constant() -> None:
    schedule = {"name": "composite", "auto_lr_scaling": SCALING, "schedulers": [WARMUP]}

    resolved = resolve_linear_schedule(config_with(), schedule)

    assert resolved == {"auto_lr_scaling": SCALING, "name": "constant", "value": 0.1}


def test_a_warm_up_that_a_caller_rounded_goes_as_well() -> None:
    schedule = {**WARMED_UP, "auto_lr_scaling": {**SCALING, "base_value": 0.3}}
    cfg = config_with(batch=37)
    rate = round(37 * 8 * 0.3 / 256, 12)

    assert get_scaled_lr_scheduler(cfg, schedule, rate).name == "cosine"


def test_a_part_that_goes_down_on_one_node_stays() -> None:
    schedule = {
        "name": "composite",
        "auto_lr_scaling": SCALING,
        "schedulers": [COSINE, {"name": "linear", "start_value": 0.1, "end_value": 0.01}],
    }

    resolved = resolve_linear_schedule(config_with(), schedule)

    assert resolved.schedulers[1] == {"name": "linear", "start_value": 0.1, "end_value": 0.01}


def test_the_square_root_rule_holds_for_the_warm_up_too() -> None:
    scaling = {**SCALING, "scaling_type": "sqrt"}
    cfg = config_with({**WARMED_UP, "auto_lr_scaling": scaling}, nodes=4)

    lr = assert_learning_rate(cfg).OPTIMIZER.param_schedulers.lr

    assert lr.schedulers[0].start_value == pytest.approx(0.1)
    assert lr.schedulers[0].end_value == pytest.approx(0.2)


def test_the_head_follows_the_trunk_as_a_copy() -> None:
    cfg = config_with(batch=64)

    assert assert_learning_rate(cfg) is cfg

    schedulers = cfg.OPTIMIZER.param_schedulers
    assert schedulers.lr_head == schedulers.lr
    schedulers.lr.start_value = 7
    assert schedulers.lr_head.start_value == pytest.approx(0.2)
    assert cfg.OPTIMIZER.head_optimizer_params.weight_decay == 1e-4


def test_a_head_of_its_own_scales_itself_if_told_to() -> None:
    own = {"name": "constant", "value": 0.5}
    unscaled = {**own, "auto_lr_scaling": {"auto_scale": False}}

    scaled = assert_learning_rate(config_with(lr_head=own, batch=64, use_different_lr=True))
    kept = assert_learning_rate(config_with(lr_head=unscaled, batch=64, use_different_lr=True))

    assert scaled.OPTIMIZER.param_schedulers.lr_head.value == pytest.approx(0.2)
    assert kept.OPTIMIZER.param_schedulers.lr_head == unscaled


def test_a_rate_that_is_not_scaled_stays(caplog: pytest.LogCaptureFixture) -> None:
    schedule = {**WARMED_UP, "auto_lr_scaling": {"auto_scale": False}}
    cfg = config_with(schedule)

    with caplog.at_level(logging.INFO, logger="assay"):
        assert_learning_rate(cfg)

    assert cfg.OPTIMIZER.param_schedulers.lr == schedule
    assert caplog.text == ""


def test_rates_are_not_rounded() -> None:
    cfg = config_with({"name": "constant", "value": 0.1}, batch=1, processes=1)

    lr = assert_learning_rate(cfg).OPTIMIZER.param_schedulers.lr

    assert lr.value == 0.1 / 256


def test_a_head_may_have_its_own_weight_decay_from_zero() -> None:
    cfg = config_with(use_different_wd=True, weight_decay=0)

    assert_learning_rate(cfg)

    assert cfg.OPTIMIZER.head_optimizer_params.weight_decay == 0


@pytest.mark.parametrize("schedule", [COSINE, WARMED_UP, {"name": "multistep", "values": [1, 0.1]}])
@pytest.mark.parametrize("nodes", [1, 4])
def test_doing_it_twice_changes_nothing_more(schedule: dict[str, Any], nodes: int) -> None:
    cfg = assert_learning_rate(config_with(schedule, nodes=nodes, batch=64))
    once = copy.deepcopy(cfg)

    assert assert_learning_rate(cfg) == once


def test_all_faults_come_in_one_error_and_nothing_is_changed() -> None:
    cfg = config_with({"name": "cosine"}, use_different_wd=True, weight_decay=-1)
    before = copy.deepcopy(cfg)

    with pytest.raises(ConfigError) as caught:
        assert_learning_rate(cfg)

    assert "config.OPTIMIZER.param_schedulers.lr.start_value" in str(caught.value)
    assert "config.OPTIMIZER.head_optimizer_params.weight_decay: expected a number of at " in str(
        caught.value
    )
    assert cfg == before


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("DATA", "DATA.TRAIN.BATCHSIZE_PER_REPLICA", None),
        ("DISTRIBUTED", "DISTRIBUTED.NUM_PROC_PER_NODE", {"NUM_NODES": 1, "NUM_PROC_PER_NODE": 0}),
        ("DISTRIBUTED", "DISTRIBUTED.NUM_NODES", {"NUM_NODES": True, "NUM_PROC_PER_NODE": 1}),
        ("OPTIMIZER", "OPTIMIZER.param_schedulers.lr", {"weight_decay": 0.1}),
    ],
)
def test_a_missing_or_impossible_setting_is_named(section: str, key: str, value: Any) -> None:
    cfg = config_with()
    cfg[section] = value or {}

    with pytest.raises(ConfigError, match=f"config.{key}: "):
        assert_learning_rate(cfg)


@pytest.mark.parametrize("base", [0.0, -1])
def test_a_base_batch_of_nothing_does_not_divide(base: float) -> None:
    cfg = config_with()
    cfg.OPTIMIZER.param_schedulers.lr.auto_lr_scaling.base_lr_batch_size = base

    with pytest.raises(
        ConfigError, match=r"lr\.auto_lr_scaling\.base_lr_batch_size: expected a whole"
    ):
        assert_learning_rate(cfg)
