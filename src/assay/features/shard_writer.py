"""One rank's shards on disk: filled row by row, resumed after a kill, whole or not there at all."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from assay._atomic import atomic_path, commit, explain_os_errors
from assay.errors import ModelError, OutputError, ShardError
from assay.features.layer_spec import LayerSpec
from assay.features.manifest import (
    KINDS,
    FileRecord,
    LayerRecord,
    Manifest,
    Progress,
    find_records,
    list_rank_files,
    read_manifest,
    read_progress,
    record_path,
    shard_path,
)
from assay.features.npy_files import array_crc32, create_npy, resize_npy
from assay.features.npy_reading import MappedArray, map_npy

__all__ = ["FeatureFile", "is_whole", "refuse_foreign_files", "remove_ranks", "write_array"]

_FLOAT32 = np.dtype("<f4")


@dataclass
class FeatureFile:
    """The feature rows of one layer, in a memory-mapped file that gets its name once it is whole.

    Until then it is ``{final}.partial``, with room for ``capacity`` rows.
    """

    spec: LayerSpec
    final: Path
    capacity: int  # rows
    rows: int = 0  # filled
    crc32: int = 0  # of the filled rows
    non_finite_rows: int = 0
    _array: MappedArray | None = field(default=None, repr=False)  # None: D is not known yet

    @property
    def partial(self) -> Path:
        """Where the rows are until the file is whole."""
        return _partial(self.final)

    def append(self, rows: npt.NDArray[np.float32]) -> None:
        """Add rows (n, D); the first call decides D.

        Raises:
            ModelError: D differs from that of the earlier rows.
            OutputError: there is no room on the disk.
        """
        if self._array is None:
            self._array = create_npy(self.partial, (self.capacity, rows.shape[1]), _FLOAT32)
        if rows.shape[1] != self._array.shape[1]:
            raise ModelError(
                f"Layer {self.spec.name!r} gives {rows.shape[1]} features an image after "
                f"{self._array.shape[1]} for earlier images: their size differs, and pool "
                f"{self.spec.pool!r} keeps it. Set a crop, or pool by avg."
            )
        rows = np.ascontiguousarray(rows, _FLOAT32)
        self._array[self.rows : self.rows + len(rows)] = rows
        self.rows += len(rows)
        self.crc32 = array_crc32(rows, self.crc32)
        self.non_finite_rows += len(rows) - int(np.isfinite(rows).all(axis=1).sum())

    def sync(self) -> None:
        """Have the rows so far written to the disk."""
        if self._array is not None:
            with explain_os_errors(self.partial):
                self._array.flush()

    def record(self) -> LayerRecord:
        """What stands in the file so far."""
        width = 0 if self._array is None else self._array.shape[1]
        rows = FileRecord((self.rows, width), _FLOAT32.str, self.crc32)
        return LayerRecord(self.spec, self.non_finite_rows, {"features": rows})

    def finish(self) -> FileRecord:
        """Cut the file to its rows and give it its name; there is no appending after this."""
        if self._array is None:  # no row, hence no D
            self._array = create_npy(self.partial, (0, 0), _FLOAT32)
        self.sync()
        record = self.record().files["features"]
        cut = self.rows < len(self._array)
        self._array = None  # unmapped
        if cut:
            resize_npy(self.partial, self.rows)
        with explain_os_errors(self.final):
            commit(self.partial, self.final)
        return record

    def resume(self, record: LayerRecord) -> bool:
        """Take up the rows of an earlier process; False if they are not there as recorded."""
        rows = record.files["features"]
        if not self.partial.exists() and self.final.exists():  # it had its name already
            with explain_os_errors(self.final):
                self.final.replace(self.partial)
        array = _map_if_readable(self.partial)
        if array is None or not _begins_with(array, rows):
            return False
        if len(array) != self.capacity:  # it was cut already
            del array
            try:
                resize_npy(self.partial, self.capacity)
            except ValueError:  # its header, which another program wrote, cannot grow
                return False
        self._array = map_npy(self.partial, "r+")
        self.rows, self.crc32 = rows.shape[0], rows.crc32
        self.non_finite_rows = record.non_finite_rows
        return True


def write_array(path: Path, values: npt.NDArray[Any]) -> FileRecord:
    """Write an array as ``.npy``, whole or not at all."""
    with atomic_path(path) as partial:
        np.save(partial, values)
    return FileRecord(values.shape, values.dtype.str, array_crc32(values))


def is_whole(path: Path, record: FileRecord) -> bool:
    """Whether the file is there with the shape, dtype and CRC-32 of its record. Reads all of it."""
    array = _map_if_readable(path)
    return array is not None and array.shape == record.shape and _begins_with(array, record)


def remove_ranks(
    folder: Path, split: str, ranks: range, *, unreadable: Literal["refuse", "remove"] = "refuse"
) -> None:
    """Remove shards and records of these ranks; of shards, only those that a record names.

    Args:
        unreadable: whether a record that cannot be read is an error, or goes too; with it go all
            shards that have their names by its rank and split.

    Raises:
        OutputError: a file cannot be removed.
        ShardError: a record cannot be read.
    """
    known = {*find_records(folder, split, Manifest), *find_records(folder, split, Progress)}
    for rank in known:
        if rank in ranks:
            _remove_rank(folder, split, rank, unreadable)


def refuse_foreign_files(paths: list[Path]) -> None:
    """Do nothing if none of the paths exists.

    Raises:
        OutputError: a file is there that no record names, so it is not ours to overwrite.
    """
    for path in paths:
        if path.exists():
            raise OutputError(
                f"{path}: a file of this name is there, and no manifest says how it was made. "
                f"Move it away, or choose another folder."
            )


def _remove_rank(
    folder: Path, split: str, rank: int, unreadable: Literal["refuse", "remove"]
) -> None:
    """Records go last, so that a kill leaves no file that is not known as ours."""
    manifest_path = record_path(folder, rank, split, Manifest)
    progress_path = record_path(folder, rank, split, Progress)
    try:
        manifest, progress = read_manifest(manifest_path), read_progress(progress_path)
    except ShardError:
        if unreadable == "refuse":
            raise
        paths = list_rank_files(folder, rank, split)
    else:
        layers = [*(manifest.layers if manifest else ()), *(progress.layers if progress else ())]
        finals = [
            shard_path(folder, rank, split, layer.spec.name, kind)
            for layer in layers
            for kind in KINDS
        ]
        paths = [*finals, *map(_partial, finals)]
    with explain_os_errors(folder):
        for path in [*paths, manifest_path, progress_path]:
            path.unlink(missing_ok=True)


def _partial(path: Path) -> Path:
    return path.with_name(f"{path.name}.partial")


def _map_if_readable(path: Path) -> MappedArray | None:
    try:
        return map_npy(path)
    except (OSError, ValueError):
        return None


def _begins_with(array: MappedArray, record: FileRecord) -> bool:
    """Whether the first rows of the array are the recorded ones."""
    rows = record.shape[0]
    return (
        array.dtype.str == record.dtype
        and array.ndim == len(record.shape)
        and array.shape[1:] == record.shape[1:]
        and len(array) >= rows
        and array.flags.c_contiguous
        and array_crc32(array[:rows]) == record.crc32
    )
