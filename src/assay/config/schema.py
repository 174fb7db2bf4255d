"""The settings as a whole: which keys there are, and what each may be.

A section is a frozen dataclass whose fields are its keys. A field's type says what the value is
(``bool``, ``int``, ``float``, ``str``, ``Literal``, ``list``, ``X | None``, another section); rules
in ``Annotated`` narrow it. A section with ``OPEN = True`` takes keys of the user's own besides. A
section may have ``contradictions``, values that are fine alone and not together: a static method
that takes the section and yields for each the keys involved and what is wrong. Defaults stand in
``yaml/defaults.yaml``, each with its meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from assay.config.rules import (
    Above,
    AtLeast,
    FilePath,
    MinusOneOrAtLeast,
    NotEmpty,
    Pattern,
    Within,
)
from assay.config.schema_data import Data, Extract, Transform
from assay.config.schema_evaluate import ImageRetrieval, NearestNeighbor, Svm
from assay.config.schema_model import Model
from assay.config.schema_training import Checkpoint, Distributed, Loss, Meters, Optimizer

__all__ = ["SUPPORTED_VERSION", "Settings"]

SUPPORTED_VERSION = 1


@dataclass(frozen=True)
class Machine:
    DEVICE: Annotated[
        str,
        Pattern(r"auto|cpu|gpu|mps|(cuda|xpu)(:\d+)?", "auto, cpu, gpu, cuda, cuda:N, mps or xpu"),
    ]


@dataclass(frozen=True)
class Run:
    OUTPUT_DIR: Annotated[str, FilePath(required=True)]
    FORCE: bool
    REPORT: bool


@dataclass(frozen=True)
class TensorBoardSetup:
    USE_TENSORBOARD: bool
    FLUSH_EVERY_N_MIN: Annotated[float, Above(0)]
    LOG_PARAMS: bool
    LOG_PARAMS_GRADIENTS: bool
    LOG_PARAMS_EVERY_N_ITERS: Annotated[int, AtLeast(1)]


@dataclass(frozen=True)
class Config:
    """The section ``config``, which recipes read."""

    # numpy's legacy generators take seeds of 32 bits.
    SEED_VALUE: Annotated[int, Within(0, 2**32 - 1)]
    LOG_FREQUENCY: Annotated[int, AtLeast(1)]
    MULTI_PROCESSING_METHOD: Literal["forkserver", "spawn", "fork"]
    MONITOR_PERF_STATS: bool
    PERF_STAT_FREQUENCY: Annotated[int, MinusOneOrAtLeast(1)]
    ROLLING_BTIME_FREQ: Annotated[int, MinusOneOrAtLeast(1)]
    RUN: Run
    MACHINE: Machine
    DATA: Data
    TRANSFORM: Transform
    EXTRACT: Extract
    MODEL: Model
    SVM: Svm
    NEAREST_NEIGHBOR: NearestNeighbor
    IMG_RETRIEVAL: ImageRetrieval
    DISTRIBUTED: Distributed
    CHECKPOINT: Checkpoint
    OPTIMIZER: Optimizer
    METERS: Meters
    LOSS: Loss
    TENSORBOARD_SETUP: TensorBoardSetup


@dataclass(frozen=True)
class Settings:
    """Everything that is composed."""

    VERSION: Literal[1]
    node_id: Annotated[int, AtLeast(0)]
    engine_name: Annotated[str, NotEmpty()]
    config: Config
