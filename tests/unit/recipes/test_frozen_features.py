from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

from assay.errors import ModelError, ShardError
from assay.features.datasets import open_images, split_images
from assay.features.extract import ExtractOptions, LayerSpec, extract_features
from assay.features.models import VisionModel, weights_digest
from assay.features.transforms import ImageTransform
from assay.recipes.frozen_features import FrozenFeatures
from assay.report.progress import ProgressView

TRANSFORM = ImageTransform(resize=(8, 8))
LAYER = LayerSpec("0")
OPTIONS = ExtractOptions(num_workers=0, device="cpu")


def vision_model(*layers: nn.Module) -> VisionModel:
    module = nn.Sequential(*layers).eval()
    return VisionModel("python:m:f", module, TRANSFORM, "random", weights_digest(module), 1)


def test_features_that_another_run_put_in_their_place_are_refused(tmp_path: Path) -> None:
    train, test = split_images(open_images("digits", [], split="train", limit=20), 0.5, 0)
    splits = {"train": train, "test": test}
    first, second = vision_model(nn.Conv2d(3, 4, 3)), vision_model(nn.Conv2d(3, 4, 3))
    for model in (first, second):
        for split, images in splits.items():
            folder = tmp_path / "features"
            extract_features(model, images, [LAYER], folder, split=split, options=OPTIONS)

    FrozenFeatures(second, splits, (LAYER,), tmp_path, "cpu").merged("0", ProgressView())
    with pytest.raises(ShardError, match="another run"):
        FrozenFeatures(first, splits, (LAYER,), tmp_path, "cpu").merged("0", ProgressView())


def test_a_model_that_changed_its_layers_but_not_its_weights_is_run_again(tmp_path: Path) -> None:
    images = open_images("digits", [], split="train", limit=10)
    for activation in (nn.ReLU(), nn.Tanh()):
        result = extract_features(
            vision_model(activation), images, [LAYER], tmp_path, split="train", options=OPTIONS
        )

        assert not result.reused


def test_a_model_that_fails_on_the_images_is_a_clear_error(tmp_path: Path) -> None:
    images = open_images("digits", [], split="train", limit=10)

    with pytest.raises(ModelError, match="8 x 8 pixels"):
        extract_features(
            vision_model(nn.Conv2d(1, 2, 3)),
            images,
            [LAYER],
            tmp_path,
            split="train",
            options=OPTIONS,
        )
