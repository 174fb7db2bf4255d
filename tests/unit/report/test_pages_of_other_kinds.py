"""Documents, pages and tables of low-shot SVMs, nearest neighbours and comparisons."""

from __future__ import annotations

import io
import json
import re
from datetime import datetime, timezone
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType

from assay.errors import DataError
from assay.evaluate.knn import KNNAccuracy, KNNMeanAP
from assay.evaluate.low_shot_result import summarise_low_shot
from assay.report.comparison import comparison_document, comparison_table, render_comparison
from assay.report.document import RunRecord
from assay.report.document_knn import knn_layer, knn_results
from assay.report.document_low_shot import low_shot_layer, low_shot_results
from assay.report.html import render_report
from assay.report.progress import StageTiming
from assay.report.results_knn import read_knn
from assay.report.results_low_shot import read_low_shot
from assay.report.tables import results_table

HOSTILE = "</style></svg><script>alert(1)</script>"
SPLIT = {
    "source": "photos/test",
    "digest": "sha256:ab",
    "num_images": 40,
    "num_classes": 3,
    "multi_label": False,
    "skipped": [],
}
MODEL = {"name": "a model", "weights": "random", "weights_digest": "sha256:c", "num_parameters": 5}
RECORD = RunRecord(
    command="assay evaluate knn config=demo",
    created=datetime(2026, 1, 1, tzinfo=timezone.utc),
    facts={
        "model": MODEL,
        "transform": {"resize": 64},
        "data": {"train": SPLIT, "test": SPLIT},
        "settings": {"config": {"SEED_VALUE": 0}},
        "device": "cpu",
    },
    timings=[StageTiming("train", 1.5)],
)
NAMES = ("cat", "dog", "fox")


class Balance(HTMLParser):
    """Notes each tag that is not closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.faults: list[str] = []
        self.tags: list[str] = []
        self.feed(page)
        self.close()
        self.faults += self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"/{tag}")


def low_shot(
    *, names: tuple[str, ...] = NAMES, layers: tuple[str, ...] = ("fc",), undefined: bool = False
) -> dict[str, Any]:
    documents = []
    for place, layer in enumerate(layers):
        random = np.random.default_rng(place)
        test_ap = random.uniform(0.5 - 0.1 * place, 0.9 - 0.1 * place, size=(3, 4, len(names), 2))
        if undefined:
            test_ap[:, :, 0] = np.nan
        crossval_ap = np.where(np.arange(3)[:, None, None, None] > 0, test_ap * 0.9, np.nan)
        crossval_ap[np.isnan(crossval_ap) & (np.arange(3)[:, None, None, None] > 0)] = 0.5
        result = summarise_low_shot(
            layer,
            tuple(range(len(names))),
            np.array([1.0, 10.0]),
            (1, 4, 16),
            (1, 2, 3, 4),
            test_ap,
            crossval_ap,
        )
        documents.append(low_shot_layer(result, feature_dim=64, class_names=names))
    return low_shot_results(RECORD, documents, dataset_name="places")


def accuracy(
    *, names: tuple[str, ...] = NAMES, layers: tuple[str, ...] = ("fc",), num_classes: int = 3
) -> dict[str, Any]:
    documents = []
    for place, layer in enumerate(layers):
        random = np.random.default_rng(place)
        labels = np.arange(40) % num_classes
        top1 = random.uniform(size=(2, 40)) < 0.7
        result = KNNAccuracy(
            k_values=(10, 20),
            class_ids=tuple(range(num_classes)),
            rows=np.arange(40),
            predictions=np.where(top1, labels, (labels + 1) % num_classes),
            top1_hits=top1,
            top5_hits=np.ones((2, 40), np.bool_),
        )
        documents.append(knn_document(layer, result, labels, names))
    return knn_results(RECORD, documents, temperature=0.07, l2_norm=True)


def mean_ap(*, names: tuple[str, ...] = NAMES, undefined: bool = False) -> dict[str, Any]:
    targets = np.eye(3, dtype=np.int8)[np.arange(40) % 3]
    test_ap = np.array([[0.9, 0.5, 0.7], [0.8, 0.6, 0.75]])
    if undefined:
        targets[:, 1], test_ap[:, 1] = 0, np.nan
    result = KNNMeanAP((10, 20), (0, 1, 2), np.zeros((2, 40, 3)), targets, test_ap)
    document = knn_document("fc", result, np.zeros(40, np.int64), names)
    return knn_results(RECORD, [document], temperature=0.1, l2_norm=False)


def knn_document(
    layer: str, result: KNNAccuracy | KNNMeanAP, labels: np.ndarray, names: tuple[str, ...]
) -> dict[str, Any]:
    interval = {"interval": [0.5, 0.8], "confidence": 0.95, "resamples": 1000, "seed": 0}
    return knn_layer(
        layer,
        result,
        labels,
        intervals=[interval, interval],
        headline_k=20,
        feature_dim=64,
        class_names=names,
    )


def comparison(num: int = 3) -> dict[str, Any]:
    entries = [
        {
            "run": f"runs/{place}",
            "layer": HOSTILE,
            "model": HOSTILE,
            "weights": "random",
            "score": 0.9 - 0.1 * place,
            "interval": [0.85 - 0.1 * place, 0.95 - 0.1 * place],
        }
        for place in range(num)
    ]
    differences = [
        {
            "first": first,
            "second": second,
            "difference": 0.1 * (second - first),
            "interval": [0.1 * (second - first) - 0.12, 0.1 * (second - first) + 0.1],
            "p_value": 0.01,
            "real": 0.1 * (second - first) - 0.12 > 0,
        }
        for first in range(num)
        for second in range(first + 1, num)
    ]
    return comparison_document(
        created=datetime(2026, 1, 1, tzinfo=timezone.utc),
        command="assay compare a b",
        metric="mean_ap",
        data=SPLIT,
        num_images=40,
        num_classes=3,
        entries=entries,
        differences=differences,
        confidence=0.95,
        resamples=1000,
        seed=0,
    )


def no_image(_row: int) -> Any:
    raise AssertionError("these pages show no images")


def show(table: RenderableType, width: int = 80) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(table)
    return out.getvalue()


def words(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", page))


DOCUMENTS = {
    "low-shot": low_shot(),
    "low-shot, five layers": low_shot(layers=tuple("abcde")),
    "low-shot, a class without positives": low_shot(undefined=True),
    "low-shot, hostile names": low_shot(names=(HOSTILE, "b", "c"), layers=(HOSTILE, "fc")),
    "accuracy": accuracy(),
    "accuracy, five layers": accuracy(layers=tuple("abcde")),
    "accuracy, more classes than bars": accuracy(num_classes=60),
    "accuracy, hostile names": accuracy(names=(HOSTILE, "b", "c"), layers=(HOSTILE,)),
    "mean AP": mean_ap(),
    "mean AP, a class without positives": mean_ap(undefined=True),
}


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS.keys())
def test_a_page_is_well_formed_complete_in_itself_and_the_same_each_time(
    document: dict[str, Any],
) -> None:
    page = render_report(document, no_image)

    balance = Balance(page)
    assert balance.faults == []
    assert "script" not in balance.tags
    assert not re.search(r"https?:|['\"(=]//|@import", page)
    assert "nan" not in words(page).lower()
    assert balance.tags.count("h1") == 1
    assert balance.tags.count("table") == balance.tags.count("caption")
    assert render_report(document, no_image) == page


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS.keys())
def test_a_document_is_strict_json_and_its_table_fits_80_columns(document: dict[str, Any]) -> None:
    back = json.loads(json.dumps(document, allow_nan=False))

    text = show(results_table(back), width=200)

    assert max(cell_len(line.rstrip()) for line in text.splitlines()) <= 80
    assert "\x1b" not in text


def test_the_low_shot_headline_is_the_best_layer_at_the_largest_k() -> None:
    document = low_shot(layers=("best", "worst"))
    point = document["layers"][0]["points"][2]

    assert document["headline"] == {
        "layer": "best",
        "k": 16,
        "mean_ap": point["mean_ap"],
        "std": point["std"],
        "crossval_mean_ap": point["crossval_mean_ap"],
        "crossval_std": point["crossval_std"],
    }
    assert len(point["samples"]) == 4
    assert document["layers"][0]["points"][0]["crossval_mean_ap"] is None


def test_the_low_shot_page_says_that_costs_have_looked_at_the_test_images() -> None:
    page = words(render_report(low_shot(), no_image))

    assert "chosen for the best mean on the test images, as published" in page
    assert "by cross-validation, without a look at them, it is" in page


def test_low_shot_points_are_read_by_rising_k_and_classes_weakest_first() -> None:
    document = low_shot()
    document["layers"][0]["points"].reverse()
    for entry in document["layers"][0]["classes"]:
        entry["ap"].reverse()

    layer = read_low_shot(document).headline

    assert [point.k for point in layer.points] == [1, 4, 16]
    assert [c.ap[-1] for c in layer.classes] == sorted(c.ap[-1] for c in layer.classes)


def test_the_accuracy_of_a_class_is_the_share_of_its_images_that_are_right() -> None:
    document = accuracy()
    layer = document["layers"][0]
    counts = [entry["num_test_positives"] for entry in layer["classes"]]

    assert counts == [14, 13, 13]
    for place in range(2):
        mean = np.average([entry["values"][place] for entry in layer["classes"]], weights=counts)
        assert mean == pytest.approx(layer["points"][place]["top1"])


def test_a_class_that_only_test_rows_have_is_listed_and_never_right() -> None:
    hits = np.array([[True, True, False, False]])
    result = KNNAccuracy((20,), (0,), np.arange(4), np.zeros((1, 4), np.int64), hits, hits)

    layer = knn_layer(
        "fc",
        result,
        np.array([0, 0, 5, 5]),
        intervals=[{"interval": [0.1, 0.9], "confidence": 0.95, "resamples": 10, "seed": 0}],
        headline_k=20,
        feature_dim=4,
        class_names=NAMES,
    )

    assert [(c["name"], c["values"], c["num_test_positives"]) for c in layer["classes"]] == [
        ("cat", [1.0], 2),
        ("5", [0.0], 2),
    ]


def test_the_nearest_neighbour_headline_is_at_the_k_that_was_named() -> None:
    document = accuracy()

    assert document["headline"]["k"] == 20
    assert document["headline"]["top1"] == document["layers"][0]["points"][1]["top1"]
    assert document["headline"]["interval"] == [0.5, 0.8]
    page = words(render_report(document, no_image))
    assert "95 % interval 0.500 to 0.800" in page
    assert read_knn(document).headline.chosen.k == 20


@pytest.mark.parametrize("key", ["temperature", "layers", "headline"])
def test_a_missing_key_is_named(key: str) -> None:
    document = accuracy()
    del document[key]

    with pytest.raises(DataError, match=key):
        read_knn(document)


def test_results_of_an_unknown_kind_are_refused_with_the_kinds_there_are() -> None:
    with pytest.raises(DataError, match="svm, low_shot, knn"):
        render_report({**accuracy(), "kind": "retrieval"}, no_image)


@pytest.mark.parametrize("num", [2, 3, 14])
def test_the_page_of_a_comparison_is_well_formed(num: int) -> None:
    page = render_comparison(comparison(num))

    balance = Balance(page)
    assert balance.faults == []
    assert "script" not in balance.tags
    assert not re.search(r"https?:|['\"(=]//|@import", page)


def test_a_comparison_says_what_is_real_and_warns_of_many_pairs() -> None:
    page, table = words(render_comparison(comparison())), show(comparison_table(comparison()), 200)

    assert "1 of 3 differences is real" in page
    assert table.count("yes") == 1
    for text in (page, table):
        assert "5 in 100 look real by chance" in " ".join(text.split())


def test_the_table_of_a_comparison_fits_80_columns() -> None:
    long = comparison()
    for entry in long["entries"]:
        entry["run"] = "runs/" + "deep/" * 40 + entry["run"]

    text = show(comparison_table(long), width=200)

    body = [line for line in text.splitlines() if "chance" not in line]
    assert max(cell_len(line.rstrip()) for line in body) <= 80
