"""How an image becomes a model's input."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from assay._optional import require
from assay.errors import ConfigError, DataError, nearest_names

if TYPE_CHECKING:
    from PIL import Image
    from torch import Tensor

__all__ = ["IMAGENET_MEAN", "IMAGENET_STD", "ImageTransform", "Interpolation"]

Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos"]

_MOST_PIXELS = 16_384  # a side; an input of that height and width has 3 GB
_LEAST_STD, _MOST_LEVEL = 1e-6, 1e6  # float32 holds what comes out

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class ImageTransform:
    """Resize, crop around the centre, scale to 0..1, normalise: ``PIL.Image`` -> tensor.

    Each step is torchvision's of the same name, so that a model sees what it saw in training.
    Fields are checked when the transform is made; lists become tuples.

    >>> ImageTransform(resize=256, crop=(224, 224)).input_size
    (224, 224)

    Raises:
        ConfigError: a field is out of range or of a wrong kind.
    """

    resize: int | tuple[int, int] | None = None  # short side, or (height, width); pixels
    crop: tuple[int, int] | None = None  # (height, width); pads with black where it is larger
    interpolation: Interpolation = "bilinear"  # all but nearest are antialiased
    mean: tuple[float, float, float] = IMAGENET_MEAN  # red, green, blue, of values in 0..1
    std: tuple[float, float, float] = IMAGENET_STD

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {
            "resize": _size("resize", self.resize, allow_short_side=True),
            "crop": _size("crop", self.crop, allow_short_side=False),
            "interpolation": _interpolation(self.interpolation),
            "mean": _triple("mean", self.mean),
            "std": _triple("std", self.std),
        }
        if min(checked["std"]) < _LEAST_STD:
            raise ConfigError(
                f"std is {_show(self.std)}, and the image is divided by it: all three must be "
                f"at least {_LEAST_STD}, such as {list(IMAGENET_STD)}."
            )
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def input_size(self) -> tuple[int, int] | None:
        """(height, width) of every output, or None where that depends on the image."""
        if self.crop is not None:
            return self.crop
        return self.resize if isinstance(self.resize, tuple) else None

    def __call__(self, image: Image.Image) -> Tensor:
        """The model's input: (3, H, W) float32, contiguous.

        Raises:
            DataError: the image is not RGB.
        """
        functional = require(
            "torchvision.transforms.functional", extra="evaluate", purpose="transform images"
        )
        if image.mode != "RGB":
            raise DataError(
                f"An image of mode {image.mode} was given and RGB is needed: read it with "
                f"assay.features.read_image, or convert it with image.convert('RGB')."
            )
        if self.resize is not None:
            size = list(self.resize) if isinstance(self.resize, tuple) else self.resize
            mode = functional.InterpolationMode(self.interpolation)
            image = functional.resize(image, size, interpolation=mode)
        if self.crop is not None:
            image = functional.center_crop(image, list(self.crop))
        pixels = functional.to_tensor(image)
        normal = functional.normalize(pixels, list(self.mean), list(self.std), inplace=True)
        return cast("Tensor", normal.contiguous())

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON data; ``ImageTransform(**fields)`` makes the same transform again."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }

    def override(
        self,
        *,
        resize: int | Sequence[int] | None = None,
        crop: int | Sequence[int] | Literal["none"] | None = None,
        interpolation: str | None = None,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> ImageTransform:
        """This transform with what is given in place of its own; None keeps its own.

        ``crop`` may be one number for a square, or "none". Where only ``resize`` is given, the
        crop follows it: none after (height, width), and after a short side the own crop, made no
        larger than that side, so that nothing is padded by surprise.

        Raises:
            ConfigError: a value is out of range or of a wrong kind.
        """
        changes: dict[str, Any] = {"interpolation": interpolation, "mean": mean, "std": std}
        changes = {name: value for name, value in changes.items() if value is not None}
        if resize is not None:
            changes["resize"] = _size("resize", resize, allow_short_side=True)
        if crop is not None:
            square = (crop, crop) if _is_whole(crop) else crop
            changes["crop"] = None if crop == "none" else square
        elif isinstance(changes.get("resize"), tuple):
            changes["crop"] = None
        elif resize is not None and self.crop is not None:
            changes["crop"] = tuple(min(side, changes["resize"]) for side in self.crop)
        return replace(self, **changes)


def _size(name: str, value: Any, *, allow_short_side: bool) -> int | tuple[int, int] | None:
    """``value`` as pixels: None, a short side where that is allowed, or (height, width)."""
    if value is None:
        return None
    is_short_side = allow_short_side and _is_whole(value)
    sides = [value] if is_short_side else _items(value)
    if not all(map(_is_whole, sides)) or len(sides) != (1 if is_short_side else 2):
        forms = "a short side such as 256, or " if allow_short_side else ""
        raise ConfigError(
            f"{name} is {_show(value)}: give {forms}a height and a width such as [224, 224], "
            f"in whole pixels."
        )
    if not 1 <= min(sides) <= max(sides) <= _MOST_PIXELS:
        raise ConfigError(f"{name} is {_show(value)}: a side has 1 to {_MOST_PIXELS} pixels.")
    return int(value) if is_short_side else (int(sides[0]), int(sides[1]))


def _triple(name: str, value: Any) -> tuple[float, float, float]:
    numbers = _items(value)
    are_numbers = all(isinstance(v, Real) and not isinstance(v, bool) for v in numbers)
    if len(numbers) != 3 or not are_numbers or not all(map(math.isfinite, numbers)):
        raise ConfigError(
            f"{name} is {_show(value)}: give three finite numbers for red, green and blue in "
            f"0..1, such as {list(IMAGENET_MEAN)}."
        )
    if max(map(abs, numbers)) > _MOST_LEVEL:
        raise ConfigError(f"{name} is {_show(value)}: numbers go from -{_MOST_LEVEL:g} to as much.")
    red, green, blue = map(float, numbers)
    return (red, green, blue)


def _interpolation(value: Any) -> Interpolation:
    known = get_args(Interpolation)
    if value not in known:
        raise ConfigError(
            f"interpolation is {_show(value)}: it is one of {', '.join(known)}."
            f"{nearest_names(str(value), known)}"
        )
    return cast("Interpolation", value)


def _items(value: Any) -> list[Any]:
    is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes | Mapping)
    return list(value) if is_list else []


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _show(value: Any) -> str:
    return repr(list(value) if isinstance(value, tuple) else value)
