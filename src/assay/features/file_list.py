"""A text list of image paths with labels."""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from assay.errors import DataError
from assay.features.arrays import is_class_id, map_array, numbered_classes, read_targets
from assay.features.image_set import FileImages
from assay.features.images import printable
from assay.features.regular_file import read_regular

__all__ = ["FileList", "ListedImage", "parse_file_list"]

_PATH_HEADINGS = ("path", "file", "filename", "file_name", "image", "image_path", "img", "name")
_LABEL_HEADINGS = ("label", "labels", "target", "targets", "class", "class_name", "class_id")
_QUOTED = re.compile(r'(?P<path>"(?:[^"]|"")+")(?:\s*,\s*|\s+)(?P<label>.*)')


@dataclass(frozen=True)
class ListedImage:
    """One entry of a list."""

    path: str  # as written, without quotes
    labels: tuple[str, ...]  # empty: none of the classes, which a multi-label list may say
    has_comma: bool  # the labels were written with a comma, so the list is multi-label
    line: int  # counted from 1


class FileList(FileImages):
    """The images that a list names; see :func:`parse_file_list` for its form.

    Paths are relative to the folder of the list. If any image has labels with a comma between or
    behind them, the list is multi-label: an image has the classes it names and no other. Labels
    that are all whole numbers up to 999999 are class ids, and the classes are those from 0 to the
    largest; any other labels are names, and the classes are in the order of their names.

    With ``label_path`` the list holds paths alone, one a line or as a .npy file of text, and the
    labels are those of :func:`~assay.features.arrays.read_targets`.
    """

    def __init__(
        self, path: str | os.PathLike[str], label_path: str | os.PathLike[str] | None = None
    ) -> None:
        """
        Raises:
            DataError: the list is missing, empty, has an entry without a label, or there are more
                or fewer labels than paths.
        """
        file = Path(path)
        if label_path is None:
            entries = parse_file_list(_read_text(file), file.suffix.lower(), printable(str(path)))
            listed = [entry.path for entry in entries]
            targets, class_names, multi_label = _targets(entries, printable(str(path)))
        else:
            listed = _read_paths(file)
            targets, class_names, multi_label = read_targets(Path(label_path))
        if not listed:
            raise DataError(f"{file}: the list names no image.")
        if len(listed) != len(targets):
            raise DataError(f"{file}: {len(listed)} paths, but {len(targets)} in {label_path}.")
        super().__init__(
            source=str(path),
            paths=[file.parent / name for name in listed],
            names=listed,
            class_names=class_names,
            targets=targets,
            multi_label=multi_label,
        )
        self.knows_all_classes = label_path is None or not multi_label


def parse_file_list(text: str, suffix: str = ".txt", where: str = "list") -> list[ListedImage]:
    """The entries of a list, in order. Blank lines and lines that begin with ``#`` are left out.

    In a ``.csv`` list the fields are separated by commas and may be quoted; the first is the path,
    the others are labels; a heading such as ``id,path,label`` chooses the columns. In any other
    list a line is a path and its labels, separated by a tab; or, without a tab, by the last white
    space, so that a path may hold spaces; or, without white space, by the last comma. A heading
    such as ``path label`` is left out. Several labels are separated by commas. A path may stand in
    double quotes, which are doubled within.

    Raises:
        DataError: an entry without a label, in a list that is not multi-label.

    >>> [(entry.path, entry.labels) for entry in parse_file_list("my cat.jpg cat\\nb.jpg\\t3")]
    [('my cat.jpg', ('cat',)), ('b.jpg', ('3',))]
    """
    entries = list(_parse_csv(text, where) if suffix == ".csv" else _parse_lines(text))
    multi_label = any(entry.has_comma for entry in entries)
    for entry in entries:
        if not entry.path or (not entry.labels and not multi_label):
            raise DataError(
                f"{where}, line {entry.line}: expected a path and a label, such as 'cat.jpg 3', "
                f"and found {printable(' '.join((entry.path, *entry.labels)))!r}. The labels of a "
                "list of paths alone are given by --train-labels or --test-labels FILE."
            )
    return entries


def _parse_lines(text: str) -> Iterator[ListedImage]:
    first = True
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.removesuffix("\r")
        if not line.strip() or line.startswith("#"):
            continue
        path, label = _split_line(line)
        if first and _headings((path, label)) is not None:
            first = False
            continue
        first = False
        yield _listed(path, label, number)


def _split_line(line: str) -> tuple[str, str]:
    """(path, labels) of one line; the labels are empty if the line has none."""
    if "\t" in line:
        path, _, label = line.rpartition("\t")
        return _unquote(path), label
    line = line.strip()
    quoted = _QUOTED.fullmatch(line)
    if quoted:
        return _unquote(quoted["path"]), quoted["label"]
    fields = line.rsplit(None, 1)
    if len(fields) == 2:
        return fields[0], fields[1]
    path, comma, label = line.rpartition(",")
    return (path, label) if comma else (line, "")


def _unquote(path: str) -> str:
    stripped = path.strip()
    if len(stripped) > 1 and stripped[0] == stripped[-1] == '"':
        return stripped[1:-1].replace('""', '"')
    return path


def _parse_csv(text: str, where: str) -> Iterator[ListedImage]:
    reader = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True)
    columns: tuple[int, int] | None = None
    first = True
    try:
        for row in reader:
            if not any(cell.strip() for cell in row) or row[0].startswith("#"):
                continue
            if first:
                first = False
                columns = _headings(row)
                if columns is not None:
                    continue
            if columns is None:
                yield _listed(row[0], ",".join(row[1:]), reader.line_num)
            elif len(row) <= max(columns):
                yield _listed(row[0], "", reader.line_num)
            else:
                yield _listed(row[columns[0]], row[columns[1]], reader.line_num)
    except csv.Error as error:
        raise DataError(f"{where}, line {reader.line_num}: not CSV: {error}.") from error


def _headings(row: Sequence[str]) -> tuple[int, int] | None:
    """The columns of path and label if ``row`` is a heading, else None."""
    cells = [cell.strip().lower() for cell in row]
    paths = [index for index, cell in enumerate(cells) if cell in _PATH_HEADINGS]
    labels = [index for index, cell in enumerate(cells) if cell in _LABEL_HEADINGS]
    return (paths[0], labels[0]) if paths and labels else None


def _listed(path: str, label: str, line: int) -> ListedImage:
    labels = dict.fromkeys(part.strip() for part in label.split(","))
    return ListedImage(path, tuple(part for part in labels if part), "," in label, line)


def _targets(
    entries: Sequence[ListedImage], where: str
) -> tuple[npt.NDArray[np.int64], tuple[str, ...], bool]:
    used = {label for entry in entries for label in entry.labels}
    if not used:
        raise DataError(f"{where}: the list names no image with a label.")
    if all(map(is_class_id, used)):
        ids = {label: int(label) for label in used}
        class_names = numbered_classes(np.array(list(ids.values())), where)
    else:
        class_names = tuple(sorted(used))
        ids = {name: place for place, name in enumerate(class_names)}
    multi_label = any(entry.has_comma for entry in entries)
    if multi_label:
        targets = np.zeros((len(entries), len(class_names)), np.int64)
        for row, entry in zip(targets, entries, strict=True):
            row[[ids[label] for label in entry.labels]] = 1
    else:
        targets = np.array([[ids[entry.labels[0]]] for entry in entries], np.int64)
    return targets, tuple(printable(name) for name in class_names), multi_label


def _read_paths(file: Path) -> list[str]:
    """The paths of a list without labels."""
    if file.suffix.lower() == ".npy":
        array = map_array(file)
        if array.ndim != 1 or array.dtype.kind != "U":
            raise DataError(f"{file}: an array of {array.dtype}; expected (N,) paths as text.")
        return [str(path) for path in array]
    lines = (line.removesuffix("\r") for line in _read_text(file).split("\n"))
    return [_unquote(line) for line in lines if line.strip() and not line.startswith("#")]


def _read_text(file: Path) -> str:
    """The text of a list. Names in other encodings than UTF-8 survive as surrogate escapes."""
    try:
        data = read_regular(file)
    except OSError as error:
        raise DataError(f"{file}: cannot read: {error.strerror}.") from error
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "surrogateescape")
