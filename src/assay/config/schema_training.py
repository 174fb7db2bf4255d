"""The sections that describe training: ranks, checkpoints, rates, losses and meters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from assay.config.rules import (
    MAY_BE_MISSING,
    Above,
    AtLeast,
    FilePath,
    Finite,
    MinusOneOrAtLeast,
    NotEmpty,
    Pattern,
)

__all__ = ["Checkpoint", "Distributed", "Loss", "Meters", "Optimizer"]

Count = Annotated[int, AtLeast(1)]
CountOrZero = Annotated[int, AtLeast(0)]
Number = Annotated[float, Finite()]


@dataclass(frozen=True)
class Distributed:
    BACKEND: Literal["nccl", "gloo", "mpi", "xccl"]
    NUM_NODES: Count
    NUM_PROC_PER_NODE: Count
    INIT_METHOD: Literal["tcp", "file", "env"]
    RUN_ID: Annotated[str, NotEmpty()] | Count
    NCCL_DEBUG: bool
    NCCL_SOCKET_NTHREADS: Annotated[str, Pattern(r"\d*", "empty text")] | Count
    MANUAL_GRADIENT_REDUCTION: bool


@dataclass(frozen=True)
class Checkpoint:
    DIR: Annotated[str, FilePath()]
    APPEND_DISTR_RUN_ID: bool
    BACKEND: Literal["disk"]
    AUTO_RESUME: bool
    CHECKPOINT_FREQUENCY: Annotated[int, MinusOneOrAtLeast(0)]
    CHECKPOINT_ITER_FREQUENCY: Annotated[int, MinusOneOrAtLeast(0)]
    OVERWRITE_EXISTING: bool
    LATEST_CHECKPOINT_RESUME_FILE_NUM: Count


@dataclass(frozen=True)
class AutoScaling:
    auto_scale: bool
    base_value: Annotated[float, Above(0), Finite()]
    base_lr_batch_size: Count
    scaling_type: Annotated[Literal["linear", "sqrt"], MAY_BE_MISSING]


ScheduleName = Literal[
    "cosine",
    "multistep",
    "step",
    "step_with_fixed_gamma",
    "linear",
    "inverse_sqrt",
    "constant",
    "composite",
]


@dataclass(frozen=True)
class SchedulePart:
    """A part of a composite schedule: the keys that its kind of schedule has."""

    OPEN: ClassVar[bool] = True

    name: ScheduleName


@dataclass(frozen=True)
class Schedule:
    """A rate over time; which of the keys count depends on the name. Some kinds have more keys."""

    OPEN: ClassVar[bool] = True

    auto_lr_scaling: AutoScaling
    name: ScheduleName
    update_interval: Annotated[Literal["epoch", "step"], MAY_BE_MISSING]
    values: Annotated[list[Number], MAY_BE_MISSING]
    milestones: Annotated[list[CountOrZero], MAY_BE_MISSING]
    schedulers: Annotated[list[SchedulePart], MAY_BE_MISSING]
    interval_scaling: Annotated[list[Literal["fixed", "rescaled"]], MAY_BE_MISSING]
    lengths: Annotated[list[Annotated[float, AtLeast(0), Finite()]], MAY_BE_MISSING]
    start_value: Annotated[Number, MAY_BE_MISSING]
    end_value: Annotated[Number, MAY_BE_MISSING]
    value: Annotated[Number, MAY_BE_MISSING]


@dataclass(frozen=True)
class HeadOptimizer:
    use_different_lr: bool
    use_different_wd: bool
    weight_decay: Annotated[float, AtLeast(0), Finite()]


@dataclass(frozen=True)
class Schedules:
    lr: Schedule
    lr_head: Annotated[Schedule, MAY_BE_MISSING]


@dataclass(frozen=True)
class Optimizer:
    weight_decay: Annotated[float, AtLeast(0), Finite()]
    num_epochs: Count
    head_optimizer_params: HeadOptimizer
    param_schedulers: Schedules


@dataclass(frozen=True)
class ListMeter:
    """A meter over several layers. Meters have further arguments of their own (topk, ...)."""

    OPEN: ClassVar[bool] = True

    num_meters: Count
    meter_names: list[str]


@dataclass(frozen=True)
class Meters:
    """Besides the two below, a section for any other meter."""

    OPEN: ClassVar[bool] = True

    name: str
    accuracy_list_meter: Annotated[ListMeter, MAY_BE_MISSING]
    mean_ap_list_meter: Annotated[ListMeter, MAY_BE_MISSING]


@dataclass(frozen=True)
class BufferParams:
    world_size: Count
    embedding_dim: Count
    effective_batch_size: Count


@dataclass(frozen=True)
class SimclrLoss:
    OPEN: ClassVar[bool] = True

    buffer_params: BufferParams


@dataclass(frozen=True)
class MulticropSimclrLoss:
    OPEN: ClassVar[bool] = True

    num_crops: Count
    buffer_params: BufferParams


@dataclass(frozen=True)
class BceLoss:
    OPEN: ClassVar[bool] = True

    world_size: Count


@dataclass(frozen=True)
class DeepClusterLoss:
    OPEN: ClassVar[bool] = True

    DROP_LAST: bool
    BATCHSIZE_PER_REPLICA: Count
    num_crops: Count


@dataclass(frozen=True)
class Queue:
    queue_length: CountOrZero
    local_queue_length: CountOrZero
    start_iter: CountOrZero


@dataclass(frozen=True)
class SwavMomentumLoss:
    OPEN: ClassVar[bool] = True

    embedding_dim: Count
    num_crops: Count
    num_prototypes: Annotated[list[Count], NotEmpty()]
    queue: Queue


@dataclass(frozen=True)
class SwavLoss(SwavMomentumLoss):
    output_dir: Annotated[str, FilePath()]


@dataclass(frozen=True)
class Loss:
    """Besides the ones below, a section for any other loss; each takes arguments of its own."""

    OPEN: ClassVar[bool] = True

    name: Annotated[str, NotEmpty()]
    simclr_info_nce_loss: Annotated[SimclrLoss, MAY_BE_MISSING]
    multicrop_simclr_info_nce_loss: Annotated[MulticropSimclrLoss, MAY_BE_MISSING]
    bce_logits_multiple_output_single_target: Annotated[BceLoss, MAY_BE_MISSING]
    deepclusterv2_loss: Annotated[DeepClusterLoss, MAY_BE_MISSING]
    swav_loss: Annotated[SwavLoss, MAY_BE_MISSING]
    swav_momentum_loss: Annotated[SwavMomentumLoss, MAY_BE_MISSING]
