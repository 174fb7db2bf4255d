"""What every command that grades features does first: model and images in, features out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay._atomic import make_folder
from assay.config import AttrDict, to_plain
from assay.errors import ShardError
from assay.features.datasets import ImageSet
from assay.features.extract import LayerSpec
from assay.features.forward_passes import resolve_device
from assay.features.manifest import Manifest, find_records, read_manifest
from assay.features.models import VisionModel
from assay.features.shards import FeatureSet, merge_shards
from assay.recipes.extraction import extract_splits
from assay.recipes.feature_request import open_model, open_splits, read_feature_request
from assay.recipes.run_output import hold_output_folder
from assay.report.progress import ProgressView
from assay.runtime.environment import ranks_from_environment

__all__ = ["FrozenFeatures", "frozen_features"]


@dataclass(frozen=True)
class FrozenFeatures:
    """The features of a model over the images of both splits, on disk."""

    model: VisionModel
    splits: Mapping[str, ImageSet]  # "train", "test"
    layers: tuple[LayerSpec, ...]
    folder: Path  # of the run; the shards lie in its folder "features"
    device: str  # that computed them, as PyTorch names it

    def merged(self, layer: str, view: ProgressView) -> dict[str, FeatureSet]:
        """The features of one layer by split.

        Raises:
            ShardError: another run has put features of its own in their place.
        """
        with view.stage(f"merge {layer}"):
            merged = {
                split: merge_shards(self.folder / "features", split, layer) for split in self.splits
            }
            self._refuse_others()
        return merged

    def _refuse_others(self) -> None:
        """Looked at after reading: shards lose their manifest before they are replaced."""
        for split, images in self.splits.items():
            ours = {"weights": self.model.weights_digest, "images": images.digest()}
            for path in find_records(self.folder / "features", split, Manifest).values():
                manifest = read_manifest(path)
                if manifest is None or any(manifest.made_with.get(k) != ours[k] for k in ours):
                    raise ShardError(
                        f"{path}: another run has replaced the features of {split!r} meanwhile. "
                        f"Give each run a folder of its own with --out, and start this one again."
                    )

    def facts(self, config: AttrDict) -> dict[str, Any]:
        """What ``results.json`` says of model, images and settings, whatever was graded."""
        return {
            "model": _model_facts(self.model),
            "transform": self.model.transform.to_dict(),
            "data": {
                split: _data_facts(images, self.folder, split)
                for split, images in self.splits.items()
            },
            "settings": {"config": to_plain(config)},
            "device": self.device,
        }


@contextlib.contextmanager
def frozen_features(
    config: AttrDict, *, nproc: int, view: ProgressView, environ: Mapping[str, str]
) -> Iterator[FrozenFeatures | None]:
    """Extract what the section ``config`` of the settings asks for, or take over what is there.

    For the block, no other run may write to the same output folder.

    Args:
        config: the section ``config`` of the composed settings.
        nproc: local processes that extract. Under torchrun its ranks do, and this has to be 1.
        view: shows progress and keeps timings.
        environ: where torchrun's variables are looked up.

    Yields:
        The features; None on every rank but the first, which grades alone.

    Raises:
        OutputError: another run is at work in the output folder, or it cannot be written.
    """
    ranks = ranks_from_environment(environ)
    request = read_feature_request(config)
    folder = make_folder(config.RUN.OUTPUT_DIR)
    with hold_output_folder(folder, ranks):
        with view.stage("open images"):
            splits = open_splits(request)
        with view.stage("load model"):
            model = open_model(request)
        extract_splits(
            request,
            model,
            splits,
            folder / "features",
            ranks=ranks,
            nproc=nproc,
            force=config.RUN.FORCE,
            view=view,
        )
        if ranks.rank != 0:
            yield None
            return
        device = str(resolve_device(request.options.device, ranks.rank))
        yield FrozenFeatures(model, splits, request.layers, folder, device)


def _model_facts(model: VisionModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "weights": model.weights,
        "weights_digest": model.weights_digest,
        "num_parameters": model.num_parameters,
    }


def _data_facts(images: ImageSet, folder: Path, split: str) -> dict[str, Any]:
    """Counts and digest of a split, and the images that its manifests say were left out."""
    manifests = map(read_manifest, find_records(folder / "features", split, Manifest).values())
    skipped = sorted(
        (bad for manifest in manifests if manifest for bad in manifest.skipped),
        key=lambda bad: bad.index,
    )
    return {
        "source": images.source,
        "digest": images.digest(),
        "num_images": len(images) - len(skipped),
        "num_classes": len(images.class_names),
        "multi_label": images.multi_label,
        "skipped": [{"name": bad.name, "reason": bad.reason} for bad in skipped],
    }
