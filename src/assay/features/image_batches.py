"""Batches of transformed images, loaded by worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from assay.errors import AssayError, DataError
from assay.features.images import BadImage
from assay.features.manifest import SkippedImage

if TYPE_CHECKING:
    from PIL import Image

    from assay.features.image_set import ImageSet

__all__ = ["ImageBatch", "load_batches"]


class ImageBatch(NamedTuple):
    """Some images, in the order of the split."""

    pixels: Tensor | None  # (n, 3, H, W) float32; None if no image is good
    indices: list[int]  # n, of the good images
    bad: list[SkippedImage]
    failure: AssayError | None  # what stopped a worker; an exception would lose its plain message

    @property
    def num_images(self) -> int:
        """How many images it deals with, good or bad."""
        return len(self.indices) + len(self.bad)


@dataclass(frozen=True)
class _Item:
    index: int
    pixels: Tensor | None  # (3, H, W)
    bad: BadImage | None
    failure: AssayError | None


def load_batches(
    images: ImageSet,
    transform: Callable[[Image.Image], Tensor],
    indices: Sequence[int],
    *,
    batch_size: int,
    num_workers: int,
    pin_memory: bool,
) -> Iterable[ImageBatch]:
    """The images of ``indices``, in that order, ``batch_size`` at a time.

    An image that cannot be read is listed in its batch and does not stop the others. With
    ``num_workers`` 0 this process loads.
    """
    items = _Images(images, transform, indices)
    num_workers = min(num_workers, -(-len(indices) // batch_size))
    if num_workers:
        items[0]  # so that what loading imports is imported once, and not by every forked worker
    loader: DataLoader[_Item] = DataLoader(
        items,
        batch_size=batch_size,
        num_workers=num_workers,
        collate_fn=_collate,
        worker_init_fn=_use_one_thread,
        pin_memory=pin_memory,
        generator=torch.Generator(),  # else the loader draws from the caller's random numbers
    )
    return loader


class _Images(Dataset[_Item]):
    def __init__(
        self,
        images: ImageSet,
        transform: Callable[[Image.Image], Tensor],
        indices: Sequence[int],
    ) -> None:
        self._images = images
        self._transform = transform
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, position: int) -> _Item:
        index = int(self._indices[position])
        try:
            image = self._images.try_load(index)
            if isinstance(image, BadImage):
                return _Item(index, None, image, None)
            return _Item(index, self._transform(image), None, None)
        except AssayError as error:
            return _Item(index, None, None, error)


def _collate(items: list[_Item]) -> ImageBatch:
    bad = [SkippedImage(i.index, i.bad.name, i.bad.reason) for i in items if i.bad is not None]
    failure = next((item.failure for item in items if item.failure is not None), None)
    good = [(item.index, item.pixels) for item in items if item.pixels is not None]
    shapes = {tuple(pixels.shape) for _, pixels in good}
    if len(shapes) > 1:
        one, other, *_ = sorted(shapes)
        failure = failure or DataError(
            f"The transform gives images of different sizes, such as {one} and {other}, which "
            f"do not fit in one batch: set a crop, or a resize to (height, width)."
        )
    if failure is not None or not good:
        return ImageBatch(None, [], bad, failure)
    indices, pixels = zip(*good, strict=True)
    return ImageBatch(torch.stack(pixels), list(indices), bad, None)


def _use_one_thread(_worker: int) -> None:
    torch.set_num_threads(1)
