from __future__ import annotations

import itertools
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.timing.durations import Durations

LENGTHS_NS = st.one_of(st.integers(0, 10**5), st.integers(0, 10**18))  # up to thirty years


def of(lengths_ns: list[int]) -> Durations:
    durations = Durations()
    for each in lengths_ns:
        durations.add(each)
    return durations


def exact_percentile(lengths_ns: list[int], percent: int) -> int:
    """The least sample that no less than ``percent`` of the samples are at or below."""
    return next(
        each
        for each in sorted(lengths_ns)
        if 100 * sum(other <= each for other in lengths_ns) >= percent * len(lengths_ns)
    )


def test_nothing_is_known_without_a_sample() -> None:
    assert of([]).statistics() is None


def test_count_and_total_are_known_before_and_after_samples_are_added_up() -> None:
    durations = Durations()
    for number in range(1, 3000):
        durations.add(number)
        if number % 7 == 0:
            assert (durations.count, durations.total_ns) == (number, number * (number + 1) // 2)


def test_one_sample_is_everything_at_once() -> None:
    known = of([1_500_000]).statistics()
    assert known is not None
    assert known.count == 1
    assert known.std_ms == 0
    times = (known.total_ms, known.mean_ms, known.min_ms, known.median_ms, known.p95_ms)
    assert times == (1.5,) * 5
    assert known.max_ms == 1.5


@given(st.lists(LENGTHS_NS, min_size=1, max_size=60))
def test_moments_are_exact(lengths_ns: list[int]) -> None:
    known = of(lengths_ns).statistics()
    assert known is not None
    assert known.count == len(lengths_ns)
    assert known.total_ms == pytest.approx(sum(lengths_ns) / 1e6, rel=1e-15)
    assert known.mean_ms == pytest.approx(statistics.mean(lengths_ns) / 1e6, rel=1e-12)
    assert known.std_ms == pytest.approx(statistics.pstdev(lengths_ns) / 1e6, rel=1e-9, abs=1e-12)
    assert known.min_ms == min(lengths_ns) / 1e6
    assert known.max_ms == max(lengths_ns) / 1e6


@given(st.lists(LENGTHS_NS, min_size=1, max_size=60))
def test_percentiles_keep_the_stated_error(lengths_ns: list[int]) -> None:
    known = of(lengths_ns).statistics()
    assert known is not None
    for percent, found_ms in ((50, known.median_ms), (95, known.p95_ms)):
        exact_ns = exact_percentile(lengths_ns, percent)
        assert found_ms * 1e6 == pytest.approx(exact_ns, rel=1 / 128, abs=1.01)


@given(st.lists(LENGTHS_NS, max_size=40), st.lists(LENGTHS_NS, max_size=40))
def test_merging_is_the_same_as_adding_all_to_one(first: list[int], second: list[int]) -> None:
    merged, at_once = of(first), of(first + second)
    merged.merge(of(second))
    assert merged.statistics() == at_once.statistics()


@given(st.lists(LENGTHS_NS, min_size=1, max_size=40))
def test_the_distribution_holds_every_sample_in_its_bin(lengths_ns: list[int]) -> None:
    known = of(lengths_ns).statistics()
    assert known is not None
    bins = known.distribution
    assert sum(each.count for each in bins) == len(lengths_ns)
    assert all(before.upper_ms <= after.lower_ms for before, after in itertools.pairwise(bins))
    for length_ms in (max(each, 1) / 1e6 for each in lengths_ns):
        assert any(each.lower_ms <= length_ms < each.upper_ms for each in bins)


def test_a_spread_far_below_the_mean_is_not_lost() -> None:
    known = of([10**17 + offset for offset in (0, 2) * 50]).statistics()
    assert known is not None
    assert known.std_ms == 1e-6


def test_memory_stays_bounded_over_a_century_of_lengths() -> None:
    durations = of([round(math.exp(exponent / 430)) for exponent in range(18_500)])
    known = durations.statistics()
    assert known is not None
    assert known.max_ms > 100 * 365 * 86_400_000
    assert len(known.distribution) < 4000
    before = len(known.distribution)
    durations.merge(of(list(range(1, 1_000_000, 7))))
    known = durations.statistics()
    assert known is not None
    assert len(known.distribution) == before


def test_milliseconds_of_a_device_are_rounded_to_nanoseconds() -> None:
    durations = Durations()
    durations.add_ms(0.0015001)
    durations.add_ms(-1e-9)  # a device's clock may say so of an empty interval
    known = durations.statistics()
    assert known is not None
    assert (known.count, known.max_ms, known.min_ms) == (2, 0.0015, 0)
