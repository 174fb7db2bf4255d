"""The shards that one rank makes of one split: found whole, taken up, or begun."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from assay._atomic import explain_os_errors
from assay.features.layer_spec import LayerSpec
from assay.features.manifest import (
    KINDS,
    Kind,
    LayerRecord,
    Manifest,
    Progress,
    SkippedImage,
    read_manifest,
    read_progress,
    record_path,
    shard_path,
    write_record,
)
from assay.features.shard_writer import (
    FeatureFile,
    is_whole,
    refuse_foreign_files,
    remove_ranks,
    write_array,
)

__all__ = ["RankShards", "ShardRequest", "find_whole"]

_RECORDING_SHARE = 0.05  # of the time, at most, goes into recording progress


@dataclass(frozen=True)
class ShardRequest:
    """Which shards are wanted."""

    folder: Path
    split: str
    rank: int
    world_size: int
    num_images: int  # of the whole split
    specs: tuple[LayerSpec, ...]
    made_with: Mapping[str, Any]  # JSON data: all that changes a row, but for the layer

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of ``made_with``: "sha256:..."."""
        canonical = json.dumps(self.made_with, sort_keys=True, ensure_ascii=True)
        return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"

    @property
    def share(self) -> range:
        """The indices of this rank's images."""
        return range(self.rank, self.num_images, self.world_size)

    def path(self, spec: LayerSpec, kind: Kind) -> Path:
        """Where a layer's file is."""
        return shard_path(self.folder, self.rank, self.split, spec.name, kind)


def find_whole(request: ShardRequest) -> Manifest | None:
    """The manifest of shards that are what is wanted, if such are there; more layers do no harm.

    Every file is read and compared with the CRC-32 that was taken when it was written.

    Raises:
        ShardError: the manifest cannot be read.
    """
    manifest = read_manifest(record_path(request.folder, request.rank, request.split, Manifest))
    same = ("fingerprint", "rank", "world_size", "num_images")
    if manifest is None or any(getattr(manifest, n) != getattr(request, n) for n in same):
        return None
    layers = [manifest.layer(spec.name) for spec in request.specs]
    for spec, layer in zip(request.specs, layers, strict=True):
        if layer is None or layer.spec != spec:
            return None
        for kind in KINDS:
            if not is_whole(request.path(spec, kind), layer.files[kind]):
                return None
    with explain_os_errors(request.folder):  # there if the process died between the two records
        record_path(request.folder, request.rank, request.split, Progress).unlink(missing_ok=True)
    return manifest


class RankShards:
    """Shards in the making. What an earlier, killed process made of the same is taken up.

    Anything else that this rank has of the split is removed, if a record says that it is ours.

    Attributes:
        resumed_rows: rows that an earlier process made.

    Raises:
        OutputError: the folder cannot be written, or a file in the way is not ours.
        ShardError: a record that is there cannot be read.
    """

    def __init__(self, request: ShardRequest, *, record_every_s: float) -> None:
        self._request = request
        self._record_every_s = record_every_s
        self._files = _new_files(request)
        self._state = self._take_up() or self._begin()
        self._recorded = self._state
        self._next_record_s = time.monotonic() + record_every_s
        self.resumed_rows = self._state.rows

    @property
    def done(self) -> int:
        """Images of the share that are dealt with."""
        return self._state.done

    @property
    def rows(self) -> int:
        """Rows that each layer has."""
        return self._state.rows

    @property
    def skipped(self) -> tuple[SkippedImage, ...]:
        """The images that have no row."""
        return self._state.skipped

    def append(
        self,
        features: Mapping[str, npt.NDArray[np.float32]],
        num_rows: int,
        skipped: tuple[SkippedImage, ...] = (),
    ) -> None:
        """Add the next images of the share: ``num_rows`` with a row, and those ``skipped``.

        Args:
            features: layer -> (at least num_rows, D); rows beyond are padding. May be empty if
                ``num_rows`` is 0.

        Raises:
            ModelError: a layer's D changed.
            OutputError: there is no room on the disk.
        """
        if num_rows:
            for file in self._files:
                file.append(features[file.spec.name][:num_rows])
        # One assignment: whatever interrupts this function, the state fits all layers.
        self._state = self._progress(
            self.done + num_rows + len(skipped), (*self._state.skipped, *skipped)
        )
        if time.monotonic() >= self._next_record_s:
            self.record()

    def record(self) -> None:
        """Have what is done survive a kill or a power cut."""
        if self._state == self._recorded:
            return
        start_s = time.monotonic()
        state = self._state
        for file in self._files:
            file.sync()
        write_record(self._request.folder, state)
        self._recorded = state
        end_s = time.monotonic()
        if self._record_every_s:
            pause_s = max(self._record_every_s, (end_s - start_s) / _RECORDING_SHARE)
            self._next_record_s = end_s + pause_s

    def finish(self, targets: npt.NDArray[np.int64]) -> Manifest:
        """Give all files their names and write the manifest; all of the share has to be done.

        Args:
            targets: (num_images, L) of the whole split.

        Raises:
            OutputError: the disk is full, or the folder cannot be written.
        """
        request = self._request
        self.record()
        skipped = {image.index for image in self.skipped}
        inds = np.array([index for index in request.share if index not in skipped], np.int64)
        rows_of: dict[Kind, npt.NDArray[np.int64]] = {
            "targets": np.ascontiguousarray(targets[inds], np.int64),
            "inds": inds,
        }
        layers = []
        for file in self._files:
            files = {
                kind: write_array(request.path(file.spec, kind), rows)
                for kind, rows in rows_of.items()
            }
            files["features"] = file.finish()
            layers.append(LayerRecord(file.spec, file.non_finite_rows, files))
        manifest = Manifest(
            fingerprint=request.fingerprint,
            made_with=request.made_with,
            split=request.split,
            rank=request.rank,
            world_size=request.world_size,
            num_images=request.num_images,
            rows=len(inds),
            layers=tuple(layers),
            skipped=self.skipped,
        )
        write_record(request.folder, manifest)
        with explain_os_errors(request.folder):
            record_path(request.folder, request.rank, request.split, Progress).unlink()
        return manifest

    def _take_up(self) -> Progress | None:
        """The state that an earlier process left, its files opened; None if it does not fit."""
        request = self._request
        earlier = read_progress(record_path(request.folder, request.rank, request.split, Progress))
        if earlier is None or not earlier.rows or earlier.done > len(request.share):
            return None
        blank = self._progress(earlier.done, earlier.skipped)
        same_request = all(
            getattr(earlier, name) == getattr(blank, name)
            for name in ("fingerprint", "split", "rank", "world_size")
        )
        if not same_request or [layer.spec for layer in earlier.layers] != list(request.specs):
            return None
        for file, layer in zip(self._files, earlier.layers, strict=True):
            if layer.files["features"].shape[0] != earlier.rows or not file.resume(layer):
                return None
        return earlier

    def _begin(self) -> Progress:
        request = self._request
        self._files = _new_files(request)  # some may have been taken up before one did not fit
        remove_ranks(request.folder, request.split, range(request.rank, request.rank + 1))
        refuse_foreign_files([request.path(spec, kind) for spec in request.specs for kind in KINDS])
        state = self._progress(0, ())
        # Before any other file, so that whatever a kill leaves behind is known as ours.
        write_record(request.folder, state)
        return state

    def _progress(self, done: int, skipped: tuple[SkippedImage, ...]) -> Progress:
        request = self._request
        return Progress(
            fingerprint=request.fingerprint,
            split=request.split,
            rank=request.rank,
            world_size=request.world_size,
            done=done,
            layers=tuple(file.record() for file in self._files),
            skipped=skipped,
        )


def _new_files(request: ShardRequest) -> list[FeatureFile]:
    return [
        FeatureFile(spec, request.path(spec, "features"), len(request.share))
        for spec in request.specs
    ]
