"""Extract the features of both splits: here, in local processes, or as one torchrun rank."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from assay._atomic import make_folder
from assay.errors import ImageError, LaunchError
from assay.features.datasets import ImageSet, find_bad_images, raise_bad_images
from assay.features.extract import extract_features
from assay.features.models import VisionModel
from assay.features.shard_writer import remove_ranks
from assay.recipes.feature_request import FeatureRequest, open_model, open_splits
from assay.report.progress import ProgressView
from assay.runtime.distributed import barrier, process_group
from assay.runtime.environment import Ranks
from assay.runtime.launch import launch

__all__ = ["extract_splits"]


def extract_splits(
    request: FeatureRequest,
    model: VisionModel,
    splits: Mapping[str, ImageSet],
    folder: Path,
    *,
    ranks: Ranks,
    nproc: int,
    force: bool,
    view: ProgressView,
) -> None:
    """Write the shards of every split to ``folder``; all ranks' are there when this returns.

    Args:
        force: extract anew, whatever is there.

    Raises:
        ImageError: images cannot be read; all of them, of both splits and all ranks, are named.
        LaunchError: ``nproc`` processes were asked of one of several ranks, or a rank failed.
    """
    if ranks.world_size > 1 and nproc > 1:
        raise LaunchError(
            f"--nproc {nproc} under {ranks.source}, which runs {ranks.world_size} ranks already: "
            f"leave --nproc out."
        )
    total = sum(len(images) for images in splits.values())
    make_folder(folder)
    with view.stage("extract features", total=total, unit="images") as advance:
        try:
            if nproc > 1:
                launch(_extract_share, request, folder, force, nproc=nproc, on_progress=advance)
            else:
                with process_group(ranks):
                    _extract(request, model, splits, folder, force, ranks, advance)
                    barrier(ranks)
        except ImageError:
            # One rank saw its own share; the user wants to hear of every bad file at once.
            raise_bad_images(
                [
                    bad
                    for images in splits.values()
                    for bad in find_bad_images(images, request.options.num_workers)
                ]
            )
            raise


def _extract_share(
    ranks: Ranks,
    request: FeatureRequest,
    folder: Path,
    force: bool,
    *,
    progress: Callable[[int], None],
) -> None:
    """What one local process does: the parent hands over only what is cheap to send."""
    _extract(request, open_model(request), open_splits(request), folder, force, ranks, progress)


def _extract(
    request: FeatureRequest,
    model: VisionModel,
    splits: Mapping[str, ImageSet],
    folder: Path,
    force: bool,
    ranks: Ranks,
    progress: Callable[[int], None],
) -> None:
    for split, images in splits.items():
        if force:
            mine = range(ranks.rank, ranks.rank + 1)
            beyond = range(ranks.world_size, 0 if ranks.rank else sys.maxsize)  # of earlier runs
            for removed in (mine, beyond):
                remove_ranks(folder, split, removed, unreadable="remove")
        extract_features(
            model,
            images,
            request.layers,
            folder,
            split=split,
            rank=ranks.rank,
            world_size=ranks.world_size,
            options=request.options,
            progress=progress,
        )
