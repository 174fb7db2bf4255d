"""The sections about images: which, how they become a model's input, how features are taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from assay.config.rules import (
    AtLeast,
    FilePath,
    Length,
    MinusOneOrAtLeast,
    NotEmpty,
    Within,
)

__all__ = ["Data", "Extract", "Transform"]

Source = Literal["auto", "digits", "disk_filelist", "disk_folder", "npy", "voc"]
Size = Annotated[int, Within(1, 16_384)]


@dataclass(frozen=True)
class TransformStep:
    """One entry of TRANSFORMS: its name, and whatever arguments that transform has."""

    OPEN: ClassVar[bool] = True

    name: Annotated[str, NotEmpty()]


@dataclass(frozen=True)
class Split:
    DATA_SOURCES: list[Source]
    DATA_PATHS: list[Annotated[str, FilePath(words=("digits",), required=True)]]
    LABEL_SOURCES: list[Source]
    LABEL_PATHS: list[Annotated[str, FilePath(required=True)]]
    LABEL_TYPE: Literal["standard", "sample_index"]
    BATCHSIZE_PER_REPLICA: Annotated[int, AtLeast(1)]
    TRANSFORMS: list[TransformStep]
    COLLATE_FUNCTION: Annotated[str, NotEmpty()]
    DATA_LIMIT: Annotated[int, MinusOneOrAtLeast(1)]
    DROP_LAST: bool
    MMAP_MODE: bool
    COPY_TO_LOCAL_DISK: bool
    COPY_DESTINATION_DIR: Annotated[str, FilePath()]


@dataclass(frozen=True)
class Data:
    NUM_DATALOADER_WORKERS: Annotated[int, AtLeast(0)]
    PIN_MEMORY: bool
    TEST_FRACTION: Annotated[float, Within(0, 1, open=True)]
    BAD_IMAGES: Literal["error", "skip"]
    TRAIN: Split
    TEST: Split


@dataclass(frozen=True)
class Transform:
    RESIZE: Size | Annotated[list[Size], Length(2)] | None
    CROP: Size | Annotated[list[Size], Length(2)] | Literal["none"] | None
    INTERPOLATION: Literal["nearest", "bilinear", "bicubic", "lanczos"] | None
    MEAN: Annotated[list[Annotated[float, Within(-1e6, 1e6)]], Length(3)] | None
    STD: Annotated[list[Annotated[float, Within(1e-6, 1e6)]], Length(3)] | None


@dataclass(frozen=True)
class Extract:
    AMP: Literal["none", "bf16", "fp16"]
    CHANNELS_LAST: bool | Literal["auto"]
