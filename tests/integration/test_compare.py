from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.cli.main import main
from assay.recipes.stored_scores import StoredScores, load_scores, save_scores

Assay = Callable[..., subprocess.CompletedProcess[str]]


def write_run(
    folder: Path, scores: dict[str, StoredScores], *, kind: str = "svm", digest: str = "sha256:a"
) -> Path:
    """A run's folder with what a comparison reads of it."""
    place = folder / "svm" if kind == "svm" else folder
    for layer, stored in scores.items():
        save_scores(place / layer, stored)
    results = {
        "schema": 1,
        "kind": kind,
        "headline": {"layer": next(iter(scores))},
        "model": {"name": f"model of {folder.name}", "weights": "random"},
        "data": {"test": {"source": "photos/test", "digest": digest}},
        "layers": [{"layer": layer} for layer in scores],
    }
    (folder / "results.json").write_text(json.dumps(results))
    return folder


def ranking(noise: float, seed: int = 1) -> StoredScores:
    random = np.random.default_rng(0)
    targets = np.eye(4, dtype=np.int64)[random.integers(0, 4, size=200)]
    scores = targets + noise * np.random.default_rng(seed).normal(size=targets.shape)
    return StoredScores(scores, targets, np.arange(200), np.arange(4))


def compare(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["compare", *map(str, arguments)])
    return int(ended.value.code or 0)


def read(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "compare.json").read_text())


def test_a_better_run_is_told_from_a_worse_and_not_from_its_like(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = write_run(tmp_path / "good", {"fc": ranking(0.5), "early": ranking(2.0)})
    like = write_run(tmp_path / "like", {"fc": ranking(0.5, seed=2)})
    bad = write_run(tmp_path / "bad", {"fc": ranking(1.5)})

    assert compare(bad, good, like, "--out", tmp_path / "out") == 0

    document = read(tmp_path / "out")
    runs = [Path(entry["run"]).name for entry in document["entries"]]
    assert runs[2] == "bad"
    real = {(runs[d["first"]], runs[d["second"]]): d["real"] for d in document["differences"]}
    assert real[tuple(runs[:2])] is False
    assert real["good", "bad"] is True
    assert real["like", "bad"] is True
    for each in document["differences"]:
        low, high = each["interval"]
        assert low <= each["difference"] <= high
        assert each["real"] == (low > 0 or high < 0)
    assert (document["confidence"], document["resamples"]) == (0.95, 1000)
    assert capsys.readouterr().out.count("yes") == 2
    assert "model of good" in (tmp_path / "out/compare.html").read_text()


def test_the_layers_of_one_run_are_compared(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"fc": ranking(0.5), "early": ranking(2.0)})

    assert compare(run, "--out", tmp_path / "out") == 0

    assert [entry["layer"] for entry in read(tmp_path / "out")["entries"]] == ["fc", "early"]


def test_all_layers_of_several_runs_are_compared_when_asked_for(tmp_path: Path) -> None:
    layers = {"fc": ranking(0.5), "early": ranking(2.0)}
    runs = [write_run(tmp_path / name, layers) for name in "ab"]

    assert compare(*runs, "--all-layers", "--out", tmp_path / "out") == 0

    assert len(read(tmp_path / "out")["differences"]) == 6


def test_accuracies_of_nearest_neighbours_are_compared(tmp_path: Path) -> None:
    runs = []
    for name, share in (("a", 0.9), ("b", 0.6)):
        hits = (np.random.default_rng(0).uniform(size=300) < share).astype(np.float64)
        stored = StoredScores(hits, np.zeros(300, np.int64), np.arange(300), np.arange(5))
        runs.append(write_run(tmp_path / name, {"fc": stored}, kind="knn"))

    assert compare(*runs, "--out", tmp_path / "out") == 0

    document = read(tmp_path / "out")
    assert document["metric"] == "top1"
    assert document["differences"][0]["difference"] == pytest.approx(
        document["entries"][0]["score"] - document["entries"][1]["score"]
    )


def unlike_digest(folder: Path) -> None:
    write_run(folder, {"fc": ranking(0.5)}, digest="sha256:b")


def unlike_classes(folder: Path) -> None:
    whole = ranking(0.5)
    fewer = StoredScores(whole.scores[:, :3], whole.targets[:, :3], whole.inds, np.arange(3))
    write_run(folder, {"fc": fewer})


def unlike_rows(folder: Path) -> None:
    whole = ranking(0.5)
    write_run(
        folder,
        {"fc": StoredScores(whole.scores[1:], whole.targets[1:], whole.inds[1:], whole.class_ids)},
    )


def unlike_labels(folder: Path) -> None:
    whole = ranking(0.5)
    other = StoredScores(whole.scores, 1 - whole.targets, whole.inds, whole.class_ids)
    write_run(folder, {"fc": other})


def unlike_metric(folder: Path) -> None:
    hits = StoredScores(np.ones(200), np.zeros(200, np.int64), np.arange(200), np.arange(4))
    write_run(folder, {"fc": hits}, kind="knn")


def no_results(folder: Path) -> None:
    folder.mkdir()


def no_scores(folder: Path) -> None:
    write_run(folder, {"fc": ranking(0.5)})
    shutil.rmtree(folder / "svm")


def low_shot(folder: Path) -> None:
    write_run(folder, {"fc": ranking(0.5)}, kind="low_shot")


def broken_results(folder: Path) -> None:
    folder.mkdir()
    (folder / "results.json").write_text("{")


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (unlike_digest, "different images"),
        (unlike_classes, "classes"),
        (unlike_rows, "left out images"),
        (unlike_labels, "labelled differently"),
        (unlike_metric, "top1"),
        (no_results, "is not there"),
        (no_scores, "test_scores.npz is not there"),
        (low_shot, "no score for each image"),
        (broken_results, "cannot be read"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_the_reason(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    make: Callable[[Path], None],
    expected: str,
) -> None:
    first = write_run(tmp_path / "first", {"fc": ranking(0.5)})
    make(tmp_path / "second")

    assert compare(first, tmp_path / "second", "--out", tmp_path / "out") == 1

    assert expected in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_one_run_of_one_layer_is_nothing_to_compare(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(write_run(tmp_path / "run", {"fc": ranking(0.5)})) == 1

    assert "name a second run" in capsys.readouterr().err


def test_two_real_runs_are_compared_image_by_image(
    assay: Assay, tiny: tuple[str, ...], tmp_path: Path, photo_folder: Path
) -> None:
    arguments = ("evaluate", "svm", *tiny, f"--train={photo_folder}")
    assert assay(*arguments, "--out=a").returncode == 0
    assert assay(*arguments, "--model=python:two_models:second", "--out=b").returncode == 0

    run = assay("compare", "a", "b", "--out=out")

    assert run.returncode == 0, run.stderr
    document = read(tmp_path / "out")
    results = {name: json.loads((tmp_path / name / "results.json").read_text()) for name in "ab"}
    for entry in document["entries"]:
        headline = results[entry["run"]]["headline"]
        assert entry["score"] == pytest.approx(headline["mean_ap"])
        assert entry["interval"] == pytest.approx(headline["interval"])
    stored = load_scores(tmp_path / "a/svm/1")
    assert stored.scores.shape == stored.targets.shape == (len(stored.inds), 2)
