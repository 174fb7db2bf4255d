"""Train a small convolutional net on handwritten digits, with names around what takes its time.

    python examples/time_training.py                 # as ever: the names cost next to nothing
    assay time --warmup 5 examples/time_training.py  # the same, and where the time went
    ASSAY_STOPWATCH=warmup=5 python examples/time_training.py

Needs scikit-learn for the images: pip install 'assay[evaluate]'
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import torch
from sklearn.datasets import load_digits
from torch import nn

from assay import Stopwatch


def load_images(limit: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(N, 1, 16, 16) float32 images in 0..1, and their (N,) int64 digits."""
    digits = load_digits()
    small = torch.tensor(digits.images[:limit], dtype=torch.float32)[:, None] / 16
    images = nn.functional.interpolate(small, size=16, mode="bilinear")
    return images, torch.tensor(digits.target[:limit])


def batches(
    images: torch.Tensor, targets: torch.Tensor, size: int, seed: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    for rows in order.split(size):
        shifted = torch.roll(images[rows], shifts=int(rows[0]) % 3 - 1, dims=3)
        yield shifted + 0.05 * torch.randn_like(shifted), targets[rows]


def small_net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip


@Stopwatch().measure("validate")
def accuracy(model: nn.Module, images: torch.Tensor, targets: torch.Tensor) -> float:
    model.eval()
    with torch.no_grad():
        hits = model(images).argmax(1) == targets
    model.train()
    return hits.float().mean().item()


def train(epochs: int, limit: int, batch_size: int) -> float:
    """The share of held-out digits that are told rightly."""
    stopwatch = Stopwatch()
    stopwatch.start_one_time_measurement("read the images")
    images, targets = load_images(limit)
    stopwatch.end_one_time_measurement("read the images")
    num_test = len(images) // 5
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    score = 0.0
    for epoch in range(epochs):
        loader = batches(images[num_test:], targets[num_test:], batch_size, epoch)
        for batch, labels in stopwatch.measure("load").around(loader):
            optimizer.zero_grad()
            with stopwatch.measure("forward"):
                loss = nn.functional.cross_entropy(model(batch), labels)
            with stopwatch.measure("backward"):
                loss.backward()
            with stopwatch.measure("step"):
                optimizer.step()
            stopwatch.finish_iter()
        score = accuracy(model, images[:num_test], targets[:num_test])
        print(f"epoch {epoch + 1}: {100 * score:.1f} % of the held-out digits")
    return score


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small net on digits.")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--limit", type=int, default=1797, help="how many images to use")
    parser.add_argument("--batch-size", type=int, default=64)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    train(arguments.epochs, arguments.limit, arguments.batch_size)


if __name__ == "__main__":
    main()
