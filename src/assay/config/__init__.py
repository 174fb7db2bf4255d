"""Settings: Hydra composes them from files and overrides, a schema checks them."""

from __future__ import annotations

from assay.config.attrdict import AttrDict
from assay.config.checks import check
from assay.config.compose import compose, config_names
from assay.config.convert import convert_to_attrdict, is_hydra_available
from assay.config.infer import assert_hydra_conf
from assay.config.learning_rate import (
    assert_learning_rate,
    get_scaled_lr_scheduler,
    resolve_linear_schedule,
)
from assay.config.losses import assert_losses
from assay.config.paths import resolve_paths
from assay.config.printing import print_cfg, to_plain
from assay.config.schema_keys import setting_keys
from assay.runtime.masking import masked_text

__all__ = [
    "AttrDict",
    "assert_hydra_conf",
    "assert_learning_rate",
    "assert_losses",
    "check",
    "compose",
    "config_names",
    "convert_to_attrdict",
    "get_scaled_lr_scheduler",
    "is_hydra_available",
    "masked_text",
    "print_cfg",
    "resolve_linear_schedule",
    "resolve_paths",
    "setting_keys",
    "to_plain",
]
