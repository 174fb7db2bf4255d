"""Learning rates that follow from the batch size, of trunk and heads; the head's weight decay."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping
from typing import Any, TypeVar

from assay.config.attrdict import AttrDict
from assay.config.checks import raise_faults
from assay.config.lookup import (
    Inferred,
    batch_sizes,
    collected_in,
    read_count,
    read_number,
    read_value,
    set_values,
)
from assay.config.rate_schedules import (
    has_warmup,
    resolved_warmups,
    scaled_rate,
    scaled_schedule,
)
from assay.errors import ConfigError

__all__ = [
    "assert_learning_rate",
    "get_scaled_lr_scheduler",
    "infer_learning_rate",
    "resolve_linear_schedule",
]

_LOG = logging.getLogger(__name__)

Config = TypeVar("Config", bound=Mapping[str, Any])

_SCHEDULERS = "OPTIMIZER.param_schedulers"
_HEAD = "OPTIMIZER.head_optimizer_params"


def get_scaled_lr_scheduler(
    cfg: Mapping[str, Any], param_schedulers: Mapping[str, Any], scaled_lr: float
) -> AttrDict:
    """A copy of a schedule, scaled to ``scaled_lr``; nothing that is given changes.

    What changes for each kind of schedule is the table of
    :func:`~assay.config.rate_schedules.scaled_schedule`. Warm-ups within a composite are looked at
    as :func:`resolve_linear_schedule` does.

    Args:
        cfg: the section ``config``, read only where there is a warm-up.
        param_schedulers: a schedule, such as ``config.OPTIMIZER.param_schedulers.lr``.
        scaled_lr: the rate that it is scaled to.

    Raises:
        ConfigError: the kind of schedule is unknown, or a key it needs is missing or has a value
            from which no rate follows.
    """
    scaled, notes = _scaled(cfg, param_schedulers, scaled_lr, "param_schedulers")
    _log(notes)
    return AttrDict(scaled)


def resolve_linear_schedule(
    cfg: Mapping[str, Any], param_schedulers: Mapping[str, Any]
) -> AttrDict:
    """A copy of a composite schedule with its linear warm-ups settled; nothing given changes.

    A warm-up climbs from the rate for the batch of one node to the one for the batch of all
    (arXiv:1706.02677), its ``end_value``, which :func:`get_scaled_lr_scheduler` has set. On one
    node the two are the same, so a warm-up with nowhere to climb is taken out with its length and
    its interval scaling, the rest fills its time, and the log says so. A composite of which one
    part is left becomes that part.

    Args:
        cfg: the section ``config``, read for the batch size, processes and nodes.
        param_schedulers: a composite with its ``auto_lr_scaling``.

    Raises:
        ConfigError: a key that is needed is missing or has a value from which no rate follows.
    """
    resolved, notes = _resolved(cfg, param_schedulers, "param_schedulers")
    _log(notes)
    return AttrDict(resolved)


def assert_learning_rate(cfg: Config) -> Config:
    """Set the rates in ``cfg``, in place: those of trunk and head, and the head's weight decay.

    With ``auto_lr_scaling.auto_scale`` the schedule ``lr`` is scaled to ``base_value *
    (BATCHSIZE_PER_REPLICA * NUM_NODES * NUM_PROC_PER_NODE) / base_lr_batch_size``, or by the square
    root of that quotient with ``scaling_type: sqrt``. ``lr_head`` is a copy of the result, unless
    the head has its own (``use_different_lr``), which then scales itself if told to. The head's
    weight decay is the trunk's, unless ``use_different_wd``. Doing it twice changes nothing more.

    Args:
        cfg: the section ``config``.

    Returns:
        ``cfg`` itself.

    Raises:
        ConfigError: with every fault; then ``cfg`` is as it was.
    """
    inferred = infer_learning_rate(cfg)
    raise_faults(inferred.faults)
    set_values(cfg, inferred.changes)
    _log(inferred.notes)
    return cfg


def infer_learning_rate(config: Mapping[str, Any]) -> Inferred:
    """What :func:`assert_learning_rate` sets, without setting it."""
    changes: dict[str, Any] = {}
    faults: list[str] = []
    notes: list[str] = []
    for infer in (_rates, _head_weight_decay):
        with collected_in(faults):
            found, said = infer(config)
            changes |= found
            notes += said
    return Inferred(changes, tuple(faults), tuple(notes))


def _rates(config: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    trunk, notes = _scaled_if_asked(config, "lr")
    if not read_value(config, f"{_HEAD}.use_different_lr", False):
        head = copy.deepcopy(trunk)
    else:
        head, more = _scaled_if_asked(config, "lr_head")
        notes += more
    return {f"{_SCHEDULERS}.lr": trunk, f"{_SCHEDULERS}.lr_head": head}, notes


def _scaled_if_asked(config: Mapping[str, Any], name: str) -> tuple[dict[str, Any], list[str]]:
    key = f"{_SCHEDULERS}.{name}"
    schedule = read_value(config, key)
    if not read_value(config, f"{key}.auto_lr_scaling.auto_scale", False):
        return copy.deepcopy(dict(schedule)), []
    sizes = batch_sizes(config)
    rate = _rate(schedule, sizes.all_nodes, f"config.{key}")
    scaled, notes = _scaled(config, schedule, rate, f"config.{key}")
    said = f"config.{key}: scaled to a rate of {rate:g} for {sizes.all_nodes} images a step"
    return scaled, [said, *notes]


def _head_weight_decay(config: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    key = f"{_HEAD}.weight_decay"
    if not read_value(config, f"{_HEAD}.use_different_wd", False):
        return {key: read_number(config, "OPTIMIZER.weight_decay")}, []
    if read_number(config, key) < 0:
        raise ConfigError(
            f"config.{key}: expected a number of at least 0, given {read_value(config, key)!r}."
        )
    return {}, []


def _scaled(
    config: Mapping[str, Any], schedule: Mapping[str, Any], rate: float, where: str
) -> tuple[dict[str, Any], list[str]]:
    scaled = scaled_schedule(schedule, rate, where=where)
    return _resolved(config, scaled, where) if has_warmup(scaled) else (scaled, [])


def _resolved(
    config: Mapping[str, Any], schedule: Mapping[str, Any], where: str
) -> tuple[dict[str, Any], list[str]]:
    sizes = batch_sizes(config)
    resolved = resolved_warmups(
        schedule,
        _rate(schedule, sizes.per_node, where),
        one_node=sizes.num_nodes == 1,
        where=where,
    )
    return resolved.schedule, list(resolved.notes)


def _rate(schedule: Mapping[str, Any], batch_size: int, where: str) -> float:
    return scaled_rate(
        read_number(schedule, "auto_lr_scaling.base_value", section=where),
        batch_size,
        read_count(schedule, "auto_lr_scaling.base_lr_batch_size", section=where),
        rule=read_value(schedule, "auto_lr_scaling.scaling_type", "linear"),
        where=f"{where}.auto_lr_scaling",
    )


def _log(notes: list[str] | tuple[str, ...]) -> None:
    for note in notes:
        _LOG.info("%s.", note)
