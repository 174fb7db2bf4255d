"""Settings of losses that follow from the rest: ranks, batch sizes, crops, queues, prototypes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from assay.config.checks import raise_faults
from assay.config.lookup import (
    BatchSizes,
    Inferred,
    batch_sizes,
    collected_in,
    read_count,
    read_value,
    set_values,
)
from assay.config.paths import checkpoint_folder
from assay.errors import ConfigError

__all__ = ["assert_losses", "infer_losses"]

_LOG = logging.getLogger(__name__)

Config = TypeVar("Config", bound=Mapping[str, Any])
Rule = Callable[[Mapping[str, Any], str, BatchSizes], "_Found"]

_COLLATOR = "DATA.TRAIN.COLLATE_FUNCTION"
_MULTICROP = "multicrop_collator"
_MULTICROP_KINDS = (_MULTICROP, "multicrop_mixup_collator")


class _Found:
    """What a rule has found so far; each finding that fails is noted, and the rest go on."""

    def __init__(self) -> None:
        self.changes: dict[str, Any] = {}
        self.faults: list[str] = []
        self.notes: list[str] = []

    def add(self, find: Callable[[], Mapping[str, Any]]) -> None:
        with collected_in(self.faults):
            self.changes |= find()


def assert_losses(cfg: Config) -> Config:
    """Set, in place, what the loss in use needs to know of the rest of ``cfg``.

    With W the number of ranks and B the images of a batch of one rank:

    ======================================== ======================================================
    any name with simclr_info_nce_loss in it world_size W, effective_batch_size 2BW
    multicrop_simclr_info_nce_loss           effective_batch_size BW, crops, collator
    bce_logits_multiple_output_single_target world_size W
    deepclusterv2_loss                       DROP_LAST and batch size of the data, crops, collator
    swav_loss                                prototypes and dimensions of its one swav_head, crops,
                                             the folder of checkpoints, queue lengths; its collator
                                             has to be one that knows crops
    swav_momentum_loss                       the same without a folder; its collator is set
    ======================================== ======================================================

    The number of crops is the ``total_num_crops`` of the first transform that has one; where none
    has, the loss keeps its own. A queue is cut to whole batches of all ranks, and shared out to
    them. Other losses are left alone.

    Args:
        cfg: the section ``config``.

    Returns:
        ``cfg`` itself.

    Raises:
        ConfigError: with every fault; then ``cfg`` is as it was.
    """
    inferred = infer_losses(cfg)
    raise_faults(inferred.faults)
    set_values(cfg, inferred.changes)
    for note in inferred.notes:
        _LOG.info("%s.", note)
    return cfg


def infer_losses(config: Mapping[str, Any]) -> Inferred:
    """What :func:`assert_losses` sets, without setting it."""
    faults: list[str] = []
    with collected_in(faults):
        name = str(read_value(config, "LOSS.name"))
        rule = _rule_of(name)
        if rule is None:
            return Inferred()
        found = rule(config, name, batch_sizes(config))
        return Inferred(found.changes, tuple(found.faults), tuple(found.notes))
    return Inferred(faults=tuple(faults))


def _rule_of(name: str) -> Rule | None:
    if name in _RULES:
        return _RULES[name]
    return _simclr if "simclr_info_nce_loss" in name else None


def _simclr(config: Mapping[str, Any], name: str, sizes: BatchSizes) -> _Found:
    found = _Found()
    views = 2 * sizes.all_nodes  # two views of each image
    found.changes = {
        f"LOSS.{name}.buffer_params.world_size": sizes.world_size,
        f"LOSS.{name}.buffer_params.effective_batch_size": views,
    }
    return found


def _multicrop_simclr(config: Mapping[str, Any], name: str, sizes: BatchSizes) -> _Found:
    found = _Found()
    found.changes = {
        f"LOSS.{name}.buffer_params.world_size": sizes.world_size,
        f"LOSS.{name}.buffer_params.effective_batch_size": sizes.all_nodes,
        _COLLATOR: _MULTICROP,
    }
    _add_crops(found, config, name)
    return found


def _bce_logits(config: Mapping[str, Any], name: str, sizes: BatchSizes) -> _Found:
    found = _Found()
    found.changes = {f"LOSS.{name}.world_size": sizes.world_size}
    return found


def _deepcluster(config: Mapping[str, Any], name: str, sizes: BatchSizes) -> _Found:
    found = _Found()
    found.changes = {
        f"LOSS.{name}.BATCHSIZE_PER_REPLICA": sizes.per_replica,
        _COLLATOR: _MULTICROP,
    }
    found.add(lambda: {f"LOSS.{name}.DROP_LAST": bool(read_value(config, "DATA.TRAIN.DROP_LAST"))})
    _add_crops(found, config, name)
    return found


def _swav(config: Mapping[str, Any], name: str, sizes: BatchSizes) -> _Found:
    found = _swav_momentum(config, name, sizes)
    del found.changes[_COLLATOR]
    found.add(lambda: {f"LOSS.{name}.output_dir": checkpoint_folder(config)})
    collator = read_value(config, _COLLATOR, None)
    if collator not in _MULTICROP_KINDS:
        found.faults.append(
            f"config.{_COLLATOR}: {name} needs {' or '.join(_MULTICROP_KINDS)}, given {collator!r}."
        )
    return found


def _swav_momentum(config: Mapping[str, Any], name: str, sizes: BatchSizes) -> _Found:
    found = _Found()
    found.changes = {_COLLATOR: _MULTICROP}
    found.add(lambda: _prototypes(config, name))
    found.add(lambda: _queue(config, name, sizes))
    _add_crops(found, config, name)
    length = f"LOSS.{name}.queue.queue_length"
    if found.changes.get(length) == 0 and read_value(config, length) > 0:
        found.notes.append(
            f"config.{length}: {read_value(config, length)} is less than a batch of all ranks "
            f"({sizes.all_nodes} images), so there is no queue"
        )
    return found


_RULES: dict[str, Rule] = {
    "multicrop_simclr_info_nce_loss": _multicrop_simclr,
    "bce_logits_multiple_output_single_target": _bce_logits,
    "deepclusterv2_loss": _deepcluster,
    "swav_loss": _swav,
    "swav_momentum_loss": _swav_momentum,
}


def _add_crops(found: _Found, config: Mapping[str, Any], name: str) -> None:
    key = "total_num_crops"
    transforms = read_value(config, "DATA.TRAIN.TRANSFORMS", [])
    for place, transform in enumerate(transforms):
        if isinstance(transform, Mapping) and key in transform:
            where = f"config.DATA.TRAIN.TRANSFORMS[{place}]"
            found.add(
                lambda of=transform, at=where: {  # type: ignore[misc]
                    f"LOSS.{name}.num_crops": read_count(of, key, section=at)
                }
            )
            return
    found.notes.append(
        f"config.LOSS.{name}.num_crops: no transform of config.DATA.TRAIN.TRANSFORMS says {key}, "
        f"so it stays {read_value(config, f'LOSS.{name}.num_crops', None)}"
    )


def _prototypes(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    heads = read_value(config, "MODEL.HEAD.PARAMS", [])
    names = [head[0] if _is_list(head) and head else head for head in heads]
    if names != ["swav_head"]:
        raise ConfigError(
            f"config.MODEL.HEAD.PARAMS: {name} needs one head, swav_head; given "
            f"{', '.join(map(str, names)) or 'none'}."
        )
    where = "config.MODEL.HEAD.PARAMS[0][1]"
    arguments = heads[0][1] if len(heads[0]) > 1 else {}
    clusters = read_value(arguments, "num_clusters", section=where)
    dims = read_value(arguments, "dims", section=where)
    if not _is_list(dims) or not dims:
        raise ConfigError(f"{where}.dims: expected a list of sizes, given {dims!r}.")
    return {
        f"LOSS.{name}.num_prototypes": list(clusters) if _is_list(clusters) else [clusters],
        f"LOSS.{name}.embedding_dim": dims[-1],
    }


def _queue(config: Mapping[str, Any], name: str, sizes: BatchSizes) -> dict[str, Any]:
    key = f"LOSS.{name}.queue"
    length = read_count(config, f"{key}.queue_length", minimum=0)
    length -= length % sizes.all_nodes
    return {
        f"{key}.queue_length": length,
        f"{key}.local_queue_length": length // sizes.world_size,
    }


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
