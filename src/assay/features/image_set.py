"""Labelled images under one face, whatever they are stored in."""

from __future__ import annotations

import copy
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from assay.errors import DataError, ImageError, nearest_names
from assay.features.images import BadImage, printable, read_image

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["Concat", "FileImages", "ImageSet", "Subset"]


class ImageSet(ABC):
    """N images with their labels. Can be pickled, so it can go to the workers of a DataLoader.

    It is itself a map-style data set: ``images[i]`` is the pair of image ``i`` and its row of
    targets.

    Attributes:
        source: where the images come from, for people.
        class_names: one name per class, in the order of the class ids.
        targets: (N, 1) int64 class ids; or, if multi-label, (N, num_classes) int64, where 1 is
            present, 0 absent, -1 not to be counted.
        names: N names to show, unique within the source as a rule: a relative path, ``digits/12``.
        multi_label: whether an image may have several classes, or none.
    """

    source: str
    class_names: tuple[str, ...]
    targets: npt.NDArray[np.int64]
    names: Sequence[str]
    multi_label: bool

    # Whether a class outside class_names is absent from every image. False where its labels are
    # merely not there: a VOC tree without the list of that class.
    knows_all_classes: bool = True

    def __init__(
        self,
        *,
        source: str,
        class_names: Sequence[str],
        targets: npt.NDArray[np.int64],
        names: Sequence[str],
        multi_label: bool,
    ) -> None:
        width = len(class_names) if multi_label else 1
        if targets.shape != (len(names), width):
            raise DataError(
                f"{source}: {len(names)} images but targets of shape {targets.shape}; "
                f"expected {(len(names), width)}."
            )
        self.source = printable(source)
        self.class_names = tuple(class_names)
        self.targets = targets
        self.names = names
        self.multi_label = multi_label

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> tuple[Image.Image, npt.NDArray[np.int64]]:
        targets = self.targets[index].copy()
        return self.load(index), targets

    @abstractmethod
    def load(self, index: int) -> Image.Image:
        """Image ``index`` in mode RGB.

        Raises:
            ImageError: it cannot be read; the message begins with its :meth:`location`.
        """

    def location(self, index: int) -> str:
        """Where image ``index`` is, for the reader of an error."""
        return self.names[index]

    def try_load(self, index: int) -> Image.Image | BadImage:
        """Image ``index`` in mode RGB; or what is wrong with it, where :meth:`load` would raise."""
        try:
            return self.load(index)
        except ImageError as error:
            reason = str(error).removeprefix(f"{self.location(index)}: ")
            return BadImage(self.names[index], reason)

    def digest(self) -> str:
        """``"sha256:..."``: changes when a name, a label, a class or the stored images change.

        Files count by size and time of change, not by content. Where the folder lies is left out,
        so a copy that keeps the times has the digest of the original.
        """
        state = hashlib.sha256()
        for part in self._identity():
            state.update(len(part).to_bytes(8, "little"))  # so that ab + c is not a + bc
            state.update(part)
        return f"sha256:{state.hexdigest()}"

    def with_class_names(self, class_names: Sequence[str]) -> ImageSet:
        """The same images with class ids that follow ``class_names``; classes match by name.

        This is how a test set takes over the classes of its training set.

        Raises:
            DataError: an image has a class that is not in ``class_names``; or ``class_names`` has a
                class of which this set has no labels.
        """
        new_ids = self._new_ids(class_names)
        images = copy.copy(self)
        images.class_names = tuple(class_names)
        if not self.multi_label:
            images.targets = new_ids[self.targets]
            return images
        kept = new_ids >= 0
        targets = np.zeros((len(self), len(class_names)), np.int64)
        targets[:, new_ids[kept]] = self.targets[:, kept]
        images.targets = targets
        return images

    def has_class(self) -> npt.NDArray[np.bool_]:
        """(num_classes,) bool: whether any image is labelled with the class."""
        if self.multi_label:
            return np.asarray((self.targets != 0).any(axis=0))
        return np.bincount(self.targets[:, 0], minlength=len(self.class_names)) > 0

    @abstractmethod
    def _content(self) -> Iterator[bytes]:
        """What :meth:`digest` is to notice of the stored images."""

    def _identity(self) -> Iterator[bytes]:
        yield type(self).__name__.encode()
        yield repr((len(self), self.class_names, self.multi_label)).encode()
        yield np.ascontiguousarray(self.targets, "<i8").tobytes()
        yield from self._content()

    def _new_ids(self, class_names: Sequence[str]) -> npt.NDArray[np.int64]:
        """(num_classes,) int64: the place of each class in ``class_names``, -1 if not there."""
        places = {name: place for place, name in enumerate(class_names)}
        if len(places) != len(class_names):
            raise DataError(f"{self.source}: the class names to follow hold a name twice.")
        for name, used in zip(self.class_names, self.has_class(), strict=True):
            if used and name not in places:
                raise DataError(
                    f"{self.source}: class {name!r} is not one of the {len(places)} classes of the "
                    f"training set.{nearest_names(name, places)} Rename it, or leave it out."
                )
        unlabelled = [name for name in class_names if name not in self.class_names]
        if unlabelled and not self.knows_all_classes:
            raise DataError(
                f"{self.source}: no labels for class {unlabelled[0]!r} of the training set. "
                "Add them, or train on the classes that both sets have."
            )
        return np.array([places.get(name, -1) for name in self.class_names], np.int64)


class FileImages(ImageSet):
    """Images in one file each."""

    def __init__(
        self,
        *,
        source: str,
        paths: Sequence[Path],
        names: Sequence[str],
        class_names: Sequence[str],
        targets: npt.NDArray[np.int64],
        multi_label: bool,
    ) -> None:
        super().__init__(
            source=source,
            class_names=class_names,
            targets=targets,
            names=[printable(name) for name in names],
            multi_label=multi_label,
        )
        # Absolute, for a worker that runs elsewhere; text, as a million Path objects weigh a lot.
        self._paths = [str(path.absolute()) for path in paths]

    def load(self, index: int) -> Image.Image:
        return read_image(self._paths[index])

    def location(self, index: int) -> str:
        return printable(self._paths[index])

    def _content(self) -> Iterator[bytes]:
        for name, path in zip(self.names, self._paths, strict=True):
            yield name.encode()
            try:
                status = Path(path).stat()
            except (OSError, ValueError):  # missing, or a name that no file can have
                yield b"missing"
            else:
                yield f"{status.st_size} {status.st_mtime_ns}".encode()


class Subset(ImageSet):
    """Some images of a set, in the order of ``indices``."""

    def __init__(self, images: ImageSet, indices: npt.ArrayLike, source: str = "") -> None:
        """
        Raises:
            DataError: an index is not one of ``images``, or is given twice.
        """
        chosen = np.array(indices, dtype=np.int64)
        last = len(images) - 1
        if chosen.ndim != 1 or (chosen.size and not 0 <= chosen.min() <= chosen.max() <= last):
            raise DataError(f"{images.source}: a subset needs a list of indices in 0..{last}.")
        if len(np.unique(chosen)) != len(chosen):
            raise DataError(f"{images.source}: a subset names an image twice.")
        super().__init__(
            source=source or f"{len(chosen)} of {images.source}",
            class_names=images.class_names,
            targets=images.targets[chosen],
            names=[images.names[index] for index in chosen],
            multi_label=images.multi_label,
        )
        self.knows_all_classes = images.knows_all_classes
        self.indices = chosen  # (N,) int64: each image's index in the whole set
        self._images = images

    def load(self, index: int) -> Image.Image:
        return self._images.load(int(self.indices[index]))

    def location(self, index: int) -> str:
        return self._images.location(int(self.indices[index]))

    def _content(self) -> Iterator[bytes]:
        yield self._images.digest().encode()
        yield self.indices.astype("<i8").tobytes()


class Concat(ImageSet):
    """Several sets of the same classes, one after the other."""

    def __init__(self, parts: Sequence[ImageSet]) -> None:
        """
        Raises:
            DataError: the parts differ in their classes, or in being multi-label.
        """
        first = parts[0]
        for part in parts:
            if part.multi_label != first.multi_label:
                raise DataError(
                    f"{first.source} and {part.source}: one has several labels an image, the other "
                    "has one. Label both in the same way, or grade them one by one."
                )
            if part.class_names != first.class_names:
                raise DataError(f"{first.source} and {part.source}: not the same classes.")
        super().__init__(
            source=" + ".join(part.source for part in parts),
            class_names=first.class_names,
            targets=np.concatenate([part.targets for part in parts]),
            names=[f"{part.source}: {name}" for part in parts for name in part.names],
            multi_label=first.multi_label,
        )
        self.knows_all_classes = all(part.knows_all_classes for part in parts)
        self._parts = tuple(parts)
        self._ends = np.cumsum([len(part) for part in parts])

    def load(self, index: int) -> Image.Image:
        part, within = self._find(index)
        return part.load(within)

    def location(self, index: int) -> str:
        part, within = self._find(index)
        return part.location(within)

    def _find(self, index: int) -> tuple[ImageSet, int]:
        index = range(len(self))[index]
        place = int(np.searchsorted(self._ends, index, side="right"))
        part = self._parts[place]
        return part, index - int(self._ends[place]) + len(part)

    def _content(self) -> Iterator[bytes]:
        for part in self._parts:
            yield part.digest().encode()
