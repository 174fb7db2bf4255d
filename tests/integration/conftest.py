from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits, load_sample_images

Assay = Callable[..., subprocess.CompletedProcess[str]]

ENVIRONMENT = {"COLUMNS": "100", "OMP_NUM_THREADS": "1"}


@pytest.fixture
def assay(tmp_path: Path) -> Assay:
    """Runs the command line in a process of its own, started in the test's folder."""

    def run(*arguments: str, module: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", *module, "assay", *arguments],
            cwd=tmp_path,
            env={**os.environ, **ENVIRONMENT},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def crops() -> dict[str, list[Image.Image]]:
    """Two classes of 12 photographs each: overlapping crops of a temple and of a flower."""
    china, flower = load_sample_images().images
    return {
        name: [
            Image.fromarray(picture[top : top + 160, left : left + 160]).resize((40, 40))
            for top in (40, 120, 200)
            for left in (0, 120, 240, 360)
        ]
        for name, picture in (("flower", flower), ("temple", china))
    }


@pytest.fixture
def photo_folder(tmp_path: Path, crops: dict[str, list[Image.Image]]) -> Path:
    """A folder with one sub-folder a class."""
    root = tmp_path / "photos"
    for name, pictures in crops.items():
        (root / name).mkdir(parents=True)
        for number, picture in enumerate(pictures):
            picture.save(root / name / f"{number:02}.png")
    return root


@pytest.fixture
def voc_folder(tmp_path: Path, crops: dict[str, list[Image.Image]]) -> Path:
    """A Pascal VOC tree: half of the photographs to train, half to test, one of them difficult."""
    root = tmp_path / "VOCdevkit" / "VOC2007"
    main = root / "ImageSets" / "Main"
    main.mkdir(parents=True)
    (root / "JPEGImages").mkdir()
    pictures = [(name, picture) for name, all_ in crops.items() for picture in all_]
    for number, (_, picture) in enumerate(pictures):
        picture.save(root / "JPEGImages" / f"{number:06}.jpg")
    for split, parity in (("trainval", 0), ("test", 1)):
        rows = [number for number in range(len(pictures)) if number % 2 == parity]
        for name in crops:
            marks = {number: 1 if pictures[number][0] == name else -1 for number in rows}
            if split == "test":
                marks[rows[0]] = 0  # seen, yet difficult: not to be counted
            lines = [f"{number:06} {mark:2}" for number, mark in marks.items()]
            (main / f"{name}_{split}.txt").write_text("\n".join(lines) + "\n")
    return root


@pytest.fixture(scope="session")
def digits() -> tuple[np.ndarray, np.ndarray]:
    """(60, 8, 8) uint8 images of the digits 0, 1 and 2, and their (60,) int64 classes."""
    bunch = load_digits(n_class=3)
    rows = np.concatenate([np.flatnonzero(bunch.target == digit)[:20] for digit in range(3)])
    return (bunch.images[rows] * 15.9).astype(np.uint8), bunch.target[rows].astype(np.int64)


FACTORY = """
import torch
from torch import nn


def factory(seed):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 5),
    )


def first():
    return factory(0)


def second():
    return factory(1)
"""


@pytest.fixture
def tiny(tmp_path: Path) -> tuple[str, ...]:
    """Arguments that choose a model of two small convolutions, and a quick way to grade it.

    ``python:two_models:second`` is the same with other weights.
    """
    (tmp_path / "two_models.py").write_text(FACTORY)
    return (
        "--model=python:two_models:first",
        "--layers=1,3",
        "--workers=0",
        "--batch-size=8",
        "config.TRANSFORM.RESIZE=[32,32]",
        "config.TRANSFORM.CROP=null",
        "config.SVM.costs.costs_list=[1.0,10.0]",
        "config.MACHINE.DEVICE=cpu",
    )
