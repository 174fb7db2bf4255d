from __future__ import annotations

import pytest

from assay.timing import Measurement, Summary, reduce_ranks, summarize_over_ranks
from assay.timing.durations import Durations, Statistics
from assay.timing.rank_summary import OverRanks


def statistics(*lengths_ms: float) -> Statistics | None:
    durations = Durations()
    for each in lengths_ms:
        durations.add_ms(each)
    return durations.statistics()


def summary(iteration_ms: float | None = None, **lengths_ms: list[float]) -> Summary:
    return Summary(
        measurements=tuple(
            Measurement(name, statistics(*lengths), None, 0, None, None, None)
            for name, lengths in lengths_ms.items()
        ),
        iteration=None if iteration_ms is None else statistics(iteration_ms),
    )


def test_each_name_is_reduced_to_least_mean_most_and_the_slowest_rank() -> None:
    reduced = reduce_ranks([summary(9, a=[1, 3]), summary(11, a=[8]), summary(10, a=[2, 1])])
    assert reduced.world_size == 3
    assert reduced.iteration_ms == OverRanks(9, 10, 11, 1)
    [found] = reduced.measurements
    assert found.total_ms == OverRanks(3, 5, 8, 1)
    assert found.mean_ms == OverRanks(1.5, pytest.approx(11.5 / 3), 8, 1)
    assert found.missing_ranks == ()


def test_names_that_some_ranks_lack_are_reduced_over_the_others() -> None:
    reduced = reduce_ranks([summary(a=[1]), summary(b=[4], a=[]), summary(b=[2], a=[3])])
    found = {each.name: each for each in reduced.measurements}
    assert list(found) == ["a", "b"]
    assert found["a"].total_ms == OverRanks(1, 2, 3, 2)
    assert found["a"].missing_ranks == (1,)
    assert found["b"].total_ms == OverRanks(2, 3, 4, 1)
    assert found["b"].missing_ranks == (0,)
    assert reduced.iteration_ms is None


def test_of_ranks_that_are_equally_slow_the_lowest_is_named() -> None:
    [found] = reduce_ranks([summary(a=[1]), summary(a=[2]), summary(a=[2])]).measurements
    assert found.total_ms.slowest_rank == 1


def test_a_name_without_a_sample_on_any_rank_is_left_out() -> None:
    assert reduce_ranks([summary(a=[]), summary(a=[])]).measurements == ()


def test_the_exchange_is_in_the_hands_of_the_caller() -> None:
    sent = []

    def gather(own: dict) -> list[dict]:
        sent.append(own)
        return [own, own]

    reduced = summarize_over_ranks(summary(a=[5]), gather)
    assert len(sent) == 1
    assert reduced.world_size == 2
    assert reduced.measurements[0].total_ms == OverRanks(5, 5, 5, 0)
