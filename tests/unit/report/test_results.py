from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest

from assay.errors import DataError
from assay.report.results import read_results

MakeResults = Callable[..., dict[str, Any]]


def test_null_is_read_as_nan_and_its_class_comes_last(make_results: MakeResults) -> None:
    run = read_results(make_results(absent=[0]))

    ordered = run.headline.weakest_first()
    assert math.isnan(ordered[-1].ap)
    assert ordered[-1].name == "cat"
    assert [entry.name for entry in run.headline.defined()] == [c.name for c in ordered[:-1]]


def test_results_in_memory_may_hold_nan_for_null(make_results: MakeResults) -> None:
    results = make_results(absent=[0])
    results["layers"][0]["classes"][0]["ap"] = math.nan

    assert len(read_results(results).headline.defined()) == 2


def test_classes_of_equal_ap_keep_their_order(make_results: MakeResults) -> None:
    results = make_results()
    for entry in results["layers"][0]["classes"]:
        entry["ap"] = 0.5

    ordered = read_results(results).headline.weakest_first()
    assert [entry.class_id for entry in ordered] == [0, 1, 2]


def test_reading_leaves_the_results_as_they_are(make_results: MakeResults) -> None:
    results = make_results(class_names=["a\x00", "b"])
    before = copy.deepcopy(results)

    read_results(results)

    assert results == before


@pytest.mark.parametrize(("key", "value"), [("schema", 2), ("kind", "knn")])
def test_results_of_another_schema_or_kind_are_refused(
    make_results: MakeResults, key: str, value: object
) -> None:
    with pytest.raises(DataError, match="schema"):
        read_results({**make_results(), key: value})


def test_a_missing_key_is_named(make_results: MakeResults) -> None:
    results = make_results()
    del results["layers"][0]["costs"]

    with pytest.raises(DataError, match="'costs'"):
        read_results(results)


def test_a_headline_that_is_no_layer_is_refused_with_the_layers_there_are(
    make_results: MakeResults,
) -> None:
    results = make_results(layers=["layer3", "layer4"])
    results["headline"]["layer"] = "fc"

    with pytest.raises(DataError, match=r"'fc'.*layer3, layer4"):
        read_results(results)
