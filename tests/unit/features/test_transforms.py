"""An image becomes a model's input as torchvision makes it."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms as reference
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from assay.errors import ConfigError, DataError
from assay.features import ImageTransform
from assay.features.transforms import IMAGENET_MEAN, IMAGENET_STD


def noise(height: int, width: int, seed: int = 0) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def torchvision_chain(resize: Any, crop: Any, interpolation: str) -> reference.Compose:
    mode = reference.InterpolationMode(interpolation)
    steps: list[Any] = []
    if resize is not None:
        steps.append(reference.Resize(resize, interpolation=mode, antialias=True))
    if crop is not None:
        steps.append(reference.CenterCrop(crop))
    steps += [reference.ToTensor(), reference.Normalize(IMAGENET_MEAN, IMAGENET_STD)]
    return reference.Compose(steps)


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("resize", [None, 32, (20, 45)])
@pytest.mark.parametrize("crop", [None, (24, 24), (17, 30), (64, 80)])
def test_equals_the_chain_of_torchvision_to_the_bit(
    interpolation: Any, resize: Any, crop: Any
) -> None:
    image = noise(37, 61)
    ours = ImageTransform(resize=resize, crop=crop, interpolation=interpolation)(image)
    assert torch.equal(ours, torchvision_chain(resize, crop, interpolation)(image))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 40), st.integers(1, 40), st.integers(1, 30), st.integers(1, 30),
    st.integers(1, 30),
)  # fmt: skip
def test_any_image_gives_the_promised_shape(
    height: int, width: int, short_side: int, crop_height: int, crop_width: int
) -> None:
    transform = ImageTransform(resize=short_side, crop=(crop_height, crop_width))
    pixels = transform(noise(height, width))
    assert pixels.shape == (3, crop_height, crop_width)
    assert pixels.dtype == torch.float32
    assert pixels.is_contiguous()
    assert torch.isfinite(pixels).all()


def test_a_crop_larger_than_the_image_pads_with_black() -> None:
    transform = ImageTransform(crop=(6, 6), mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    pixels = transform(Image.new("RGB", (2, 2), "white"))
    assert pixels.sum() == 2 * 2 * 3
    assert torch.equal(pixels[:, 2:4, 2:4], torch.ones(3, 2, 2))


def test_the_input_size_is_known_when_it_is_fixed() -> None:
    assert ImageTransform(resize=256, crop=(224, 200)).input_size == (224, 200)
    assert ImageTransform(resize=(64, 32)).input_size == (64, 32)
    assert ImageTransform(resize=64).input_size is None
    assert ImageTransform().input_size is None


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK", "I;16", "1"])
def test_an_image_that_is_not_rgb_is_refused(mode: str) -> None:
    with pytest.raises(DataError, match=rf"mode {mode} .*read_image"):
        ImageTransform()(Image.new(mode, (4, 4)))


def test_survives_json_and_pickle() -> None:
    transform = ImageTransform(resize=(64, 48), crop=None, interpolation="lanczos")
    assert ImageTransform(**json.loads(json.dumps(transform.to_dict()))) == transform
    assert pickle.loads(pickle.dumps(transform)) == transform
    assert hash(ImageTransform(**transform.to_dict())) == hash(transform)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"resize": 0}, "1 to 16384 pixels"),
        ({"resize": -5}, "1 to 16384 pixels"),
        ({"resize": (64, 0)}, "1 to 16384 pixels"),
        ({"resize": 10**10}, "1 to 16384 pixels"),
        ({"crop": (224, 16_385)}, "1 to 16384 pixels"),
        ({"std": (0.2, 1e-320, 0.2)}, "at least 1e-06"),
        ({"mean": (0.5, 1e300, 0.5)}, "go from -1e\\+06"),
        ({"resize": [64]}, "a short side such as 256, or a height and a width"),
        ({"resize": (1, 2, 3)}, "a height and a width"),
        ({"resize": True}, "a height and a width"),
        ({"resize": 2.5}, "a height and a width"),
        ({"resize": "big"}, "resize is 'big'"),
        ({"crop": 224}, "crop is 224: give a height and a width"),
        ({"crop": (224, -1)}, "1 to 16384 pixels"),
        ({"interpolation": "bicubik"}, "one of nearest.* Did you mean 'bicubic'"),
        ({"interpolation": 3}, "interpolation is 3"),
        ({"std": (0.2, 0.0, 0.2)}, "divided by it"),
        ({"std": (0.2, -0.1, 0.2)}, "divided by it"),
        ({"std": (0.2, float("nan"), 0.2)}, "three finite numbers"),
        ({"mean": (0.5, 0.5)}, "three finite numbers"),
        ({"mean": 0.5}, "three finite numbers"),
        ({"mean": "abc"}, "three finite numbers"),
        ({"mean": (0.5, 0.5, float("inf"))}, "three finite numbers"),
    ],
)
def test_a_field_out_of_range_is_refused(field: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ImageTransform(**field)


OWN = ImageTransform(resize=256, crop=(224, 224), interpolation="bicubic")


def test_nothing_overridden_changes_nothing() -> None:
    assert OWN.override() == OWN


def test_a_height_and_width_alone_drop_the_crop() -> None:
    assert OWN.override(resize=[64, 48]) == ImageTransform((64, 48), None, "bicubic")


def test_a_smaller_short_side_alone_shrinks_the_crop() -> None:
    assert OWN.override(resize=64).crop == (64, 64)
    assert OWN.override(resize=512).crop == (224, 224)


def test_a_given_crop_is_taken_as_it_is() -> None:
    assert OWN.override(crop=96) == ImageTransform(256, (96, 96), "bicubic")
    assert OWN.override(crop=[96, 80]).crop == (96, 80)
    assert OWN.override(resize=(64, 64), crop=(32, 32)).crop == (32, 32)
    assert OWN.override(crop="none").crop is None


def test_colours_and_interpolation_can_be_overridden() -> None:
    changed = OWN.override(interpolation="nearest", mean=[0, 0, 0], std=[1, 1, 1])
    assert changed == ImageTransform(256, (224, 224), "nearest", (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


def test_a_wrong_override_is_refused() -> None:
    with pytest.raises(ConfigError, match="resize is 'huge'"):
        OWN.override(resize="huge")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"crop is \[0, 0\]"):
        OWN.override(crop=0)
    with pytest.raises(ConfigError, match="divided by it"):
        OWN.override(std=[1, 1, 0])
