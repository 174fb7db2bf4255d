"""An image folder with one sub-folder a class."""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from assay.errors import AssayWarning, DataError
from assay.features.image_set import FileImages
from assay.features.images import printable

__all__ = ["IMAGE_SUFFIXES", "ImageFolder", "listed"]

IMAGE_SUFFIXES = frozenset(
    [".avif", ".bmp", ".gif", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg",
     ".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp"]
)  # fmt: skip


class ImageFolder(FileImages):
    """The images of a folder; the name of the sub-folder that an image lies in is its class.

    Classes are in the order of their names, images in the order of their paths. Images may lie
    deeper within a class folder. Links are followed. Files and folders whose name begins with a dot
    are left out, and so are files that are no images by their suffix, in whatever case.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        """
        Warns:
            AssayWarning: a class folder holds no image (the class stays in the list of classes), or
                images lie outside of all class folders (they are left out).

        Raises:
            DataError: not a readable folder, no class folder in it, or no image in any of them.
        """
        folder = Path(root)
        entries = listed(folder)
        classes = [entry for entry in entries if _is_folder(entry)]
        loose = [entry.name for entry in entries if not _is_folder(entry) and _is_image(entry)]
        if not classes:
            raise DataError(_no_class_folder(folder, loose))
        if loose:
            warnings.warn(
                f"{folder}: {len(loose)} images lie outside of all class folders, {loose[0]!r} "
                "among them. They are left out.",
                AssayWarning,
                stacklevel=2,
            )
        above = frozenset({os.path.realpath(folder)})
        images = [list(_images_below(Path(entry.path), above)) for entry in classes]
        paths = [path for members in images for path in members]
        if not paths:
            raise DataError(
                f"{folder}: no image in any of its {len(classes)} sub-folders. "
                f"Images are known by their suffix: {', '.join(sorted(IMAGE_SUFFIXES))}."
            )
        class_names = [printable(entry.name) for entry in classes]
        empty = [name for name, members in zip(class_names, images, strict=True) if not members]
        if empty:
            warnings.warn(
                f"{folder}: no image of {', '.join(map(repr, empty))}.", AssayWarning, stacklevel=2
            )
        super().__init__(
            source=str(root),
            paths=paths,
            names=[path.relative_to(folder).as_posix() for path in paths],
            class_names=class_names,
            targets=np.repeat(
                np.arange(len(classes), dtype=np.int64), [len(members) for members in images]
            )[:, None],
            multi_label=False,
        )


def listed(folder: Path) -> list[os.DirEntry[str]]:
    """What is in a folder, without hidden names, sorted by name.

    Raises:
        DataError: it is not a folder that can be read.
    """
    try:
        with os.scandir(folder) as entries:
            seen = [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        raise DataError(f"{folder}: cannot list the folder: {error.strerror}.") from error
    return sorted(seen, key=lambda entry: entry.name)


def _is_image(entry: os.DirEntry[str]) -> bool:
    return Path(entry.name).suffix.lower() in IMAGE_SUFFIXES


def _images_below(folder: Path, above: frozenset[str]) -> Iterator[Path]:
    """Paths of images, depth first, in order; a link to a folder that it lies in is not entered."""
    real = os.path.realpath(folder)
    if real in above:
        return
    for entry in listed(folder):
        if _is_folder(entry):
            yield from _images_below(Path(entry.path), above | {real})
        elif _is_image(entry):  # a dangling link too: it is named when it cannot be read
            yield Path(entry.path)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether it is a folder, or a link to one; a link that leads to itself is none.

    Raises:
        DataError: that cannot be told, and it is no image by its suffix.
    """
    try:
        return entry.is_dir()
    except OSError as error:
        if error.errno == errno.ELOOP or _is_image(entry):
            return False
        raise DataError(f"{entry.path}: cannot be looked at: {error.strerror}.") from error


def _no_class_folder(folder: Path, loose: list[str]) -> str:
    if not loose:
        return f"{folder}: the folder is empty. Put the images of each class in a sub-folder of it."
    return (
        f"{folder}: {len(loose)} images and no sub-folder. Put the images of each class in a "
        "sub-folder that is named after the class, or give a text list of paths with labels."
    )
