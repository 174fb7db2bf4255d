"""Labelled images from a path: the one place that knows every kind of source."""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

from assay.errors import AssayWarning, ConfigError, DataError, nearest_names
from assay.features.arrays import Digits, NpyImages, map_array
from assay.features.file_list import FileList
from assay.features.folder import ImageFolder, listed
from assay.features.image_set import Concat, FileImages, ImageSet, Subset
from assay.features.images import BadImage, printable, raise_bad_images
from assay.features.splitting import limit_images, split_images
from assay.features.voc import VocImages, find_voc_trees

__all__ = [
    "SOURCES",
    "BadImage",
    "Concat",
    "Digits",
    "FileImages",
    "FileList",
    "ImageFolder",
    "ImageSet",
    "NpyImages",
    "Subset",
    "VocImages",
    "find_bad_images",
    "limit_images",
    "open_images",
    "raise_bad_images",
    "split_images",
]

SOURCES = ("auto", "digits", "disk_filelist", "disk_folder", "npy", "voc")

_LIST_SUFFIXES = (".csv", ".lst", ".tsv", ".txt")
_CHECKED_AT_ONCE = 64  # images per thread between two looks at Ctrl-C and the progress
_LABELLED_BY_FILE = ("disk_filelist", "npy")


def open_images(
    source: str,
    paths: Sequence[str | os.PathLike[str]],
    *,
    label_paths: Sequence[str | os.PathLike[str]] = (),
    split: Literal["train", "test"],
    class_names: Sequence[str] | None = None,
    limit: int = -1,
    seed: int = 0,
    other_paths: Sequence[str | os.PathLike[str]] = (),
) -> ImageSet:
    """The labelled images at ``paths``, one after the other.

    Args:
        source: one of :data:`SOURCES`. ``auto`` goes by what is there: a VOC tree, a folder with
            ``images.npy``, any other folder; a ``.npy`` file of images, or of the paths of images;
            a ``.txt``, ``.lst``, ``.csv`` or ``.tsv`` list; ``digits``, if no file is called so.
        paths: where the images are; not used for ``digits``. Several must be of one kind. Their
            classes are put together by name.
        label_paths: files of targets, one a path, for ``npy`` and ``disk_filelist``.
        split: which part of a source that has parts (VOC) to read.
        class_names: the classes of the training set, when a test set is opened: class ids follow
            them. None: the classes that are found.
        limit: how many images to take, classes in proportion; -1 is all.
        seed: which images ``limit`` takes.
        other_paths: the paths of the other split, if there are any. A VOC tree that is in both is
            read so that the splits do not overlap.

    Warns:
        AssayWarning: see :class:`ImageFolder`; and for a VOC tree of which the ``val`` part is to
            test, while ``trainval`` is there and ``other_paths`` is not given.

    Raises:
        DataError: ``source`` is unknown, a path is missing or not of that source, there is no
            image, the labels do not fit the images or ``class_names``.
        ConfigError: ``limit`` or ``seed`` is out of range.
    """
    if source not in SOURCES:
        raise DataError(
            f"Unknown source of images {source!r}.{nearest_names(source, SOURCES)} "
            f"Known are: {', '.join(SOURCES)}."
        )
    places, labels = _as_list(paths), _as_list(label_paths)
    if source == "auto" and places == ["digits"] and not Path("digits").exists():
        source = "digits"
    if source == "digits":
        images = _open_digits(places, labels)
    else:
        others = {Path(path).expanduser() for path in _as_list(other_paths)}
        parts = _open_parts(source, places, labels, split, others)
        images = parts[0] if len(parts) == 1 else Concat(_with_same_classes(parts))
    if class_names is not None:
        images = images.with_class_names(class_names)
    return limit_images(images, limit, seed)


def find_bad_images(
    images: ImageSet, num_workers: int = 0, progress: Callable[[int], None] | None = None
) -> list[BadImage]:
    """Every image that cannot be read, in the order of the set. Decodes each image whole.

    Args:
        images: the images.
        num_workers: number of threads (decoding runs outside Python's lock); 0 reads in this one.
        progress: called with the number of images that were just checked.

    Raises:
        ConfigError: ``num_workers`` is negative.
    """
    if num_workers < 0:
        raise ConfigError(f"num_workers is {num_workers}; it must be 0 or more.")

    def check(index: int) -> BadImage | None:
        outcome = images.try_load(index)
        return outcome if isinstance(outcome, BadImage) else None

    found: list[BadImage] = []
    step = _CHECKED_AT_ONCE * max(1, num_workers)
    with ThreadPoolExecutor(max(1, num_workers)) as pool:
        run = pool.map if num_workers else map
        for start in range(0, len(images), step):
            batch = range(start, min(start + step, len(images)))
            found.extend(bad for bad in run(check, batch) if bad is not None)
            if progress is not None:
                progress(len(batch))
    return found


def _open_digits(places: Sequence[str], labels: Sequence[str]) -> ImageSet:
    if labels or places not in ([], ["digits"]):
        raise DataError("The source digits comes with scikit-learn and takes no paths.")
    return Digits()


def _open_parts(
    source: str,
    places: Sequence[str],
    labels: Sequence[str],
    split: Literal["train", "test"],
    others: set[Path],
) -> list[ImageSet]:
    if not places:
        raise DataError(f"No path to images to {split} on was given: config.DATA.*.DATA_PATHS")
    if labels and len(labels) != len(places):
        raise DataError(
            f"{len(places)} paths to images, but {len(labels)} to labels: give one for each, in "
            "the same order, or none."
        )
    parts = []
    for number, place in enumerate(places):
        path = _existing(place)
        kind = _kind(path) if source == "auto" else source
        if labels and kind not in _LABELLED_BY_FILE:
            raise DataError(
                f"{place}: a source of kind {kind} has its own labels; leave the label paths out, "
                f"or choose one of the sources {', '.join(_LABELLED_BY_FILE)}."
            )
        label = _existing(labels[number]) if labels else None
        parts.append(_open_part(kind, path, label, split, others))
    return parts


def _open_part(
    kind: str, path: Path, label: Path | None, split: Literal["train", "test"], others: set[Path]
) -> ImageSet:
    if kind == "disk_folder":
        return ImageFolder(path)
    if kind == "npy":
        return NpyImages(path, label)
    if kind == "disk_filelist":
        return FileList(path, label)
    return _open_voc(path, split, others)


def _open_voc(path: Path, split: Literal["train", "test"], others: set[Path]) -> VocImages:
    trees = {tree.resolve() for tree in find_voc_trees(path)}
    other_trees = {tree.resolve() for other in others for tree in find_voc_trees(other)}
    images = VocImages(path, split, serves_both=not trees.isdisjoint(other_trees))
    if split == "test" and images.list_name == "val" and not others:
        warnings.warn(
            f"{path}: no list of test images, so the images of val take their place. They are in "
            "trainval as well: train on others.",
            AssayWarning,
            stacklevel=4,
        )
    return images


def _kind(path: Path) -> str:
    """The source that ``auto`` means for an existing path."""
    if path.is_dir():
        if find_voc_trees(path):
            return "voc"
        return "npy" if (path / "images.npy").is_file() else "disk_folder"
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return "disk_filelist" if map_array(path).dtype.kind == "U" else "npy"
    if suffix in _LIST_SUFFIXES:
        return "disk_filelist"
    raise DataError(
        f"{path}: cannot tell what this is. Give a folder, a .npy file or a list of paths "
        f"({', '.join(_LIST_SUFFIXES)}); or name the source: config.DATA.*.DATA_SOURCES"
    )


def _with_same_classes(parts: Sequence[ImageSet]) -> list[ImageSet]:
    """The parts, all with the classes of any of them."""
    names = max((part.class_names for part in parts), key=len)
    # Numbered classes, 0..9 and 0..11, must keep their order, which is not that of their names.
    if any(part.class_names != names[: len(part.class_names)] for part in parts):
        names = tuple(sorted({name for part in parts for name in part.class_names}))
    return [part.with_class_names(names) for part in parts]


def _existing(place: str) -> Path:
    path = Path(place).expanduser()
    try:
        if place:
            path.stat()
            return path
    except (FileNotFoundError, NotADirectoryError, ValueError):  # no file can have such a name
        if path.is_symlink():
            target = printable(os.fspath(path.readlink()))
            raise DataError(f"{place}: a link to {target}, which is not there.") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise DataError(f"{place}: a link that leads to itself, not to a folder.") from error
        raise DataError(f"{place}: cannot be opened: {error.strerror}.") from error
    beside = path.parent
    known = [entry.name for entry in listed(beside)] if beside.is_dir() else []
    raise DataError(
        f"{place or 'An empty path'}: no such file or folder.{nearest_names(path.name, known)}"
    )


def _as_list(paths: Sequence[str | os.PathLike[str]] | str | os.PathLike[str]) -> list[str]:
    """The paths as text; a single one, given where a sequence belongs, is a list of one."""
    if isinstance(paths, (str, os.PathLike)):
        return [os.fspath(paths)]
    return [os.fspath(path) for path in paths]
