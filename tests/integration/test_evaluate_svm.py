from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from assay.cli.main import main
from assay.features.shards import merge_features

Assay = Callable[..., subprocess.CompletedProcess[str]]

SMALL_MODEL = """
import torch
from torch import nn


def tiny():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 5),
    )
"""
TINY = (
    "--model=python:small_model:tiny",
    "--layers=1,3",
    "--workers=0",
    "--batch-size=8",
    "config.TRANSFORM.RESIZE=[32,32]",
    "config.TRANSFORM.CROP=null",
    "config.SVM.costs.costs_list=[1.0,10.0]",
    "config.MACHINE.DEVICE=cpu",
)


@pytest.fixture(autouse=True)
def small_model(tmp_path: Path) -> None:
    (tmp_path / "small_model.py").write_text(SMALL_MODEL)


def read_results(folder: Path) -> dict:
    return json.loads((folder / "results.json").read_text())


def test_the_bundled_default_grades_digits_and_a_second_run_reuses_its_features(
    assay: Assay, tmp_path: Path
) -> None:
    command = ("evaluate", "svm", "config=demo", "config.DATA.TRAIN.DATA_LIMIT=300")

    first = assay(*command)

    assert first.returncode == 0, first.stderr
    assert "_blocks.10" in first.stdout
    results = read_results(tmp_path / "runs/demo")
    assert results["headline"]["mean_ap"] > 0.9
    assert [layer["feature_dim"] for layer in results["layers"]] == [1280, 112]
    assert results["data"]["train"]["num_images"] == 180
    assert results["data"]["test"]["num_images"] == 120
    assert "<html" in (tmp_path / "runs/demo/report.html").read_text()[:200]
    shards = sorted((tmp_path / "runs/demo/features").glob("*.npy"))
    written = [shard.stat().st_mtime_ns for shard in shards]

    second = assay(*command)

    assert second.returncode == 0, second.stderr
    assert [shard.stat().st_mtime_ns for shard in shards] == written
    again = read_results(tmp_path / "runs/demo")
    assert again["layers"] == results["layers"]


@pytest.mark.parametrize("launcher", ["nproc", "torchrun"])
def test_two_processes_merge_to_the_features_of_one_to_the_bit(
    assay: Assay, tmp_path: Path, photo_folder: Path, launcher: str
) -> None:
    one = assay("evaluate", "svm", *TINY, f"--train={photo_folder}", "--out=one")
    assert one.returncode == 0, one.stderr
    arguments = ("evaluate", "svm", *TINY, f"--train={photo_folder}", "--out=two")
    if launcher == "nproc":
        two = assay(*arguments, "--nproc=2")
    else:
        torchrun = ("torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m")
        two = assay(*arguments, module=torchrun)

    assert two.returncode == 0, two.stderr
    assert list((tmp_path / "two/features").glob("rank1_*"))
    for split in ("train", "test"):
        for layer in ("1", "3"):
            alone = merge_features(str(tmp_path / "one/features"), split, layer, {})
            merged = merge_features(str(tmp_path / "two/features"), split, layer, {})
            for key in ("features", "targets", "inds"):
                np.testing.assert_array_equal(alone[key], merged[key])
    assert read_results(tmp_path / "one")["layers"] == read_results(tmp_path / "two")["layers"]


def test_a_voc_tree_brings_its_own_test_list_and_difficult_images_are_not_counted(
    assay: Assay, tmp_path: Path, voc_folder: Path
) -> None:
    run = assay("evaluate", "svm", *TINY, f"--train={voc_folder}", "--out=voc")

    assert run.returncode == 0, run.stderr
    results = read_results(tmp_path / "voc")
    assert results["data"]["test"]["multi_label"] is True
    assert results["data"]["train"]["num_images"] == results["data"]["test"]["num_images"] == 12
    positives = {c["name"]: c["num_test_positives"] for c in results["layers"][0]["classes"]}
    assert positives == {"flower": 5, "temple": 6}


def test_arrays_of_images_with_targets_are_graded(
    assay: Assay, tmp_path: Path, digits: tuple[np.ndarray, np.ndarray]
) -> None:
    np.save(tmp_path / "x.npy", digits[0])
    np.save(tmp_path / "y.npy", digits[1])

    run = assay("evaluate", "svm", *TINY, "--train=x.npy", "--train-labels=y.npy", "--out=runs/a")

    assert run.returncode == 0, run.stderr
    assert read_results(tmp_path / "runs/a")["data"]["train"]["num_classes"] == 3


def test_a_list_of_paths_and_labels_is_graded(
    assay: Assay, tmp_path: Path, photo_folder: Path
) -> None:
    lines = [
        f"{path.relative_to(tmp_path)}\t{path.parent.name}" for path in photo_folder.rglob("*.png")
    ]
    (tmp_path / "list.txt").write_text("\n".join(sorted(lines)))

    run = assay("evaluate", "svm", *TINY, "--train=list.txt", "--out=runs/list")

    assert run.returncode == 0, run.stderr
    assert read_results(tmp_path / "runs/list")["data"]["train"]["num_classes"] == 2


def spoil(photo_folder: Path) -> None:
    whole = (photo_folder / "flower/00.png").read_bytes()
    (photo_folder / "flower/90.png").write_bytes(whole[: len(whole) // 2])
    (photo_folder / "flower/91.png").write_bytes(b"no image at all")
    (photo_folder / "temple/92.png").write_bytes(b"")


@pytest.mark.parametrize("nproc", ["1", "2"])
def test_images_that_cannot_be_read_stop_the_run_and_all_of_them_are_named(
    assay: Assay, tmp_path: Path, photo_folder: Path, nproc: str
) -> None:
    spoil(photo_folder)

    run = assay(
        "evaluate", "svm", *TINY, f"--train={photo_folder}", "--out=bad", f"--nproc={nproc}"
    )

    assert run.returncode == 1
    for name in ("90.png", "91.png", "92.png"):
        assert name in run.stderr
    assert "Traceback" not in run.stderr
    assert not (tmp_path / "bad/results.json").exists()


def test_images_that_cannot_be_read_are_left_out_and_listed_when_the_user_says_so(
    assay: Assay, tmp_path: Path, photo_folder: Path
) -> None:
    spoil(photo_folder)

    run = assay(
        "evaluate", "svm", *TINY, f"--train={photo_folder}", "--out=skip", "--bad-images=skip"
    )

    assert run.returncode == 0, run.stderr
    data = read_results(tmp_path / "skip")["data"]
    skipped = [bad["name"] for split in data.values() for bad in split["skipped"]]
    assert sorted(Path(name).name for name in skipped) == ["90.png", "91.png", "92.png"]
    assert data["train"]["num_images"] + data["test"]["num_images"] == 24


ERRORS = {
    "an unknown model": (["--model=torchvision:resnet5"], "resnet50", 1),
    "an unknown kind of model": (["--model=resnet50"], "torchvision:resnet50", 1),
    "an unknown layer": (["--layers=layer9"], "layer9", 1),
    "an unknown setting": (["config.SVM.normalise=true"], "normalize", 2),
    "a setting out of range": (["config.SVM.cross_val_folds=1"], "cross_val_folds", 2),
    "a value of a wrong type": (["config.SVM.max_iter=many"], "max_iter", 2),
    "an unknown settings file": (["config=demos"], "demo", 2),
    "an empty folder": (["--train=empty"], "empty", 1),
    "one class only": (["--train=single"], "class", 1),
    "fewer positives than folds": (["config.SVM.cross_val_folds=12"], "12", 1),
    "a missing folder": (["--train=phots"], "photos", 1),
    "a weights file that is missing": (["--weights=none.pth"], "none.pth", 1),
    "an output folder that is a file": (["--out=photos/flower/00.png/x"], "choose another", 1),
    "processes under no rank": (["--nproc=0"], "nproc", 2),
}


@pytest.mark.parametrize("case", ERRORS)
def test_a_mistake_is_one_clear_message(
    tmp_path: Path,
    photo_folder: Path,
    case: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments, expected, code = ERRORS[case]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    shutil.copytree(photo_folder / "flower", tmp_path / "single" / "flower")
    images = [] if "--train" in arguments[0] else ["--train=photos"]

    with pytest.raises(SystemExit) as ended:
        main(["evaluate", "svm", *TINY, *images, "--out=out", *arguments])

    stderr = capsys.readouterr().err
    assert ended.value.code == code, stderr
    assert expected in stderr
    assert not (tmp_path / "out/results.json").exists()


def test_several_things_that_are_missing_come_in_one_message(assay: Assay) -> None:
    run = assay("evaluate", "svm")

    assert run.returncode == 2
    for flag in ("--model", "--layers", "--train"):
        assert flag in run.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_so_and_the_same_command_goes_on(
    assay: Assay, tmp_path: Path, number: signal.Signals
) -> None:
    command = ("evaluate", "svm", "config=demo", "config.DATA.TRAIN.DATA_LIMIT=600", "--workers=0")
    process = subprocess.Popen(
        [sys.executable, "-m", "assay", *command],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    features = tmp_path / "runs/demo/features"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not list(features.glob("*")):
        time.sleep(0.05)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)

    assert process.returncode == 128 + number
    assert "Traceback" not in stderr
    assert not (tmp_path / "runs/demo/results.json").exists()

    again = assay(*command)

    assert again.returncode == 0, again.stderr
    assert read_results(tmp_path / "runs/demo")["data"]["train"]["num_images"] == 360


def test_a_full_disk_is_one_clear_message(assay: Assay, tmp_path: Path, photo_folder: Path) -> None:
    small = tmp_path / "small disk"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small file system needs root and mount(2)")
    try:
        run = assay("evaluate", "svm", *TINY, f"--train={photo_folder}", "--out", str(small / "x"))
    finally:
        subprocess.run(["umount", str(small)], check=True)

    assert run.returncode == 1
    assert "disk is full" in run.stderr
    assert "Traceback" not in run.stderr
