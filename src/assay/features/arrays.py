"""Images and labels in arrays: .npy files, and scikit-learn's handwritten digits."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from assay._optional import require
from assay.errors import DataError, ImageError
from assay.features.image_set import ImageSet
from assay.features.images import printable, to_rgb
from assay.features.npy_reading import map_npy

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["Digits", "NpyImages", "is_class_id", "map_array", "numbered_classes", "read_targets"]

_MAX_CLASS_ID = 999_999  # beyond it an id is taken for something else than a count of classes
_CHANNELS = (1, 3, 4)
_SAMPLED_BLOCKS = 64
_BLOCK_BYTES = 4096
_ROUNDING = 1e-3  # how far floating-point pixels may leave 0..1


class NpyImages(ImageSet):
    """Images in one .npy file, (N, H, W), (N, H, W, C) or (N, C, H, W) with C of 1, 3 or 4.

    uint8 and other integers hold 0..255, uint16 holds 0..65535, bool black and white, floating
    point 0..1. Four channels are RGBA. The file is mapped into memory, never read whole.
    """

    def __init__(
        self, path: str | os.PathLike[str], label_path: str | os.PathLike[str] | None = None
    ) -> None:
        """
        Args:
            path: the file; or a folder that holds it under the name ``images.npy``.
            label_path: the targets, see :func:`read_targets`. By default they are looked for
                beside the images: ``targets.npy`` or ``labels.npy`` beside ``images.npy``;
                ``X_targets.npy`` or ``X_labels.npy`` beside ``X.npy`` and ``X_images.npy``.

        Raises:
            DataError: a file is missing or broken, an array is of another shape or dtype, or there
                are more or fewer targets than images.
        """
        file = Path(path) / "images.npy" if Path(path).is_dir() else Path(path)
        pixels = map_array(file)
        _check_pixels(pixels, file)
        labels = Path(label_path) if label_path is not None else _find_labels(file)
        targets, class_names, multi_label = read_targets(labels)
        if len(targets) != len(pixels):
            raise DataError(
                f"{file}: {len(pixels)} images, but {labels} holds {len(targets)} targets. "
                "Give the targets of these images."
            )
        super().__init__(
            source=str(path),
            class_names=class_names,
            targets=targets,
            names=[printable(f"{file.stem}/{index}") for index in range(len(pixels))],
            multi_label=multi_label,
        )
        self.knows_all_classes = not multi_label
        self._path = file.absolute()
        self._pixels: npt.NDArray[Any] | None = pixels

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pixels": None}  # a mapped array would be pickled whole

    def load(self, index: int) -> Image.Image:
        if self._pixels is None:
            self._pixels = map_array(self._path)
        return _to_image(self._pixels[index], self.location(index))

    def location(self, index: int) -> str:
        return f"{printable(str(self._path))}[{index}]"

    def _content(self) -> Iterator[bytes]:
        status = self._path.stat()
        yield f"{self._path.stem} {status.st_size} {status.st_mtime_ns}".encode("utf-8", "replace")
        step = max(_BLOCK_BYTES, status.st_size // _SAMPLED_BLOCKS)
        with self._path.open("rb") as file:
            for start in range(0, status.st_size, step):
                file.seek(start)
                yield file.read(_BLOCK_BYTES)


class Digits(ImageSet):
    """The 1,797 handwritten digits that come with scikit-learn, 8 x 8 pixels each.

    Their values 0..16 become 0..255. The images keep their size: enlarging is the transform's work.
    """

    def __init__(self) -> None:
        datasets = require("sklearn.datasets", extra="evaluate", purpose="load handwritten digits")
        digits = datasets.load_digits()
        super().__init__(
            source="digits",
            class_names=[str(name) for name in digits.target_names],
            targets=digits.target.astype(np.int64)[:, None],
            names=[f"digits/{index}" for index in range(len(digits.images))],
            multi_label=False,
        )
        self._pixels = np.rint(digits.images * (255 / 16)).astype(np.uint8)  # (1797, 8, 8)

    def load(self, index: int) -> Image.Image:
        return _to_image(self._pixels[index], self.names[index])

    def _content(self) -> Iterator[bytes]:
        yield self._pixels.tobytes()


def map_array(path: Path) -> npt.NDArray[Any]:
    """The array of a .npy file, mapped read-only; never one of Python objects.

    Raises:
        DataError: the file is missing, broken, of another kind, or holds objects.
    """
    try:
        return map_npy(path)
    except OSError as error:
        raise DataError(f"{path}: cannot read: {error.strerror or error}.") from error
    except ValueError as error:
        raise DataError(
            f"{path}: not a whole .npy file of numbers: {error}. Write it with numpy.save."
        ) from error


def read_targets(path: Path) -> tuple[npt.NDArray[np.int64], tuple[str, ...], bool]:
    """(targets, class names, multi-label?) of a .npy file, in the terms of ``ImageSet``.

    (N,) or (N, 1) are class ids of one label an image, (N, L) is 1 present, 0 absent, -1 not to be
    counted. Class names are the ids as text, from 0 to the largest.

    Raises:
        DataError: another shape, values that are not whole, or out of their range.
    """
    array = np.array(map_array(path))
    if array.ndim not in (1, 2) or array.size == 0:
        raise DataError(
            f"{path}: targets of shape {array.shape}; expected (N,) class ids or (N, classes)."
        )
    if array.dtype.kind not in "biuf":
        raise DataError(f"{path}: targets of dtype {array.dtype}; expected integers.")
    if array.dtype.kind == "f" and not (np.isfinite(array) & (array == np.rint(array))).all():
        raise DataError(f"{path}: targets that are not whole numbers; expected integers.")
    targets = array.astype(np.int64).reshape(len(array), -1)
    if targets.shape[1] == 1:
        return targets, numbered_classes(targets, str(path)), False
    wrong = np.flatnonzero(((targets < -1) | (targets > 1)).any(axis=1))
    if wrong.size:
        raise DataError(
            f"{path}: row {wrong[0]} of the targets holds values besides 1 (present), 0 (absent) "
            "and -1 (not to be counted)."
        )
    return targets, tuple(str(label) for label in range(targets.shape[1])), True


def is_class_id(text: str) -> bool:
    """Whether ``text`` is a number that can count classes."""
    return bool(re.fullmatch("[0-9]{1,9}", text)) and int(text) <= _MAX_CLASS_ID


def numbered_classes(ids: npt.NDArray[np.int64], where: str) -> tuple[str, ...]:
    """Names of the classes 0..max: their ids as text.

    Raises:
        DataError: an id is negative, or too large to count classes.
    """
    least, most = int(ids.min()), int(ids.max())
    if least < 0 or most > _MAX_CLASS_ID:
        raise DataError(
            f"{where}: class ids from {least} to {most}; they must lie in 0..{_MAX_CLASS_ID}. "
            "Number the classes from 0."
        )
    return tuple(str(class_id) for class_id in range(most + 1))


def _check_pixels(pixels: npt.NDArray[Any], file: Path) -> None:
    shape = pixels.shape
    colour = len(shape) == 4 and (shape[3] in _CHANNELS or shape[1] in _CHANNELS)
    if not (len(shape) == 3 or colour) or 0 in shape:
        raise DataError(
            f"{file}: an array of shape {shape}; expected images of shape (N, H, W), "
            "(N, H, W, C) or (N, C, H, W) with C of 1, 3 or 4."
        )
    if pixels.dtype.kind not in "biuf":
        raise DataError(f"{file}: pixels of dtype {pixels.dtype}; expected uint8, uint16 or float.")


def _find_labels(file: Path) -> Path:
    stem = file.stem
    if stem == "images":
        names = ["targets.npy", "labels.npy"]
    else:
        stem = stem.removesuffix("_images")
        names = [f"{stem}_targets.npy", f"{stem}_labels.npy"]
    found = [file.with_name(name) for name in names if file.with_name(name).is_file()]
    if len(found) == 1:
        return found[0]
    what = "no targets beside it" if not found else "two files of targets beside it"
    raise DataError(
        f"{file}: {what} ({' or '.join(names)}). Name them by --train-labels or --test-labels FILE "
        "(config.DATA.TRAIN.LABEL_PATHS, config.DATA.TEST.LABEL_PATHS)."
    )


def _to_image(pixels: npt.NDArray[Any], where: str) -> Image.Image:
    from PIL import Image

    if pixels.ndim == 3 and pixels.shape[2] not in _CHANNELS:
        pixels = np.moveaxis(pixels, 0, 2)
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    return to_rgb(Image.fromarray(np.ascontiguousarray(_to_bytes(pixels, where))))


def _to_bytes(pixels: npt.NDArray[Any], where: str) -> npt.NDArray[np.uint8]:
    kind = pixels.dtype.kind
    sixteen = kind == "u" and pixels.dtype.itemsize == 2
    white = 1.0 if kind in "bf" else 65535 if sixteen else 255
    slack = _ROUNDING if kind == "f" else 0
    low, high = pixels.min(), pixels.max()
    if not (-slack <= low and high <= white + slack):  # NaN fails both
        raise ImageError(
            f"{where}: {pixels.dtype} pixels from {low:g} to {high:g}; expected 0 to {white:g}"
        )
    scaled: npt.NDArray[Any] = pixels
    if kind in "bf":
        scaled = np.rint(np.clip(pixels.astype(np.float64), 0, 1) * 255)
    elif sixteen:
        scaled = pixels >> 8
    return scaled.astype(np.uint8, copy=False)
