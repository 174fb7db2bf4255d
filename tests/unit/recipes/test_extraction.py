"""Both splits are extracted; forcing passes whatever an earlier run left behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

from assay.errors import ShardError
from assay.features.datasets import open_images, split_images
from assay.features.extract import ExtractOptions, LayerSpec
from assay.features.models import VisionModel, weights_digest
from assay.features.shards import merge_shards
from assay.features.transforms import ImageTransform
from assay.recipes.extraction import extract_splits
from assay.recipes.feature_request import FeatureRequest, ImageRequest
from assay.report.progress import ProgressView
from assay.runtime.environment import Ranks

IMAGES = ImageRequest(source="digits", paths=(), label_paths=(), limit=20)
REQUEST = FeatureRequest(
    model="tiny",
    weights=None,
    transform={},
    layers=(LayerSpec("0"),),
    train=IMAGES,
    test=IMAGES,
    test_fraction=0.5,
    seed=0,
    options=ExtractOptions(num_workers=0, device="cpu"),
)


def extract(folder: Path, *, force: bool) -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3)).eval()
    digest = weights_digest(module)
    model = VisionModel("tiny", module, ImageTransform(resize=(8, 8)), "random", digest, 1)
    train, test = split_images(open_images("digits", [], split="train", limit=20), 0.5, 0)
    extract_splits(
        REQUEST,
        model,
        {"train": train, "test": test},
        folder,
        ranks=Ranks(rank=0, local_rank=0, world_size=1, source="alone"),
        nproc=1,
        force=force,
        view=ProgressView(),
    )


@pytest.mark.parametrize("rank", [0, 3])
def test_a_record_that_cannot_be_read_stops_a_run_that_is_not_forced(
    tmp_path: Path, rank: int
) -> None:
    extract(tmp_path, force=False)
    record = tmp_path / f"rank{rank}_train_manifest.json"
    record.write_text("{")

    with pytest.raises(ShardError, match="--force does both"):
        extract(tmp_path, force=False)
    extract(tmp_path, force=True)

    assert len(merge_shards(tmp_path, "train", "0").inds) == 10
    assert record.exists() == (rank == 0)
