"""Feature shards of all ranks -> the features of the whole split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from assay._atomic import atomic_path
from assay.errors import ShardError
from assay.features.npy_files import create_npy, map_npy
from assay.features.shard_reader import FoundShards, Shard, read_shards

__all__ = ["FeatureSet", "merge_features", "merge_shards"]

_WINDOW_BYTES = 1 << 25
_NAMED_INDICES = 10


@dataclass(frozen=True)
class FeatureSet:
    """The features of one layer over a split, in the order of the images."""

    features: npt.NDArray[np.float32]  # (N, D)
    targets: npt.NDArray[np.int64]  # (N, L): class ids, or 1 present, 0 absent, -1 not counted
    inds: npt.NDArray[np.int64]  # (N,): each row's index in the split; sorted, unique


def merge_features(
    output_dir: str | Path, split: str, layer: str, cfg: Mapping[str, Any] | None = None
) -> dict[str, npt.NDArray[Any]]:
    """The features of all ranks, put together by index: every image once, in order.

    Args:
        output_dir: the folder of the shards.
        split: "train", "test".
        layer: the layer's name.
        cfg: settings. ``DISTRIBUTED.NUM_PROC_PER_NODE`` times ``DISTRIBUTED.NUM_NODES``, if given,
            is the number of ranks to expect of shards that have no manifest; for others the
            manifests know better. May be empty or None.

    Returns:
        ``{"features": (N, D) float32, "targets": (N, L) int64, "inds": (N,) int64}``.

    Raises:
        ShardError: as :func:`merge_shards`.
    """
    merged = merge_shards(output_dir, split, layer, world_size=_world_size(cfg))
    return {"features": merged.features, "targets": merged.targets, "inds": merged.inds}


def merge_shards(
    output_dir: str | Path,
    split: str,
    layer: str,
    *,
    num_images: int | None = None,
    world_size: int | None = None,
    out: Path | None = None,
) -> FeatureSet:
    """The features of all ranks, put together by index: every image once, in order.

    Shards are ``rank{R}_{split}_{layer}_{features,targets,inds}.npy``: features of any float dtype
    (n, D), targets (n,) or (n, L), inds (n,). A row that a sampler repeated appears once; its
    copies have to be equal to the bit. Where the shards have manifests, these say which ranks there
    are, how many images, and which were skipped as unreadable. Memory: the output and some 50 MB,
    as shards are read through small windows.

    Args:
        output_dir: the folder of the shards.
        split: "train", "test".
        layer: the layer's name.
        num_images: images in the whole split; by default as the manifests say, else up to the
            highest index.
        world_size: the number of ranks to expect of shards that have no manifest; by default up to
            the highest rank.
        out: an ``.npy`` file for the features, which then are memory-mapped from there.

    Raises:
        ShardError: a file, a rank or an index is missing, lengths or widths differ, copies of a row
            differ, or a file cannot be read; the message names them.
        OutputError: ``out`` cannot be written.
    """
    found = read_shards(Path(output_dir), split, layer, num_images, world_size)
    inds, first, place = np.unique(
        np.concatenate([shard.inds for shard in found.shards]),
        return_index=True,
        return_inverse=True,
    )
    where = f"{output_dir}: split {split!r}, layer {layer!r}"
    _refuse_missing(where, inds, found)
    is_first = np.zeros(len(place), np.bool_)
    is_first[first] = True
    rows = _Rows(place.reshape(-1), is_first)
    targets = np.empty((len(inds), found.shards[0].targets.shape[1]), np.int64)
    shape = (len(inds), found.shards[0].width)
    if out is None:
        features = np.empty(shape, np.float32)
        _merge(found.shards, rows, features, targets)
    else:
        with atomic_path(out) as partial:
            mapped = create_npy(partial, shape, np.float32)
            _merge(found.shards, rows, mapped, targets)
            mapped.flush()
            del mapped
        features = map_npy(out)
    return FeatureSet(features, targets, inds)


@dataclass(frozen=True)
class _Rows:
    """Where the M rows of all shards go, one shard after the other."""

    place: npt.NDArray[np.int64]  # (M,) row of the output
    is_first: npt.NDArray[np.bool_]  # (M,) whether it is the first copy of that row

    def part(self, start: int, stop: int) -> _Rows:
        return _Rows(self.place[start:stop], self.is_first[start:stop])


def _merge(
    shards: Sequence[Shard],
    rows: _Rows,
    features: npt.NDArray[np.float32],
    targets: npt.NDArray[np.int64],
) -> None:
    """Fill features (N, D) and targets (N, L)."""
    start = 0
    for shard in shards:
        own = rows.part(start, start + len(shard.inds))
        start += len(shard.inds)
        _place(shard.targets, own, targets, shard, shards, "targets")
        window = max(1, _WINDOW_BYTES // max(1, shard.row_bytes))
        for at in range(0, len(shard.inds), window):
            # Mapped anew each time: pages that were read would count as memory of this process.
            values = shard.features(at, at + window)
            _place(values, own.part(at, at + window), features, shard, shards, "features")


def _place(
    values: npt.NDArray[Any],
    rows: _Rows,
    output: npt.NDArray[Any],
    shard: Shard,
    shards: Sequence[Shard],
    what: str,
) -> None:
    """Put first copies in their places, and compare further copies with what stands there."""
    if rows.is_first.all():
        output[_as_slice(rows.place)] = values
        return
    output[rows.place[rows.is_first]] = values[rows.is_first]
    copies = ~rows.is_first
    bits = np.dtype(f"u{output.itemsize}")
    here = np.ascontiguousarray(values[copies], output.dtype).view(bits)
    there = output[rows.place[copies]].view(bits)
    differs = (here != there).any(axis=1)
    if differs.any():
        place = rows.place[copies][differs][0]
        raise _copies_differ(place, what, shard, shards)


def _as_slice(place: npt.NDArray[np.int64]) -> Any:
    """Equally spaced places as a slice, which is copied faster than a list of places."""
    if len(place) < 2:
        return place
    steps = np.diff(place)
    step = int(steps[0])
    if step < 1 or (steps != step).any():
        return place
    return slice(int(place[0]), int(place[-1]) + 1, step)


def _copies_differ(place: int, what: str, shard: Shard, shards: Sequence[Shard]) -> ShardError:
    index = np.unique(np.concatenate([each.inds for each in shards]))[place]
    first = next(each for each in shards if index in each.inds)
    if first is shard:
        return ShardError(
            f"{shard.path}: two rows of index {index} differ in their {what}. "
            f"Delete the shards and extract again."
        )
    return ShardError(
        f"{first.path} and {shard.path}: both have a row of index {index}, and these differ in "
        f"their {what}: the ranks did not run the same model on the same images. "
        f"Delete the shards and extract again."
    )


def _refuse_missing(where: str, inds: npt.NDArray[np.int64], found: FoundShards) -> None:
    """Do nothing if every image has a row or was skipped."""
    known = np.union1d(inds, found.skipped)
    num_images = found.num_images
    if num_images is None:
        num_images = int(known[-1]) + 1 if len(known) else 0
    if len(known) and known[-1] >= num_images:
        raise ShardError(
            f"{where}: there is a row of index {known[-1]}, but only {num_images} images. "
            f"Are these the shards of another split or data set? Extract again."
        )
    count = num_images - len(known)
    if count:
        named = ", ".join(map(str, _first_missing(known, num_images, _NAMED_INDICES)))
        more = ", ..." if count > _NAMED_INDICES else ""
        raise ShardError(
            f"{where}: no shard has a row for {count} of {num_images} images, "
            f"index {named}{more}. Extract again: finished ranks are reused."
        )
    if not len(inds):
        raise ShardError(f"{where}: the shards hold no row. Extract again.")


def _first_missing(known: npt.NDArray[np.int64], num_images: int, count: int) -> list[int]:
    """The first ``count`` of 0..num_images-1 that are not in ``known`` (sorted, unique)."""
    missing: list[int] = []
    ends = np.append(known, num_images)
    starts = np.concatenate([[0], known + 1])
    for gap in np.flatnonzero(ends > starts):
        missing.extend(range(starts[gap], min(ends[gap], starts[gap] + count - len(missing))))
        if len(missing) == count:
            break
    return missing


def _world_size(cfg: Mapping[str, Any] | None) -> int | None:
    distributed = (cfg or {}).get("DISTRIBUTED") or {}
    processes = distributed.get("NUM_PROC_PER_NODE")
    return None if processes is None else int(processes) * int(distributed.get("NUM_NODES") or 1)
