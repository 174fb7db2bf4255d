"""Settings of a training program that follow from other settings, all in one go."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.config.checks import raise_faults
from assay.config.learning_rate import infer_learning_rate
from assay.config.lookup import (
    Inferred,
    batch_sizes,
    collected_in,
    merged_changes,
    read_value,
    set_values,
)
from assay.config.losses import infer_losses
from assay.config.paths import checkpoint_folder, is_web_address
from assay.config.weights_cache import cached_weights
from assay.errors import ConfigError, nearest_names

__all__ = ["assert_hydra_conf", "infer_settings"]

_LOG = logging.getLogger(__name__)

_EVAL = "MODEL.FEATURE_EVAL_SETTINGS"
_LAYERS = f"{_EVAL}.LINEAR_EVAL_FEAT_POOL_OPS_MAP"
_WEIGHTS = "MODEL.WEIGHTS_INIT.PARAMS_FILE"
_CACHE = "params_file_cache"


def assert_hydra_conf(cfg: Any) -> None:
    """Set, in place, what follows from the rest of ``cfg``.

    - the loss, as :func:`~assay.config.losses.assert_losses` does, and the rates, as
      :func:`~assay.config.learning_rate.assert_learning_rate` does;
    - a feature extractor (EVAL_MODE_ON, FREEZE_TRUNK_ONLY, layers named) with a meter: one meter
      for each layer, named after it;
    - a trunk whose features alone are extracted on several ranks, without a head: a head that
      DistributedDataParallel can hold on to;
    - LABEL_TYPE of TRAIN and TEST: standard where there are LABEL_SOURCES, else sample_index;
    - weights that are named by an address on the web: fetched to ``params_file_cache`` in the
      folder of checkpoints, and named by the file.

    A section that is not there has nothing to infer.

    Args:
        cfg: the section ``config``.

    Raises:
        ConfigError: one error with every fault; then ``cfg`` is as it was, and nothing is fetched.
        ModelError: the weights cannot be fetched.
    """
    inferred = infer_settings(cfg)
    raise_faults(inferred.faults)
    changes = dict(inferred.changes)
    weights = read_value(cfg, _WEIGHTS, "")
    if is_web_address(weights):
        folder = Path(checkpoint_folder(cfg)) / _CACHE
        changes[_WEIGHTS] = str(cached_weights(weights, folder))
    set_values(cfg, changes)
    for note in inferred.notes:
        _LOG.info("%s.", note)


def infer_settings(config: Mapping[str, Any]) -> Inferred:
    """What :func:`assert_hydra_conf` sets, save the weights' file, without setting it."""
    parts = []
    if "LOSS" in config:
        parts.append(infer_losses(config))
    if read_value(config, "OPTIMIZER.param_schedulers", None) is not None:
        parts.append(infer_learning_rate(config))
    for infer in (_meters, _dummy_head, _label_types):
        faults: list[str] = []
        changes: dict[str, Any] = {}
        with collected_in(faults):
            changes = infer(config)
        parts.append(Inferred(changes, tuple(faults)))
    return merged_changes(parts)


def _flag(config: Mapping[str, Any], name: str) -> bool:
    return bool(read_value(config, f"{_EVAL}.{name}", False))


def _meters(config: Mapping[str, Any]) -> dict[str, Any]:
    entries = read_value(config, _LAYERS, [])
    meter = read_value(config, "METERS.name", "")
    is_extractor = _flag(config, "EVAL_MODE_ON") and _flag(config, "FREEZE_TRUNK_ONLY")
    if not (is_extractor and entries and meter):
        return {}
    meters = [name for name, value in config["METERS"].items() if isinstance(value, Mapping)]
    if meter not in meters:
        raise ConfigError(
            f"config.METERS.name: there is no section config.METERS.{meter}."
            f"{nearest_names(str(meter), meters)}"
        )
    names = [_layer_name(entry, place) for place, entry in enumerate(entries)]
    return {
        f"METERS.{meter}.num_meters": len(names),
        f"METERS.{meter}.meter_names": names,
    }


def _layer_name(entry: Any, place: int) -> str:
    """The layer of ``NAME``, ``NAME:POOL`` or ``[NAME, POOLING]``."""
    if isinstance(entry, str) and entry:
        return entry.partition(":")[0]
    if isinstance(entry, (list, tuple)) and entry and isinstance(entry[0], str):
        return entry[0]
    raise ConfigError(f"config.{_LAYERS}[{place}]: expected [NAME, POOLING], given {entry!r}.")


def _dummy_head(config: Mapping[str, Any]) -> dict[str, Any]:
    wanted = ("EVAL_MODE_ON", "FREEZE_TRUNK_ONLY", "EXTRACT_TRUNK_FEATURES_ONLY")
    if not all(_flag(config, name) for name in wanted) or read_value(
        config, "MODEL.HEAD.PARAMS", []
    ):
        return {}
    if batch_sizes(config).world_size == 1:
        return {}
    # DistributedDataParallel refuses a model without a parameter to train.
    return {"MODEL.HEAD.PARAMS": [["mlp", {"dims": [2048, 1000]}]]}


def _label_types(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        f"DATA.{split}.LABEL_TYPE": (
            "standard" if read_value(config, f"DATA.{split}.LABEL_SOURCES", []) else "sample_index"
        )
        for split in ("TRAIN", "TEST")
        if read_value(config, f"DATA.{split}", None) is not None
    }
