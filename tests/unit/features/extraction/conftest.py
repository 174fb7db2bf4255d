"""Random pictures, a tiny model, and the extraction of one with the other."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from assay.errors import ImageError
from assay.features.extract import ExtractOptions, ExtractResult, LayerSpec, extract_features
from assay.features.image_set import ImageSet
from assay.features.models import VisionModel, weights_digest
from assay.features.shards import FeatureSet, merge_shards
from assay.features.transforms import ImageTransform

LAYERS = [LayerSpec("conv"), LayerSpec("head")]
QUICK = ExtractOptions(batch_size=4, num_workers=0, device="cpu", num_threads=1)


class Pictures(ImageSet):
    """Random pictures, the same for the same seed; those in ``bad`` cannot be read."""

    def __init__(self, count: int = 11, seed: int = 0, bad: tuple[int, ...] = ()) -> None:
        super().__init__(
            source="pictures",
            class_names=["cat", "dog"],
            targets=(np.arange(count, dtype=np.int64) % 2)[:, None],
            names=[f"picture/{index}" for index in range(count)],
            multi_label=False,
        )
        self.seed, self.bad = seed, bad
        self.loaded: list[int] = []

    def load(self, index: int) -> Image.Image:
        self.loaded.append(index)
        if index in self.bad:
            raise ImageError(f"{self.location(index)}: torn")
        random = np.random.default_rng([self.seed, index])
        return Image.fromarray(random.integers(0, 256, (8, 8, 3), np.uint8))

    def _content(self) -> Iterator[bytes]:
        yield repr((self.seed, self.bad)).encode()


class Unequal(Pictures):
    """Pictures of which each is of another size."""

    def load(self, index: int) -> Image.Image:
        return super().load(index).resize((8 + index, 8))


def build_tiny_model(seed: int = 0) -> VisionModel:
    """A convolution, pooled, and a linear layer."""
    torch.manual_seed(seed)
    layers = [
        ("conv", nn.Conv2d(3, 5, 3)),
        ("relu", nn.ReLU(inplace=True)),
        ("pool", nn.AdaptiveAvgPool2d(1)),
        ("flat", nn.Flatten()),
        ("head", nn.Linear(5, 7)),
    ]
    module = nn.Sequential(OrderedDict(layers)).eval().requires_grad_(False)
    return VisionModel(
        name="tiny",
        module=module,
        transform=ImageTransform(resize=(8, 8)),
        weights="random",
        weights_digest=weights_digest(module),
        num_parameters=sum(parameter.numel() for parameter in module.parameters()),
    )


def extract_all(
    folder: Path,
    model: VisionModel | None = None,
    images: ImageSet | None = None,
    layers: list[LayerSpec] = LAYERS,
    *,
    world_size: int = 1,
    options: ExtractOptions = QUICK,
    progress: Callable[[int], None] | None = None,
) -> list[ExtractResult]:
    """What all ranks return, one after the other."""
    return [
        extract_features(
            model or build_tiny_model(),
            Pictures() if images is None else images,
            layers,
            folder,
            split="train",
            rank=rank,
            world_size=world_size,
            options=options,
            progress=progress,
        )
        for rank in range(world_size)
    ]


def have_same_bits(one: FeatureSet, other: FeatureSet) -> bool:
    return (
        one.features.tobytes() == other.features.tobytes()
        and np.array_equal(one.targets, other.targets)
        and np.array_equal(one.inds, other.inds)
    )


def merge(folder: Path, layer: str = "head") -> FeatureSet:
    return merge_shards(folder, "train", layer)


@pytest.fixture(scope="session", name="Pictures")
def pictures_type() -> type[Pictures]:
    return Pictures


@pytest.fixture(scope="session", name="UnequalPictures")
def unequal_pictures_type() -> type[Unequal]:
    return Unequal


@pytest.fixture(scope="session", name="tiny_model")
def tiny_model_builder() -> Callable[..., VisionModel]:
    return build_tiny_model


@pytest.fixture(scope="session", name="extract")
def extractor() -> Callable[..., list[ExtractResult]]:
    return extract_all


@pytest.fixture(scope="session", name="merged")
def merger() -> Callable[..., FeatureSet]:
    return merge


@pytest.fixture(scope="session", name="same_bits")
def bit_comparison() -> Callable[[FeatureSet, FeatureSet], bool]:
    return have_same_bits
