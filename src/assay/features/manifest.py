"""What stands beside feature shards: their names, and the records of what they hold.

A rank that extracts one split writes, in one folder::

    rank{R}_{split}_{layer}_features.npy   (n, D) float32, a row for each image it could read
    rank{R}_{split}_{layer}_targets.npy    (n, L) int64
    rank{R}_{split}_{layer}_inds.npy       (n,) int64, each row's index in the whole split
    rank{R}_{split}_manifest.json          a Manifest; written last, so what it names is whole
    rank{R}_{split}_progress.json          a Progress; there only while the extraction is unfinished

In names of files, split and layer keep letters, digits and ``_ . - ~``; any other character is
percent-encoded, so ``/`` is ``%2F``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, unquote

from assay._atomic import write_json
from assay.errors import ShardError
from assay.features.layer_spec import LayerSpec

__all__ = [
    "KINDS",
    "FileRecord",
    "Kind",
    "LayerRecord",
    "Manifest",
    "Progress",
    "SkippedImage",
    "find_records",
    "list_shards",
    "lock_path",
    "read_manifest",
    "read_progress",
    "record_path",
    "shard_path",
    "write_record",
]

Kind = Literal["features", "targets", "inds"]
KINDS: tuple[Kind, ...] = ("features", "targets", "inds")
_SCHEMA = 1
_SHARD_NAME = re.compile(r"rank(0|[1-9]\d*)_(.+)_(features|targets|inds)\.npy")


@dataclass(frozen=True)
class FileRecord:
    """One ``.npy`` file."""

    shape: tuple[int, ...]
    dtype: str  # "<f4"
    crc32: int  # of the bytes of the array, in C order, without the header


@dataclass(frozen=True)
class LayerRecord:
    """One layer's part of a rank's shards."""

    spec: LayerSpec
    non_finite_rows: int  # rows that hold a NaN or an infinity
    files: Mapping[
        Kind, FileRecord
    ]  # of unfinished shards: only "features", as far as it is filled


@dataclass(frozen=True)
class SkippedImage:
    """An image that has no row, as it cannot be read."""

    index: int  # in the whole split
    name: str
    reason: str


@dataclass(frozen=True)
class Manifest:
    """What a rank's whole shards hold, and how they were made."""

    fingerprint: str  # "sha256:..." of made_with
    made_with: Mapping[str, Any]  # model, weights, transform, images, ...; the same on every rank
    split: str
    rank: int
    world_size: int
    num_images: int  # of the whole split, over all ranks, read or skipped
    rows: int  # of this rank
    layers: tuple[LayerRecord, ...]
    skipped: tuple[SkippedImage, ...]  # of this rank

    def layer(self, name: str) -> LayerRecord | None:
        """The record of the layer of this name, if there is one."""
        return next((layer for layer in self.layers if layer.spec.name == name), None)


@dataclass(frozen=True)
class Progress:
    """How far an unfinished extraction got; what it names is on the disk."""

    fingerprint: str
    split: str
    rank: int
    world_size: int
    done: int  # images of this rank's share that are dealt with, read or skipped
    layers: tuple[LayerRecord, ...]
    skipped: tuple[SkippedImage, ...]

    @property
    def rows(self) -> int:
        """Rows that stand in each feature file."""
        return self.done - len(self.skipped)


def shard_path(folder: Path, rank: int, split: str, layer: str, kind: Kind) -> Path:
    """Where one file of a rank's shards is.

    >>> shard_path(Path("."), 1, "train", "block/0.relu", "inds").name
    'rank1_train_block%2F0.relu_inds.npy'
    """
    return folder / f"rank{rank}_{_escape(split)}_{_escape(layer)}_{kind}.npy"


def record_path(folder: Path, rank: int, split: str, kind: type[Manifest | Progress]) -> Path:
    """Where a rank's manifest or progress record is."""
    return folder / f"rank{rank}_{_escape(split)}_{kind.__name__.lower()}.json"


def lock_path(folder: Path, rank: int, split: str) -> Path:
    """The file that a rank locks while it writes."""
    return folder / f"rank{rank}_{_escape(split)}.lock"


def list_shards(folder: Path, split: str) -> dict[str, dict[int, set[Kind]]]:
    """Which shard files of a split are there: layer -> rank -> kinds."""
    prefix = f"{_escape(split)}_"
    found: dict[str, dict[int, set[Kind]]] = {}
    for path in folder.iterdir():
        match = _SHARD_NAME.fullmatch(path.name)
        if match is None or not match[2].startswith(prefix):
            continue
        layer = unquote(match[2].removeprefix(prefix), errors="surrogatepass")
        kind = next(kind for kind in KINDS if kind == match[3])
        found.setdefault(layer, {}).setdefault(int(match[1]), set()).add(kind)
    return found


def find_records(folder: Path, split: str, kind: type[Manifest | Progress]) -> dict[int, Path]:
    """The manifests or progress records of a split: rank -> path, in the order of the ranks."""
    name = f"_{_escape(split)}_{kind.__name__.lower()}.json"
    pattern = re.compile(rf"rank(0|[1-9]\d*){re.escape(name)}")
    matches = [pattern.fullmatch(path.name) for path in folder.iterdir()]
    ranks = sorted(int(match[1]) for match in matches if match)
    return {rank: record_path(folder, rank, split, kind) for rank in ranks}


def write_record(folder: Path, record: Manifest | Progress) -> None:
    """Write a record to its place, whole or not at all."""
    path = record_path(folder, record.rank, record.split, type(record))
    write_json(
        path, {"schema": _SCHEMA, "kind": f"feature {path.stem.split('_')[-1]}"} | asdict(record)
    )


def read_manifest(path: Path) -> Manifest | None:
    """The manifest in a file; None if there is no file.

    Raises:
        ShardError: it cannot be read.
    """
    data = _read(path)
    if data is None:
        return None
    try:
        return Manifest(
            fingerprint=str(data["fingerprint"]),
            made_with=dict(data["made_with"]),
            split=str(data["split"]),
            rank=int(data["rank"]),
            world_size=int(data["world_size"]),
            num_images=int(data["num_images"]),
            rows=int(data["rows"]),
            layers=_layers(data),
            skipped=_skipped(data),
        )
    except (LookupError, TypeError, ValueError) as error:
        raise _unreadable(path, error) from error


def read_progress(path: Path) -> Progress | None:
    """The progress record in a file; None if there is no file.

    Raises:
        ShardError: it cannot be read.
    """
    data = _read(path)
    if data is None:
        return None
    try:
        return Progress(
            fingerprint=str(data["fingerprint"]),
            split=str(data["split"]),
            rank=int(data["rank"]),
            world_size=int(data["world_size"]),
            done=int(data["done"]),
            layers=_layers(data),
            skipped=_skipped(data),
        )
    except (LookupError, TypeError, ValueError) as error:
        raise _unreadable(path, error) from error


def _escape(name: str) -> str:
    return quote(name, safe="", errors="surrogatepass")


def _read(path: Path) -> Any:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    if not isinstance(data, dict) or data.get("schema") != _SCHEMA:
        raise _unreadable(path, f"not of schema {_SCHEMA}")
    return data


def _layers(data: Any) -> tuple[LayerRecord, ...]:
    return tuple(
        LayerRecord(
            spec=LayerSpec(layer["spec"]["name"], layer["spec"]["pool"]),
            non_finite_rows=int(layer["non_finite_rows"]),
            files={
                kind: FileRecord(
                    shape=tuple(int(size) for size in layer["files"][kind]["shape"]),
                    dtype=str(layer["files"][kind]["dtype"]),
                    crc32=int(layer["files"][kind]["crc32"]),
                )
                for kind in KINDS
                if kind in layer["files"]
            },
        )
        for layer in data["layers"]
    )


def _skipped(data: Any) -> tuple[SkippedImage, ...]:
    return tuple(
        SkippedImage(int(image["index"]), str(image["name"]), str(image["reason"]))
        for image in data["skipped"]
    )


def _unreadable(path: Path, reason: object) -> ShardError:
    return ShardError(
        f"{path}: this record of feature shards cannot be read: {reason}. "
        f"Delete it and the shards of its rank, and extract again."
    )
