"""The section about the model: which one, its weights, which of its layers are the features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from assay.config.rules import FilePath, NotEmpty, PoolingEntry

__all__ = ["Model"]


@dataclass(frozen=True)
class Trunk:
    NAME: Annotated[str, NotEmpty()] | None


@dataclass(frozen=True)
class Head:
    PARAMS: list[Annotated[list[Any], NotEmpty()]]  # [NAME, {its arguments}] each


@dataclass(frozen=True)
class WeightsInit:
    PARAMS_FILE: Annotated[str, FilePath(words=("random",))]
    STATE_DICT_KEY_NAME: str
    SKIP_LAYERS: list[str] | None
    REMOVE_PREFIX: str
    APPEND_PREFIX: str


@dataclass(frozen=True)
class FeatureEvalSettings:
    EVAL_MODE_ON: bool
    FREEZE_TRUNK_ONLY: bool
    FREEZE_TRUNK_AND_HEAD: bool
    EXTRACT_TRUNK_FEATURES_ONLY: bool
    EVAL_TRUNK_AND_HEAD: bool
    SHOULD_FLATTEN_FEATS: bool
    LINEAR_EVAL_FEAT_POOL_OPS_MAP: list[Annotated[Any, PoolingEntry()]]


@dataclass(frozen=True)
class Model:
    TRUNK: Trunk
    HEAD: Head
    WEIGHTS_INIT: WeightsInit
    FEATURE_EVAL_SETTINGS: FeatureEvalSettings
