"""Weights in several files, with an index that says where each tensor is.

The layout of ``*.safetensors.index.json``: ``weight_map`` has the file name of each tensor.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from torch import Tensor

from assay.checkpoint.weights_file import WeightsFile
from assay.errors import ModelError

__all__ = ["INDEX_SUFFIX", "index_text", "read_index", "split_into_shards"]

INDEX_SUFFIX = ".index.json"
_MAX_INDEX_BYTES = 1 << 28


def read_index(file: Path, read_shard: Callable[[Path], WeightsFile]) -> WeightsFile:
    """The tensors of all files that an index names; each file is read once.

    The files lie beside the index: a name with a folder in it is refused, wherever it leads.

    Raises:
        ModelError: the index is malformed, or a file or a tensor that it names is missing.
    """
    index = _parse(file)
    weight_map = index["weight_map"]
    shards: dict[str, Mapping[str, Any]] = {}
    aliases: dict[str, str] = {}
    is_mapped = True
    for shard in dict.fromkeys(weight_map.values()):
        path = file.parent / shard
        if not path.is_file():
            raise ModelError(
                f"{file}: names the file {shard!r}, which is not beside it. Copy all files of "
                f"the index into one folder."
            )
        read = read_shard(path)
        if not isinstance(read.tree, Mapping):
            raise ModelError(f"{path}: holds no tensors by name, but {type(read.tree).__name__}.")
        shards[shard] = read.tree
        aliases |= read.aliases
        is_mapped &= read.is_mapped
    tensors = {}
    for name, shard in weight_map.items():
        if name not in shards[shard]:
            raise ModelError(
                f"{file}: the tensor {name!r} is not in {shard!r}, where the index says. Do the "
                f"files belong together?"
            )
        tensors[name] = shards[shard][name]
    metadata = index.get("metadata")
    return WeightsFile(
        path=file,
        format="sharded index",
        tree=tensors,
        metadata={key: str(value) for key, value in (metadata or {}).items()},
        aliases={alias: name for alias, name in aliases.items() if alias in tensors},
        is_mapped=is_mapped and bool(shards),
    )


def split_into_shards(
    tensors: Mapping[str, Tensor], *, stem: str, max_bytes: int
) -> dict[str, dict[str, Tensor]]:
    """File name -> tensors, in order, each file at most ``max_bytes`` or one tensor."""
    groups: list[dict[str, Tensor]] = [{}]
    filled = 0
    for name, tensor in tensors.items():
        num_bytes = tensor.numel() * tensor.element_size()
        if groups[-1] and filled + num_bytes > max_bytes:
            groups.append({})
            filled = 0
        groups[-1][name] = tensor
        filled += num_bytes
    return {
        f"{stem}-{place:05d}-of-{len(groups):05d}.safetensors": group
        for place, group in enumerate(groups, 1)
    }


def index_text(shards: Mapping[str, Mapping[str, Tensor]], aliases: Mapping[str, str]) -> str:
    """The index of ``shards``; an alias stands where its tensor does."""
    weight_map = {name: shard for shard, tensors in shards.items() for name in tensors}
    weight_map |= {alias: weight_map[name] for alias, name in aliases.items()}
    total = sum(
        tensor.numel() * tensor.element_size()
        for tensors in shards.values()
        for tensor in tensors.values()
    )
    document = {"metadata": {"total_size": total}, "weight_map": weight_map}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _parse(file: Path) -> dict[str, Any]:
    def refuse_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a name stands twice in it")
        return dict(pairs)

    try:
        if file.stat().st_size > _MAX_INDEX_BYTES:
            raise ValueError("it is too large for an index")
        index = json.loads(file.read_text(encoding="utf-8"), object_pairs_hook=refuse_doubles)
    except (ValueError, RecursionError) as error:
        raise ModelError(
            f"{file}: is not an index of weights: {error}. Copy or download it again."
        ) from error
    weight_map = index.get("weight_map") if isinstance(index, dict) else None
    metadata = index.get("metadata") if isinstance(index, dict) else None
    if (
        not isinstance(weight_map, dict)
        or not all(isinstance(shard, str) for shard in weight_map.values())
        or not isinstance(metadata, (dict, type(None)))
    ):
        raise ModelError(
            f'{file}: is not an index of weights: it lacks "weight_map", the file name of each '
            f"tensor. Copy or download it again."
        )
    for shard in dict.fromkeys(weight_map.values()):
        _refuse_to_leave(file, shard)
    return {"weight_map": weight_map, "metadata": metadata}


def _refuse_to_leave(file: Path, shard: str) -> None:
    parts = {PurePosixPath(shard).name, PureWindowsPath(shard).name}
    if parts != {shard} or shard in ("", ".", "..") or "\0" in shard:
        raise ModelError(
            f"{file}: names the file {shard!r}, which may lie outside its folder, and that is "
            f"refused. All files have to lie beside the index, under plain names."
        )
    if shard.endswith(INDEX_SUFFIX):
        raise ModelError(f"{file}: names another index, {shard!r}, where a weights file should be.")
