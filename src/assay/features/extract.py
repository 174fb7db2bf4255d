"""A frozen model and labelled images -> one rank's feature shards."""

from __future__ import annotations

import contextlib
import hashlib
import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from assay._atomic import make_folder
from assay.errors import AssayWarning, ConfigError, DataError
from assay.features.extract_options import ExtractOptions
from assay.features.folder_lock import hold_lock
from assay.features.forward_passes import (
    Features,
    frozen_forward,
    prefers_channels_last,
    resolve_device,
    run_passes,
)
from assay.features.image_batches import ImageBatch, load_batches
from assay.features.images import BadImage, raise_bad_images
from assay.features.layer_spec import LayerSpec
from assay.features.manifest import Manifest, SkippedImage, lock_path
from assay.features.models import VisionModel, find_layers
from assay.features.rank_shards import RankShards, ShardRequest, find_whole
from assay.features.shard_writer import remove_ranks

if TYPE_CHECKING:
    from assay.features.image_set import ImageSet

__all__ = ["ExtractOptions", "ExtractResult", "LayerSpec", "extract_features"]


@dataclass(frozen=True)
class ExtractResult:
    """What a rank's extraction came to."""

    num_rows: int  # of this rank
    reused: bool  # whether everything was there already
    resumed_rows: int  # of num_rows, those that an earlier, interrupted run had made
    elapsed_s: float
    skipped: tuple[BadImage, ...]  # images without a row


def extract_features(
    model: VisionModel,
    images: ImageSet,
    layers: Sequence[LayerSpec],
    output_dir: Path,
    *,
    split: str,
    rank: int = 0,
    world_size: int = 1,
    options: ExtractOptions | None = None,
    progress: Callable[[int], None] | None = None,
) -> ExtractResult:
    """Write the shards of this rank's share, ``images[rank::world_size]``, in one pass per image.

    The files are described in :mod:`assay.features.manifest`. They are filled batch by batch, so
    memory does not grow with the split. They have their names only once they are whole, and count
    only once the manifest is there. Killed at any instant, the same call goes on from the rows that
    stood on the disk; Ctrl-C loses the batches in flight.

    Rows come out the same to the bit for any ``world_size``, ``num_workers`` and ``num_threads``,
    on machines of one kind with one version of PyTorch. ``batch_size`` may change the last bits;
    see :mod:`assay.features.forward_passes`.

    Shards that are there are reused without computing anything if they were made with the same
    model name, weights, transform, images, precision, memory format, kind of device, PyTorch
    version and world size, hold the layers wanted with the same pooling, and are whole: of each
    file shape, dtype, size and CRC-32 are compared. Other shards of this rank and split, and on
    rank 0 those of ranks beyond ``world_size``, are removed first, if a manifest or progress record
    says that they were written by this function.

    Args:
        layers: sub-modules of ``model.module`` that run once in a forward pass.
        output_dir: made if it is missing. One process per rank and split may write there.
        split: "train", "test".
        options: by default ``ExtractOptions()``.
        progress: called with the number of images just dealt with in this call.

    Warns:
        AssayWarning: features hold NaN or infinity.

    Raises:
        ConfigError: layers, ranks or the device do not make sense.
        ModelError: there is no such layer, or its output cannot be pooled to a vector an image.
        ImageError: images of the share cannot be read; all of them are named.
        DataError: there is no image, or (when skipping) none that can be read.
        OutputError: the disk is full, the folder cannot be written, another process is at work in
            it, or a file of the same name is not ours.
        ShardError: a record in the folder cannot be read.
    """
    start_s = time.perf_counter()
    options = options or ExtractOptions()
    _refuse_impossible(images, layers, split, rank, world_size)
    find_layers(model.module, [spec.name for spec in layers])
    device = resolve_device(options.device, rank)
    channels_last = (
        prefers_channels_last(model.module)
        if options.channels_last == "auto"
        else options.channels_last
    )
    folder = make_folder(output_dir)
    request = ShardRequest(
        folder=folder,
        split=split,
        rank=rank,
        world_size=world_size,
        num_images=len(images),
        specs=tuple(layers),
        made_with={
            "model": model.name,
            "weights": model.weights_digest,
            "architecture": hashlib.sha256(repr(model.module).encode()).hexdigest(),
            "transform": model.transform.to_dict(),
            "images": images.digest(),
            "amp": options.amp,
            "channels_last": channels_last,
            "device": device.type,
            "torch": torch.__version__,
        },
    )
    resumed_rows = 0
    with hold_lock(lock_path(folder, rank, split), f"extracts {split!r} as rank {rank}"):
        if rank == 0:
            remove_ranks(folder, split, range(world_size, sys.maxsize))
        manifest = find_whole(request)
        reused = manifest is not None
        if manifest is None:
            shards = RankShards(request, record_every_s=options.record_every_s)
            resumed_rows = shards.resumed_rows
            _fill(shards, request, model, images, options, device, progress)
            manifest = shards.finish(images.targets)
    skipped = _bad_images(manifest.skipped)
    if options.bad_images == "error":
        raise_bad_images(skipped, images.source)  # of shards that were made by skipping
    _warn_of_non_finite(manifest, layers)
    return ExtractResult(
        num_rows=manifest.rows,
        reused=reused,
        resumed_rows=resumed_rows,
        elapsed_s=time.perf_counter() - start_s,
        skipped=skipped,
    )


def _fill(
    shards: RankShards,
    request: ShardRequest,
    model: VisionModel,
    images: ImageSet,
    options: ExtractOptions,
    device: torch.device,
    progress: Callable[[int], None] | None,
) -> None:
    """Deal with the images of the share that are not done."""
    batch_size = min(options.batch_size, len(images))
    batches = load_batches(
        images,
        model.transform,
        request.share[shards.done :],
        batch_size=batch_size,
        num_workers=options.num_workers,
        pin_memory=device.type == "cuda",
    )
    fatal = list(shards.skipped) if options.bad_images == "error" else None
    report = progress or _ignore
    forward_pass = frozen_forward(
        model.module,
        request.specs,
        device=device,
        amp=options.amp,
        channels_last=bool(request.made_with["channels_last"]),
    )
    # Closed here, not when the garbage is collected: until then threads and workers would run.
    with (
        forward_pass as forward,
        contextlib.closing(_worth_a_pass(batches, fatal, report)) as worthy,
        contextlib.closing(
            run_passes(
                forward,
                worthy,
                device=device,
                batch_size=batch_size,
                num_threads=_num_threads(options, device),
            )
        ) as passes,
    ):
        _append_all(passes, shards, report)
    raise_bad_images(_bad_images(fatal or ()), images.source)
    if not shards.rows and request.world_size == 1:
        first = shards.skipped[0]
        raise DataError(
            f"{images.source}: none of the {len(images)} images can be read. "
            f"The first: {first.name}: {first.reason}."
        )


def _worth_a_pass(
    batches: Iterable[ImageBatch],
    fatal: list[SkippedImage] | None,
    report: Callable[[int], None],
) -> Generator[ImageBatch, None, None]:
    """The batches up to the first bad image; beyond it, the bad images only, all into ``fatal``.

    Where ``fatal`` is None, bad images do not matter and every batch is given.
    """
    for batch in batches:
        if batch.failure is not None:
            raise batch.failure
        if fatal is not None:
            fatal.extend(batch.bad)
        if fatal:
            report(batch.num_images)
        else:
            yield batch


def _append_all(
    passes: Iterable[tuple[ImageBatch, Features]],
    shards: RankShards,
    report: Callable[[int], None],
) -> None:
    """Add batch after batch; whatever stops this, what was added stays on the disk."""
    try:
        for batch, features in passes:
            shards.append(features, len(batch.indices), tuple(batch.bad))
            report(batch.num_images)
    finally:
        shards.record()


def _num_threads(options: ExtractOptions, device: torch.device) -> int:
    """How many passes are computed at once."""
    if device.type != "cpu":
        return 1
    return options.num_threads or torch.get_num_threads()


def _refuse_impossible(
    images: ImageSet, layers: Sequence[LayerSpec], split: str, rank: int, world_size: int
) -> None:
    faults = []
    if not layers:
        faults.append("No layer is named: give at least one.")
    names = [spec.name for spec in layers]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        faults.append(
            f"Layer {twice[0]!r} is named twice; one run keeps one pooling of it. "
            f"Extract the other to another folder."
        )
    if not split:
        faults.append("The split has no name: give one, such as 'train'.")
    if not 0 <= rank < world_size:
        faults.append(f"rank {rank} of {world_size}: ranks count from 0 to world_size - 1.")
    if faults:
        raise ConfigError("\n".join(faults))
    if not len(images):
        raise DataError(f"{images.source}: there is no image in it.")


def _warn_of_non_finite(manifest: Manifest, layers: Sequence[LayerSpec]) -> None:
    wanted = {spec.name for spec in layers}
    for layer in manifest.layers:
        if layer.spec.name in wanted and layer.non_finite_rows:
            warnings.warn(
                f"Layer {layer.spec.name!r}: {layer.non_finite_rows} of {manifest.rows} rows of "
                f"features of {manifest.split!r} hold NaN or infinity. Nothing can be trained on "
                f"them: look at the weights, the transform, or turn off amp.",
                AssayWarning,
                stacklevel=3,
            )


def _bad_images(skipped: Sequence[SkippedImage]) -> tuple[BadImage, ...]:
    return tuple(BadImage(image.name, image.reason) for image in skipped)


def _ignore(_count: int) -> None:
    pass
