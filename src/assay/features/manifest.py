"""What stands beside feature shards: their names, and the records of what they hold.

A rank that extracts one split writes, in one folder::

    rank{R}_{split}_{layer}_features.npy   (n, D) float32, a row for each image it could read
    rank{R}_{split}_{layer}_targets.npy    (n, L) int64
    rank{R}_{split}_{layer}_inds.npy       (n,) int64, each row's index in the whole split
    rank{R}_{split}_manifest.json          a Manifest; written last, so what it names is whole
    rank{R}_{split}_progress.json          a Progress; there only while the extraction is unfinished

In names of files, split and layer are written as :func:`~assay.features.file_names.name_part` says:
``/`` is ``%2F``, and a name of more than 150 characters is cut and ends in a digest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

from assay._atomic import write_json
from assay.errors import ShardError
from assay.features.file_names import name_part
from assay.features.layer_spec import LayerSpec
from assay.features.record_fields import read_count, read_list, read_section, read_text
from assay.features.regular_file import read_regular

__all__ = [
    "KINDS",
    "FileRecord",
    "Kind",
    "LayerRecord",
    "Manifest",
    "Progress",
    "SkippedImage",
    "find_records",
    "list_rank_files",
    "list_shards",
    "listed_name",
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
    return folder / f"rank{rank}_{_split_part(split)}_{name_part(layer)}_{kind}.npy"


def record_path(folder: Path, rank: int, split: str, kind: type[Manifest | Progress]) -> Path:
    """Where a rank's manifest or progress record is."""
    return folder / f"rank{rank}_{_split_part(split)}_{kind.__name__.lower()}.json"


def lock_path(folder: Path, rank: int, split: str) -> Path:
    """The file that a rank locks while it writes."""
    return folder / f"rank{rank}_{_split_part(split)}.lock"


def list_shards(folder: Path, split: str) -> dict[str, dict[int, set[Kind]]]:
    """Which shard files of a split are there: :func:`listed_name` of a layer -> rank -> kinds."""
    prefix = f"{_split_part(split)}_"
    found: dict[str, dict[int, set[Kind]]] = {}
    for path in folder.iterdir():
        match = _SHARD_NAME.fullmatch(path.name)
        if match is None or not match[2].startswith(prefix):
            continue
        layer = _unquoted(match[2].removeprefix(prefix))
        kind = next(kind for kind in KINDS if kind == match[3])
        found.setdefault(layer, {}).setdefault(int(match[1]), set()).add(kind)
    return found


def list_rank_files(folder: Path, rank: int, split: str) -> list[Path]:
    """Every file that has its name by this rank and split, whole or not yet."""
    pattern = re.compile(
        rf"rank{rank}_{re.escape(_split_part(split))}_.+_({'|'.join(KINDS)})\.npy(\.partial)?"
    )
    return sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name))


def listed_name(layer: str) -> str:
    """What :func:`list_shards` calls a layer: its name, as far as the names of files show it."""
    return _unquoted(name_part(layer))


def find_records(folder: Path, split: str, kind: type[Manifest | Progress]) -> dict[int, Path]:
    """The manifests or progress records of a split: rank -> path, in the order of the ranks."""
    name = f"_{_split_part(split)}_{kind.__name__.lower()}.json"
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
        ShardError: it cannot be read, or contradicts itself.
    """
    data = _read(path)
    if data is None:
        return None
    try:
        manifest = Manifest(
            fingerprint=read_text(data, "fingerprint"),
            made_with=read_section(data, "made_with"),
            split=read_text(data, "split"),
            rank=read_count(data, "rank"),
            world_size=read_count(data, "world_size"),
            num_images=read_count(data, "num_images"),
            rows=read_count(data, "rows"),
            layers=_layers(data, KINDS),
            skipped=_skipped(data),
        )
        _refuse_misplaced(path, manifest)
        share = range(manifest.rank, manifest.num_images, manifest.world_size)
        _refuse_odd_counts(manifest, share)
    except ValueError as error:
        raise _unreadable(path, error) from error
    return manifest


def read_progress(path: Path) -> Progress | None:
    """The progress record in a file; None if there is no file.

    Raises:
        ShardError: it cannot be read, or contradicts itself.
    """
    data = _read(path)
    if data is None:
        return None
    try:
        progress = Progress(
            fingerprint=read_text(data, "fingerprint"),
            split=read_text(data, "split"),
            rank=read_count(data, "rank"),
            world_size=read_count(data, "world_size"),
            done=read_count(data, "done"),
            layers=_layers(data, KINDS[:1]),
            skipped=_skipped(data),
        )
        _refuse_misplaced(path, progress)
        ranks = (progress.rank, progress.world_size)
        share = range(ranks[0], ranks[0] + progress.done * ranks[1], ranks[1])
        _refuse_odd_counts(progress, share)
    except ValueError as error:
        raise _unreadable(path, error) from error
    return progress


def _unquoted(part: str) -> str:
    return unquote(part, errors="surrogatepass")


def _split_part(split: str) -> str:
    return name_part(split, longest=60)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        data = json.loads(read_regular(path).decode("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(path, error) from error
    if not isinstance(data, dict) or data.get("schema") != _SCHEMA:
        raise _unreadable(path, f"not of schema {_SCHEMA}")
    return data


def _layers(data: dict[str, Any], kinds: Sequence[Kind]) -> tuple[LayerRecord, ...]:
    """The layers, each with a file of each of ``kinds``; no layer twice."""
    layers = []
    for layer in read_list(data, "layers", dict):
        spec, files = read_section(layer, "spec"), read_section(layer, "files")
        layers.append(
            LayerRecord(
                spec=LayerSpec(read_text(spec, "name"), read_text(spec, "pool")),
                non_finite_rows=read_count(layer, "non_finite_rows"),
                files={kind: _file(read_section(files, kind)) for kind in kinds},
            )
        )
    names = [layer.spec.name for layer in layers]
    if len(set(names)) < len(names):
        raise ValueError("it names a layer twice")
    return tuple(layers)


def _file(data: dict[str, Any]) -> FileRecord:
    lengths = read_list(data, "shape", int)
    if min(lengths, default=-1) < 0:
        raise ValueError(f"a shape is {lengths}")
    return FileRecord(
        shape=tuple(lengths),
        dtype=read_text(data, "dtype"),
        crc32=read_count(data, "crc32", most=2**32 - 1),
    )


def _skipped(data: dict[str, Any]) -> tuple[SkippedImage, ...]:
    return tuple(
        SkippedImage(
            read_count(image, "index"), read_text(image, "name"), read_text(image, "reason")
        )
        for image in read_list(data, "skipped", dict)
    )


def _refuse_misplaced(path: Path, record: Manifest | Progress) -> None:
    if record.rank >= record.world_size:
        raise ValueError(f"its rank is {record.rank} of {record.world_size} ranks")
    if path.name != record_path(path.parent, record.rank, record.split, type(record)).name:
        raise ValueError(f"it is of rank {record.rank} and split {record.split!r}")


def _refuse_odd_counts(record: Manifest | Progress, share: range) -> None:
    """Every image of the ``share`` that is dealt with has a row in each file, or is skipped."""
    skipped = {image.index for image in record.skipped}
    if len(skipped) < len(record.skipped) or not all(index in share for index in skipped):
        raise ValueError("it skips an image twice, or one that is not of its rank")
    if record.rows != len(share) - len(skipped):
        raise ValueError(
            f"it has {record.rows} rows and skips {len(skipped)} images, of {len(share)}"
        )
    for layer in record.layers:
        lengths = {file.shape[:1] for file in layer.files.values()}
        if lengths != {(record.rows,)} or layer.non_finite_rows > record.rows:
            raise ValueError(
                f"its files of layer {layer.spec.name!r} do not have {record.rows} rows each"
            )


def _unreadable(path: Path, reason: object) -> ShardError:
    return ShardError(
        f"{path}: this record of feature shards cannot be read: {reason}. Delete it and the "
        f"shards of its rank, and extract again; --force does both."
    )
