"""Extracting features to shards against a plain loop of model calls over a DataLoader.

    python benchmarks/extract.py [--small]

The bundled model over the bundled digits, enlarged to 64 x 64; two layers, average-pooled. Both
sides load with the same number of workers, run in channels-last format and have the same threads:
the peer PyTorch's, within each operation. The peer keeps its features in memory; ours writes all
shards, with progress records and the manifest.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from _measure import peak_memory, print_claim, read_small_flag, take_turns

from assay.features.datasets import open_images
from assay.features.extract import ExtractOptions, LayerSpec, extract_features
from assay.features.image_set import ImageSet
from assay.features.models import VisionModel, load_model
from assay.features.shards import merge_shards

LAYERS = ("_blocks.10", "_avg_pooling")
BATCH_SIZE = 64
NUM_WORKERS = 2


class Inputs(torch.utils.data.Dataset[torch.Tensor]):
    def __init__(self, images: ImageSet, model: VisionModel) -> None:
        self.images, self.transform = images, model.transform

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.transform(self.images.load(index))


def open_model_and_images(count: int) -> tuple[VisionModel, ImageSet]:
    model = load_model("efficientnet-lite0", resize=(64, 64))
    return model, open_images("digits", [], split="train", limit=count)


def ours(model: VisionModel, images: ImageSet, folder: Path) -> None:
    extract_features(
        model,
        images,
        [LayerSpec(name) for name in LAYERS],
        folder,
        split="train",
        options=ExtractOptions(
            batch_size=BATCH_SIZE, num_workers=NUM_WORKERS, device="cpu", channels_last=True
        ),
    )


def plain_loop(module: torch.nn.Module, inputs: Inputs) -> dict[str, np.ndarray]:
    found: dict[str, list[torch.Tensor]] = {name: [] for name in LAYERS}
    hooks = [
        module.get_submodule(name).register_forward_hook(
            lambda _module, _inputs, output, rows=rows: rows.append(output.mean((2, 3)))
        )
        for name, rows in found.items()
    ]
    with torch.inference_mode():
        for pixels in torch.utils.data.DataLoader(inputs, BATCH_SIZE, num_workers=NUM_WORKERS):
            module(pixels.to(memory_format=torch.channels_last))
    for hook in hooks:
        hook.remove()
    return {name: torch.cat(rows).numpy() for name, rows in found.items()}


def ours_alone(count: int, folder: Path) -> None:
    ours(*open_model_and_images(count), folder)


def plain_loop_alone(count: int) -> object:
    model, images = open_model_and_images(count)
    return plain_loop(model.module.to(memory_format=torch.channels_last), Inputs(images, model))


def main() -> None:
    small = read_small_flag(__doc__)
    count = 64 if small else 1797
    model, images = open_model_and_images(count)
    module = load_model("efficientnet-lite0").module.to(memory_format=torch.channels_last)
    inputs = Inputs(images, model)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "features"

        def start_anew() -> None:
            shutil.rmtree(folder, ignore_errors=True)

        ours(model, images, folder)
        expected = plain_loop(module, inputs)
        for layer in LAYERS:
            features = merge_shards(folder, "train", layer).features
            gap = float(np.abs(features - expected[layer]).max() / np.abs(expected[layer]).max())
            print(f"{layer}: the sides differ by at most {gap:.1e} of the largest feature")
            if gap > 1e-4:
                sys.exit("the two sides disagree")
        timings = take_turns(
            lambda: ours(model, images, folder),
            lambda: plain_loop(module, inputs),
            pairs=2 if small else 5,
            warm_ups=0 if small else 1,
            between=start_anew,
        )
        start_anew()
        memory = None  # each process takes its time to import everything
        if not small:
            memory = peak_memory(ours_alone, count, folder), peak_memory(plain_loop_alone, count)
    print_claim(
        f"extract {count} images to shards beside a plain loop that keeps them in memory "
        f"(at least 0.95 of its rate)",
        timings,
        unit="images/s",
        amount=count,
        memory=memory,
    )


if __name__ == "__main__":
    main()
