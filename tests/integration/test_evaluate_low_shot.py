from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Assay = Callable[..., subprocess.CompletedProcess[str]]

FEW = ("config.SVM.low_shot.k_values=[1,2,4]", "config.SVM.low_shot.sample_inds=[1,2]")


def read_results(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "low-shot/results.json").read_text())


def test_classes_of_one_label_are_sampled_as_places_and_drawn_as_a_curve(
    assay: Assay, tiny: tuple[str, ...], tmp_path: Path, photo_folder: Path
) -> None:
    command = ("evaluate", "low-shot", *tiny, *FEW, f"--train={photo_folder}", "--out=run")

    run = assay(*command)

    assert run.returncode == 0, run.stderr
    results = read_results(tmp_path / "run")
    assert (results["kind"], results["dataset_name"]) == ("low_shot", "places")
    assert results["headline"]["k"] == 4
    assert results["headline"]["std"] >= 0
    for layer in results["layers"]:
        assert [point["k"] for point in layer["points"]] == [1, 2, 4]
        for point in layer["points"]:
            assert len(point["samples"]) == 2
            assert point["mean_ap"] == pytest.approx(np.mean(point["samples"]))
            assert point["std"] == pytest.approx(np.std(point["samples"]))
            # Three folds need three images a class.
            assert (point["crossval_mean_ap"] is None) == (point["k"] < 3)
        assert [len(entry["ap"]) for entry in layer["classes"]] == [3, 3]
    page = (tmp_path / "run/low-shot/report.html").read_text()
    assert "images a class, log scale" in page
    assert (tmp_path / "run/low-shot/1/test_ap_sample1_k4.npy").exists()
    assert "mAP by CV" in run.stdout

    again = assay(*command)

    assert again.returncode == 0, again.stderr
    assert read_results(tmp_path / "run")["layers"] == results["layers"]


def test_a_voc_tree_is_sampled_class_by_class(
    assay: Assay, tiny: tuple[str, ...], tmp_path: Path, voc_folder: Path
) -> None:
    run = assay("evaluate", "low-shot", *tiny, *FEW, f"--train={voc_folder}", "--out=voc")

    assert run.returncode == 0, run.stderr
    results = read_results(tmp_path / "voc")
    assert results["dataset_name"] == "voc"
    assert results["data"]["test"]["multi_label"] is True


def test_more_images_than_a_class_has_are_left_out_and_named(
    assay: Assay, tiny: tuple[str, ...], tmp_path: Path, photo_folder: Path
) -> None:
    run = assay(
        *("evaluate", "low-shot", *tiny, f"--train={photo_folder}", "--out=run"),
        "config.SVM.low_shot.k_values=[2,64]",
        "config.SVM.low_shot.sample_inds=[0]",
    )

    assert run.returncode == 0, run.stderr
    assert "k = 64 left out" in run.stderr
    assert read_results(tmp_path / "run")["headline"]["k"] == 2


def test_features_of_an_svm_run_are_used_again_and_its_results_stay(
    assay: Assay, tiny: tuple[str, ...], tmp_path: Path, photo_folder: Path
) -> None:
    arguments = (*tiny, f"--train={photo_folder}", "--out=run")
    assert assay("evaluate", "svm", *arguments).returncode == 0
    shards = sorted((tmp_path / "run/features").glob("*.npy"))
    written = [shard.stat().st_mtime_ns for shard in shards]
    before = (tmp_path / "run/results.json").read_bytes()

    run = assay("evaluate", "low-shot", *arguments, *FEW)

    assert run.returncode == 0, run.stderr
    assert [shard.stat().st_mtime_ns for shard in shards] == written
    assert (tmp_path / "run/results.json").read_bytes() == before


@pytest.mark.slow
def test_the_bundled_default_learns_more_from_more_images(assay: Assay, tmp_path: Path) -> None:
    run = assay(
        *("evaluate", "low-shot", "config=demo", "config.DATA.TRAIN.DATA_LIMIT=300"),
        "--layers=_blocks.10",
        "config.SVM.low_shot.k_values=[1,8]",
        "config.SVM.low_shot.sample_inds=[1,2]",
    )

    assert run.returncode == 0, run.stderr
    one, eight = read_results(tmp_path / "runs/demo")["layers"][0]["points"]
    assert 0.3 < one["mean_ap"] < eight["mean_ap"] - 0.1
