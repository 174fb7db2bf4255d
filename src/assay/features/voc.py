"""Pascal VOC: several classes an image, from image-set lists or from annotations."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal
from xml.parsers import expat

import numpy as np

from assay.errors import DataError
from assay.features.folder import IMAGE_SUFFIXES
from assay.features.image_set import FileImages
from assay.features.images import printable
from assay.features.regular_file import read_regular

__all__ = ["VocImages", "find_voc_trees", "read_annotation", "read_class_list"]

# What a class list writes -> what a target is.
_TARGETS = {"1": 1, "-1": 0, "0": -1}

_PREFERRED: dict[str, tuple[str, ...]] = {"train": ("trainval", "train"), "test": ("test", "val")}
_APART: dict[str, tuple[str, ...]] = {"train": ("train",), "test": ("val",)}


class VocImages(FileImages):
    """The images of one part of a VOC tree (``JPEGImages``, ``ImageSets/Main``, ``Annotations``).

    A target is 1 where the class is present, -1 (not to be counted) where all its objects are
    marked difficult, and 0 where it is absent. The labels are those of
    ``ImageSets/Main/{class}_{list}.txt``. Where these lists are missing, they are drawn from the
    annotations of the images in ``ImageSets/Main/{list}.txt``, or of all images if there are no
    lists at all. Classes are in the order of their names.

    To train means ``trainval``, or ``train`` without it; to test means ``test``, or ``val`` without
    it. ``trainval`` contains ``val``: a tree without ``test`` that is to serve both is read as
    ``train`` and ``val``, see ``serves_both``.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: Literal["train", "test"],
        *,
        serves_both: bool = False,
    ) -> None:
        """
        Args:
            root: the tree, such as ``VOCdevkit/VOC2007``; or a folder that holds one tree.
            split: the part to read.
            serves_both: the same tree is read for the other split too; the two must not overlap.

        Raises:
            DataError: not a VOC tree, or several; no list for ``split``; a list or an annotation
                is broken; lists of different classes name different images; no class at all.
        """
        tree = _only_tree(Path(root))
        main = tree / "ImageSets" / "Main"
        name = _choose_list(tree, split, serves_both)
        lists = _class_lists(main, name) if name else {}
        if lists:
            ids, class_names, targets = _from_lists(lists)
        else:
            ids = _ids(main / f"{name}.txt") if name else _annotated(tree)
            class_names, targets = _from_annotations(tree, ids)
        if not ids or not class_names:
            missing = "image" if not ids else "class"
            raise DataError(
                f"{tree}: no {missing} in the {name or 'annotations'} of this VOC tree."
            )
        paths = _image_paths(tree / "JPEGImages", ids)
        super().__init__(
            source=f"{root} ({name})" if name else str(root),
            paths=paths,
            names=[path.relative_to(tree).as_posix() for path in paths],
            class_names=[printable(class_name) for class_name in class_names],
            targets=targets,
            multi_label=True,
        )
        self.knows_all_classes = not lists
        self.list_name = name  # "trainval", "train", "test" or "val"; "" if the tree has no lists


def find_voc_trees(folder: Path) -> list[Path]:
    """The VOC trees at or right below ``folder`` or its ``VOCdevkit``, sorted; empty if none."""
    if _is_tree(folder):
        return [folder]
    parents = [folder, folder / "VOCdevkit"]
    below = [child for parent in parents if parent.is_dir() for child in parent.glob("VOC*")]
    return sorted(child for child in below if _is_tree(child))


def read_class_list(path: Path) -> dict[str, int]:
    """Image id -> target (1, 0 or -1, as in :class:`VocImages`) of a file of lines ``ID 1|-1|0``.

    Raises:
        DataError: the file cannot be read, a line is of another form, or an id is there twice.
    """
    targets: dict[str, int] = {}
    for number, line in enumerate(_lines(path), start=1):
        fields = line.rsplit(None, 1)
        if len(fields) != 2 or fields[1] not in _TARGETS:
            raise DataError(
                f"{path}, entry {number}: {line!r}; expected an image id and 1, -1 or 0."
            )
        image_id, flag = fields
        if image_id in targets:
            raise DataError(f"{path}, entry {number}: image {image_id!r} is listed twice.")
        targets[image_id] = _TARGETS[flag]
    return targets


def read_annotation(path: Path) -> dict[str, int]:
    """Class -> 1, or -1 if all its objects are difficult, of the objects in one annotation file.

    Declarations of entities are refused, so no file makes the parser read another one or grow text.

    Raises:
        DataError: the file cannot be read or is not XML, or an object has no name.
    """
    try:
        root = _parse_xml(read_regular(path))
    except OSError as error:
        raise DataError(f"{path}: cannot read the annotation: {error.strerror}.") from error
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise DataError(f"{path}: not a readable annotation: {error}.") from error
    targets: dict[str, int] = {}
    for item in root.iter("object"):
        name = (item.findtext("name") or "").strip()
        if not name:
            raise DataError(f"{path}: an object without a name.")
        difficult = (item.findtext("difficult") or "0").strip() == "1"
        targets[name] = max(targets.get(name, -1), -1 if difficult else 1)
    return targets


def _parse_xml(data: bytes) -> ET.Element:
    parser = expat.ParserCreate()
    builder = ET.TreeBuilder()

    def refuse(*declaration: Any) -> None:
        raise ValueError(f"it declares an entity ({declaration[0]})")

    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.Parse(data, True)
    return builder.close()


def _is_tree(folder: Path) -> bool:
    return (folder / "ImageSets" / "Main").is_dir() or (
        (folder / "Annotations").is_dir() and (folder / "JPEGImages").is_dir()
    )


def _only_tree(root: Path) -> Path:
    trees = find_voc_trees(root)
    if len(trees) == 1:
        return trees[0]
    if trees:
        names = ", ".join(tree.name for tree in trees)
        raise DataError(f"{root}: holds several VOC trees ({names}). Name those to read.")
    raise DataError(
        f"{root}: not a VOC tree. Expected ImageSets/Main, or Annotations and JPEGImages, "
        "in it or in a VOC* folder of it."
    )


def _choose_list(tree: Path, split: Literal["train", "test"], serves_both: bool) -> str:
    """The name of the image-set list to read; "" if the tree has no list at all."""
    main = tree / "ImageSets" / "Main"
    known = [
        name
        for name in ("train", "val", "trainval", "test")
        if _class_lists(main, name) or (main / f"{name}.txt").is_file()
    ]
    if not known and not serves_both:
        return ""
    wanted = _APART if serves_both and "test" not in known else _PREFERRED
    chosen = [name for name in wanted[split] if name in known]
    if chosen:
        return chosen[0]
    raise DataError(
        f"{tree}: no list of images to {split} on. Expected {' or '.join(wanted[split])} in "
        f"ImageSets/Main, which has {', '.join(known) or 'no list'}. Give another tree, or give "
        "one set of images alone, which is then split in two."
    )


def _class_lists(main: Path, name: str) -> dict[str, Path]:
    """Class -> file, sorted by class."""
    ending = f"_{name}.txt"
    files = {path.name.removesuffix(ending): path for path in main.glob(f"*{ending}")}
    return {class_name: files[class_name] for class_name in sorted(files)}


def _from_lists(lists: dict[str, Path]) -> tuple[list[str], list[str], Any]:
    columns = {class_name: read_class_list(path) for class_name, path in lists.items()}
    first = next(iter(columns))
    ids = list(columns[first])
    for class_name, column in columns.items():
        odd = sorted(column.keys() ^ columns[first].keys())
        if odd:
            raise DataError(
                f"{lists[class_name]} and {lists[first].name}: image {odd[0]!r} is in one of them "
                f"only. Each class needs a line for each image; {len(odd)} are missing."
            )
    rows = [[column[image_id] for column in columns.values()] for image_id in ids]
    return ids, list(columns), np.array(rows, np.int64)


def _from_annotations(tree: Path, ids: Sequence[str]) -> tuple[list[str], Any]:
    found = [read_annotation(tree / "Annotations" / f"{image_id}.xml") for image_id in ids]
    class_names = sorted({name for targets in found for name in targets})
    rows = [[targets.get(name, 0) for name in class_names] for targets in found]
    return class_names, np.array(rows, np.int64).reshape(len(ids), len(class_names))


def _annotated(tree: Path) -> list[str]:
    return sorted(path.stem for path in (tree / "Annotations").glob("*.xml"))


def _ids(path: Path) -> list[str]:
    return list(dict.fromkeys(_lines(path)))


def _lines(path: Path) -> list[str]:
    """The lines of a text file that are not blank, stripped."""
    try:
        text = read_regular(path).decode("utf-8-sig", "surrogateescape")
    except OSError as error:
        raise DataError(f"{path}: cannot read the list: {error.strerror}.") from error
    return [line.strip() for line in text.split("\n") if line.strip()]


def _image_paths(folder: Path, ids: Sequence[str]) -> list[Path]:
    """The file of each id: ID.jpg, or what there is of another suffix. It may be missing."""
    jpegs = [folder / f"{image_id}.jpg" for image_id in ids]
    if all(path.is_file() for path in jpegs):
        return jpegs
    others = sorted(folder.glob("*")) if folder.is_dir() else []
    by_id = {path.stem: path for path in others if path.suffix.lower() in IMAGE_SUFFIXES}
    return [
        jpeg if jpeg.is_file() else by_id.get(image_id, jpeg)
        for jpeg, image_id in zip(jpegs, ids, strict=True)
    ]
