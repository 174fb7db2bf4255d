"""Feature shards of all ranks -> the features of the whole split."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from assay._atomic import atomic_path
from assay.errors import ShardError
from assay.features.npy_files import create_npy
from assay.features.npy_reading import map_npy
from assay.features.shard_reader import FoundShards, Shard, read_shards

__all__ = ["FeatureSet", "merge_features", "merge_shards"]

_WINDOW_BYTES = 1 << 23
_NUM_THREADS = 4
_NAMED_INDICES = 10

_What: TypeAlias = Literal["features", "targets"]


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
    plan = _Plan(found.shards, inds, place.reshape(-1), first)
    targets = np.empty((len(inds), found.shards[0].targets.shape[1]), np.int64)
    _fill(plan, "targets", targets)
    shape = (len(inds), found.shards[0].width)
    if out is None:
        features = np.empty(shape, np.float32)
        _fill(plan, "features", features)
    else:
        with atomic_path(out) as partial:
            mapped = create_npy(partial, shape, np.float32)
            _fill(plan, "features", mapped)
            mapped.flush()
            del mapped
        features = map_npy(out)
    return FeatureSet(features, targets, inds)


@dataclass(frozen=True)
class _Window:
    """Some neighbouring rows of one shard."""

    shard: Shard
    start: int  # in the shard
    stop: int
    place: npt.NDArray[np.int64]  # (n,) where they go

    def rows(self, what: _What) -> npt.NDArray[Any]:
        """Its rows. Mapped anew each time, so that what was read before is let go."""
        if what == "targets":
            return self.shard.targets[self.start : self.stop]
        return self.shard.features(self.start, self.stop)


@dataclass(frozen=True)
class _Plan:
    """Where the M rows of all shards, one shard after the other, go in the N rows of the output."""

    shards: tuple[Shard, ...]
    inds: npt.NDArray[np.int64]  # (N,)
    place: npt.NDArray[np.int64]  # (M,) row of the output
    first: npt.NDArray[np.int64]  # (N,) which of the M rows is the first copy

    def windows(self) -> Iterator[_Window]:
        """The M rows in parts that are small enough to be read at once, in order."""
        begin = 0
        for shard in self.shards:
            size = max(1, _WINDOW_BYTES // max(1, shard.row_bytes))
            for start in range(0, len(shard.inds), size):
                stop = min(start + size, len(shard.inds))
                yield _Window(shard, start, stop, self.place[begin + start : begin + stop])
            begin += len(shard.inds)


def _fill(plan: _Plan, what: _What, output: npt.NDArray[Any]) -> None:
    """Put all rows in their places, and see to it that further copies are equal to the first."""

    def put(window: _Window) -> None:
        output[_as_slice(window.place)] = window.rows(what)

    # Copying lets go of Python's lock, and the kernel hands out fresh pages to several at once.
    with ThreadPoolExecutor(_NUM_THREADS) as pool:
        deque(pool.map(put, plan.windows()), maxlen=0)
    if len(plan.place) > len(plan.inds):
        _compare_copies(plan, what, output)


def _compare_copies(plan: _Plan, what: _What, output: npt.NDArray[Any]) -> None:
    is_first = np.zeros(len(plan.place), np.bool_)
    is_first[plan.first] = True
    is_repeated = (np.bincount(plan.place) > 1)[plan.place]
    # First copies once more: of several copies, any may have been put last.
    for rows, values in _pick(plan, what, is_repeated & is_first):
        output[plan.place[rows]] = values
    bits = np.dtype(f"u{output.itemsize}")
    for rows, values in _pick(plan, what, ~is_first):
        differs = (output[plan.place[rows]].view(bits) != values.view(bits)).any(axis=1)
        if differs.any():
            raise _copies_differ(plan, int(rows[differs][0]), what)


def _pick(
    plan: _Plan, what: _What, wanted: npt.NDArray[np.bool_]
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[Any]]]:
    """Which of the M rows are ``wanted``, and what is in them."""
    begin = 0
    for window in plan.windows():
        chosen = np.flatnonzero(wanted[begin : begin + len(window.place)])
        if len(chosen):
            yield begin + chosen, np.ascontiguousarray(window.rows(what)[chosen])
        begin += len(window.place)


def _as_slice(place: npt.NDArray[np.int64]) -> Any:
    """Equally spaced places as a slice, which is copied faster than a list of places."""
    if len(place) < 2:
        return place
    steps = np.diff(place)
    step = int(steps[0])
    if step < 1 or (steps != step).any():
        return place
    return slice(int(place[0]), int(place[-1]) + 1, step)


def _copies_differ(plan: _Plan, copy: int, what: _What) -> ShardError:
    ends = np.cumsum([len(shard.inds) for shard in plan.shards])
    first = plan.first[plan.place[copy]]
    one, other = (plan.shards[np.searchsorted(ends, row, side="right")] for row in (first, copy))
    index = plan.inds[plan.place[copy]]
    if one is other:
        return ShardError(
            f"{one.path}: two rows of index {index} differ in their {what}. "
            f"Delete the shards and extract again."
        )
    return ShardError(
        f"{one.path} and {other.path}: both have a row of index {index}, and these differ in "
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
