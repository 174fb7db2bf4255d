from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.features.shards import merge_shards

Assay = Callable[..., subprocess.CompletedProcess[str]]


def read_results(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "knn/results.json").read_text())


def vote(folder: Path, layer: str, k: int) -> float:
    """Top-1 accuracy of the votes of k neighbours by cosine, row by row."""
    train, test = (merge_shards(folder / "features", split, layer) for split in ("train", "test"))
    rows, queries = (
        each.features / np.linalg.norm(each.features, axis=1, keepdims=True).astype(np.float64)
        for each in (train, test)
    )
    hits = []
    for query, target in zip(queries, test.targets[:, 0], strict=True):
        cosines = rows @ query
        nearest = np.argsort(-cosines, kind="stable")[:k]
        votes = np.bincount(train.targets[nearest, 0], np.exp(cosines[nearest] / 0.07))
        hits.append(votes.argmax() == target)
    return float(np.mean(hits))


def test_images_of_one_class_are_scored_by_accuracy_with_an_interval(
    assay: Assay, tiny: tuple[str, ...], tmp_path: Path, photo_folder: Path
) -> None:
    run = assay("evaluate", "knn", *tiny, f"--train={photo_folder}", "--out=run")

    assert run.returncode == 0, run.stderr
    assert "k = 20, 100, 200 left out" in run.stderr
    results = read_results(tmp_path / "run")
    assert (results["kind"], results["temperature"], results["l2_norm"]) == ("knn", 0.07, True)
    headline = results["headline"]
    assert (headline["metric"], headline["k"]) == ("top1", 10)
    assert (headline["confidence"], headline["seed"]) == (0.95, 0)
    low, high = headline["interval"]
    assert low <= headline["top1"] <= high
    for layer in results["layers"]:
        assert layer["points"][0]["top1"] == pytest.approx(
            vote(tmp_path / "run", layer["layer"], 10)
        )
        assert layer["points"][0]["top5"] == 1
    assert "neighbours that vote" in (tmp_path / "run/knn/report.html").read_text()
    assert "Top-1" in run.stdout


def test_images_of_several_classes_are_scored_by_mean_ap(
    assay: Assay, tiny: tuple[str, ...], tmp_path: Path, voc_folder: Path
) -> None:
    run = assay(
        *("evaluate", "knn", *tiny, f"--train={voc_folder}", "--out=voc"),
        "config.NEAREST_NEIGHBOR.TOPK=3",
    )

    assert run.returncode == 0, run.stderr
    results = read_results(tmp_path / "voc")
    assert (results["headline"]["metric"], results["headline"]["k"]) == ("mean_ap", 3)
    low, high = results["headline"]["interval"]
    assert low <= results["headline"]["mean_ap"] <= high
    positives = {c["name"]: c["num_test_positives"] for c in results["layers"][0]["classes"]}
    assert positives == {"flower": 5, "temple": 6}


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ((), ["SIGMA: 0.07", "L2_NORM_FEATS: true"]),
        (("config=mine", "--config-dir=settings"), ["SIGMA: 0.5", "L2_NORM_FEATS: true"]),
        (("config.NEAREST_NEIGHBOR.L2_NORM_FEATS=false",), ["L2_NORM_FEATS: false"]),
    ],
)
def test_the_protocol_of_dino_stands_until_the_user_says_otherwise(
    assay: Assay, tmp_path: Path, own: tuple[str, ...], expected: list[str]
) -> None:
    folder = tmp_path / "settings/config"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(
        "# @package _global_\nconfig: {NEAREST_NEIGHBOR: {SIGMA: 0.5}}\n"
    )

    run = assay("evaluate", "knn", *own, "--show-settings")

    assert run.returncode == 0, run.stderr
    for line in expected:
        assert line in run.stdout


def test_two_processes_give_the_votes_of_one(
    assay: Assay, tiny: tuple[str, ...], tmp_path: Path, photo_folder: Path
) -> None:
    for out, nproc in (("one", "1"), ("two", "2")):
        run = assay(
            "evaluate", "knn", *tiny, f"--train={photo_folder}", f"--out={out}", f"--nproc={nproc}"
        )
        assert run.returncode == 0, run.stderr

    assert read_results(tmp_path / "one")["layers"] == read_results(tmp_path / "two")["layers"]


def test_the_bundled_default_tells_digits_apart_untrained(assay: Assay, tmp_path: Path) -> None:
    run = assay("evaluate", "knn", "config=demo", "config.DATA.TRAIN.DATA_LIMIT=300")

    assert run.returncode == 0, run.stderr
    assert read_results(tmp_path / "runs/demo")["headline"]["top1"] > 0.8
