"""The shards of all ranks as they are on the disk, checked for holes and contradictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from assay.errors import ShardError, nearest_names
from assay.features.manifest import (
    KINDS,
    Kind,
    Manifest,
    Progress,
    find_records,
    list_shards,
    listed_name,
    read_manifest,
    read_progress,
    shard_path,
)
from assay.features.npy_reading import MappedArray, map_npy

__all__ = ["FoundShards", "Shard", "read_shards"]


@dataclass(frozen=True)
class Shard:
    """One rank's rows of one layer; the features stay on the disk."""

    path: Path  # of the features (n, width), of a float dtype
    width: int
    row_bytes: int  # of a row in the file
    targets: npt.NDArray[np.int64]  # (n, L)
    inds: npt.NDArray[np.int64]  # (n,)

    def features(self, start: int, stop: int) -> npt.NDArray[np.float32]:
        """Rows ``start:stop``, mapped from the file if they are float32 there."""
        rows: npt.NDArray[Any] = map_npy(self.path)[start:stop]
        return rows.astype(np.float32, copy=False)


@dataclass(frozen=True)
class FoundShards:
    """The shards of one layer."""

    shards: tuple[Shard, ...]  # at least one, in the order of the ranks
    skipped: npt.NDArray[np.int64]  # indices of images that legitimately have no row
    num_images: int | None  # in the whole split, if that is known


def read_shards(
    folder: Path, split: str, layer: str, num_images: int | None, world_size: int | None
) -> FoundShards:
    """The shards of a layer, with everything checked that does not need their rows' order.

    Raises:
        ShardError: nothing is there, a rank or a file is missing, lengths or widths differ, the
            manifests contradict each other, or a file cannot be read.
    """
    if not folder.is_dir():
        raise ShardError(f"{folder}: there is no such folder. Extract the features to it first.")
    _refuse_unfinished(folder, split)
    there = list_shards(folder, split)
    manifests = _read_manifests(folder, split, layer)
    if listed_name(layer) not in there and not manifests:
        known = ", ".join(sorted(there)) or "none"
        raise ShardError(
            f"{folder}: no shards of layer {layer!r} of split {split!r}."
            f"{nearest_names(layer, there)} Layers with shards there: {known}."
        )
    ranks = there.get(listed_name(layer), {})
    if manifests:
        world_size = manifests[0].world_size
        if num_images not in (None, manifests[0].num_images):
            raise ShardError(
                f"{folder}: {num_images} images are expected, but the shards of split {split!r} "
                f"were made of {manifests[0].num_images}. Extract again."
            )
        num_images = manifests[0].num_images
    _refuse_incomplete(folder, split, layer, ranks, world_size)
    shards = tuple(_read_shard(folder, rank, split, layer) for rank in sorted(ranks))
    _refuse_unequal_widths(shards)
    for shard, manifest in zip(shards, manifests, strict=False):
        if len(shard.inds) != manifest.rows:
            raise ShardError(
                f"{shard.path}: {len(shard.inds)} rows, but its manifest says {manifest.rows}. "
                f"Extract again."
            )
    skipped = sorted({image.index for manifest in manifests for image in manifest.skipped})
    # A shard without rows has no width; one is kept where all are so.
    return FoundShards(
        tuple(shard for shard in shards if len(shard.inds)) or shards[:1],
        np.array(skipped, np.int64),
        num_images,
    )


def _refuse_unfinished(folder: Path, split: str) -> None:
    for path in find_records(folder, split, Progress).values():
        progress = read_progress(path)
        if progress is not None:
            raise ShardError(
                f"{path}: the extraction of split {split!r} by rank {progress.rank} is not "
                f"finished. Run it again: it goes on from image {progress.done} of its share."
            )


def _read_manifests(folder: Path, split: str, layer: str) -> list[Manifest]:
    """The manifests that name the layer, in the order of the ranks, all of one extraction."""
    read = [read_manifest(path) for path in find_records(folder, split, Manifest).values()]
    manifests = [manifest for manifest in read if manifest and manifest.layer(layer)]
    if not manifests:
        return []
    first = manifests[0]
    for other in manifests[1:]:
        for name, what in (
            ("world_size", "number of ranks"),
            ("num_images", "number of images"),
            ("fingerprint", "model, images or settings"),
        ):
            if getattr(other, name) != getattr(first, name):
                raise ShardError(
                    f"{folder}: ranks {first.rank} and {other.rank} of split {split!r} were "
                    f"extracted with another {what}. Extract again, all ranks with the same."
                )
    missing = sorted(set(range(first.world_size)) - {manifest.rank for manifest in manifests})
    if missing:
        raise ShardError(
            f"{folder}: split {split!r}, layer {layer!r}: no manifest of rank {_listed(missing)}, "
            f"of {first.world_size} ranks. Extract again: finished ranks are reused."
        )
    return manifests


def _refuse_incomplete(
    folder: Path,
    split: str,
    layer: str,
    ranks: dict[int, set[Kind]],
    world_size: int | None,
) -> None:
    expected = max(ranks, default=-1) + 1 if world_size is None else world_size
    beyond = sorted(rank for rank in ranks if rank >= expected)
    if beyond:
        raise ShardError(
            f"{folder}: split {split!r}, layer {layer!r}: there are shards of rank "
            f"{_listed(beyond)}, but only {expected} ranks. Delete those of other runs."
        )
    missing = [rank for rank in range(expected) if rank not in ranks]
    if missing:
        raise ShardError(
            f"{folder}: split {split!r}, layer {layer!r}: no shards of rank {_listed(missing)}, "
            f"of {expected} ranks. Extract again, or put them there."
        )
    for rank in sorted(ranks):
        for kind in KINDS:
            if kind not in ranks[rank]:
                path = shard_path(folder, rank, split, layer, kind)
                raise ShardError(f"{path}: the file is missing. Extract rank {rank} again.")


def _read_shard(folder: Path, rank: int, split: str, layer: str) -> Shard:
    path = shard_path(folder, rank, split, layer, "features")
    features = _map(path)
    if features.ndim != 2 or features.dtype.kind != "f":
        raise ShardError(
            f"{path}: an array of shape {features.shape} and dtype {features.dtype}, where "
            f"features of shape (n, D) and a float dtype are needed."
        )
    targets = _integers(shard_path(folder, rank, split, layer, "targets"))
    targets = targets[:, np.newaxis] if targets.ndim == 1 else targets
    inds = _integers(shard_path(folder, rank, split, layer, "inds"))
    if inds.ndim == 2 and inds.shape[1] == 1:
        inds = inds[:, 0]
    if targets.ndim != 2 or inds.ndim != 1:
        raise ShardError(
            f"{path}: targets of shape {targets.shape} and inds of shape {inds.shape} stand beside "
            f"it, where (n,) or (n, L), and (n,), are needed."
        )
    if not len(features) == len(targets) == len(inds):
        raise ShardError(
            f"{path}: {len(features)} feature rows, but {len(targets)} targets and {len(inds)} "
            f"indices. Extract all three in one run, or delete the shard and extract again."
        )
    if (inds < 0).any():
        raise ShardError(f"{path}: index {inds.min()} stands beside it; indices count from 0.")
    row_bytes = features.shape[1] * features.dtype.itemsize
    return Shard(path, features.shape[1], row_bytes, targets, inds)


def _refuse_unequal_widths(shards: Sequence[Shard]) -> None:
    filled = [shard for shard in shards if len(shard.inds)]
    for shard in filled[1:]:
        first = filled[0]
        for what, one, other in (
            ("features", first.width, shard.width),
            ("targets", first.targets.shape[1], shard.targets.shape[1]),
        ):
            if one != other:
                raise ShardError(
                    f"{first.path} and {shard.path}: {one} and {other} {what} a row. These are "
                    f"shards of different runs: delete them and extract again."
                )


def _integers(path: Path) -> npt.NDArray[np.int64]:
    """A copy of the array in a file, as int64."""
    values = _map(path)
    if values.dtype.kind == "f" and not np.array_equal(values, np.trunc(values)):
        raise ShardError(f"{path}: fractions, where whole numbers are needed.")
    if values.dtype.kind not in "biuf":
        raise ShardError(f"{path}: dtype {values.dtype}, where whole numbers are needed.")
    return np.array(values, np.int64)


def _map(path: Path) -> MappedArray:
    try:
        return map_npy(path)
    except (OSError, ValueError) as error:
        raise ShardError(
            f"{path}: cannot be read: {error}. Delete the shard and extract again."
        ) from error


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks[:10])) + (", ..." if len(ranks) > 10 else "")
