"""Weights files of every format: read as data, written whole or not at all.

======================  =================================================================
``.pth``, ``.torch``    and any other suffix: files of ``torch.save``
``.safetensors``        tied tensors stand once; their other names are recorded
``.npz``                arrays of NumPy
``.index.json``         an index of several files beside it, as ``*.safetensors.index.json``
======================  =================================================================
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from assay._atomic import atomic_path, write_text
from assay.checkpoint.format_index import INDEX_SUFFIX, index_text, read_index, split_into_shards
from assay.checkpoint.format_npz import read_npz, write_npz
from assay.checkpoint.format_safetensors import read_safetensors, write_safetensors
from assay.checkpoint.format_torch import read_torch, write_torch
from assay.checkpoint.own_memory import owned, without_aliases
from assay.checkpoint.weights_file import WeightsFile, check_is_file
from assay.checkpoint.zip_records import is_zip, zip_records
from assay.errors import ModelError

__all__ = ["SUFFIXES", "read_weights_file", "write_weights_file"]

# What a name to be written may end in.
SUFFIXES = (".pth", ".pt", ".torch", ".bin", ".ckpt", ".safetensors", ".npz", INDEX_SUFFIX)
_SHARD_BYTES = 5_000_000_000


def read_weights_file(
    path: str | Path, *, trusted: bool = False, mapped: bool = True
) -> WeightsFile:
    """What a weights file holds. No code in it is run; numbers and arrays of NumPy are let through.

    Args:
        trusted: unpickle whatever a file of ``torch.save`` names, which runs its code.
        mapped: map the file into memory where its format can, instead of reading it. Tensors are
            then pages of the file, which must not be written to while they are in use (replacing it
            is fine); a change of theirs is theirs alone.

    Raises:
        ModelError: the file is missing, damaged, or needs code to be read; the message names it.
    """
    file = Path(path)
    check_is_file(file)
    if file.name.endswith(INDEX_SUFFIX):
        return read_index(
            file, lambda shard: read_weights_file(shard, trusted=trusted, mapped=mapped)
        )
    if file.suffix == ".safetensors" or _looks_like_safetensors(file):
        return read_safetensors(file, mapped=mapped)
    if file.suffix == ".npz" or _looks_like_npz(file):
        return read_npz(file, mapped=mapped)
    return read_torch(file, trusted=trusted, mapped=mapped)


def write_weights_file(
    path: str | Path,
    tensors: Mapping[str, Tensor],
    *,
    metadata: Mapping[str, str] | None = None,
    max_shard_bytes: int = _SHARD_BYTES,
) -> list[Path]:
    """Write tensors by name, in the format that the suffix says; the files that were written.

    A file appears whole or not at all, in place of an older one. Of several the index comes last,
    and none takes the place of another. Tensors may lie on any
    device and be views. Tied ones stand once in ``.safetensors`` (their other names in its
    metadata) and share a storage in ``.pth``; in ``.npz`` each stands alone.

    Args:
        metadata: text to go with the tensors; only safetensors has a place for it.
        max_shard_bytes: where the path ends in ``.index.json``, the size of each file of it.

    Raises:
        ModelError: the suffix is unknown, the format cannot hold a tensor, which is named, or a
            file of a sharded set is there already.
        OutputError: the folder is not writable, or the disk is full.
    """
    file = Path(path)
    if not file.name.endswith(SUFFIXES):
        raise ModelError(
            f"{file}: no format goes by that name. End it in one of {', '.join(SUFFIXES)}."
        )
    own = owned(tensors)
    if file.name.endswith(INDEX_SUFFIX):
        return _write_shards(file, own, metadata, max_shard_bytes)
    with atomic_path(file) as partial:
        if file.suffix == ".safetensors":
            kept, aliases = without_aliases(own)
            write_safetensors(partial, kept, metadata=metadata, aliases=aliases)
        elif file.suffix == ".npz":
            write_npz(partial, own)
        else:
            write_torch(partial, own)
    return [file]


def _write_shards(
    file: Path,
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, str] | None,
    max_shard_bytes: int,
) -> list[Path]:
    kept, aliases = without_aliases(tensors)
    stem = file.name.removesuffix(INDEX_SUFFIX).removesuffix(".safetensors") or "model"
    shards = split_into_shards(kept, stem=stem, max_bytes=max_shard_bytes)
    there = [name for name in (file.name, *shards) if (file.parent / name).exists()]
    if there:
        # Several files cannot be exchanged at once, so an older set is never written into.
        raise ModelError(
            f"{file}: {there[0]!r} is there already, and a set of files is not written over "
            f"another or over what is left of one. Choose another name or an empty folder."
        )
    written = []
    try:
        for shard, part in shards.items():
            own_aliases = {alias: name for alias, name in aliases.items() if name in part}
            with atomic_path(file.parent / shard) as partial:
                write_safetensors(partial, part, metadata=metadata, aliases=own_aliases)
            written.append(file.parent / shard)
        write_text(file, index_text(shards, aliases))
    except BaseException:
        for shard_file in written:
            with contextlib.suppress(OSError):
                shard_file.unlink(missing_ok=True)
        raise
    return [*written, file]


def _looks_like_safetensors(file: Path) -> bool:
    """Eight bytes of length, then a JSON object of that length."""
    with file.open("rb") as opened:
        start = opened.read(9)
    size = int.from_bytes(start[:8], "little")
    return start[8:] == b"{" and 2 <= size <= file.stat().st_size - 8


def _looks_like_npz(file: Path) -> bool:
    if not is_zip(file):
        return False
    try:
        return all(record.name.endswith(".npy") for record in zip_records(file))
    except Exception:  # noqa: BLE001 - damaged archives are the reader's to name
        return False
