"""Durations added up in bounded memory: exact moments, and quantiles of a stated error."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import mul

import numpy as np

__all__ = ["FOLD_EVERY", "QUANTILE_RELATIVE_ERROR", "Bin", "Durations", "Statistics"]

FOLD_EVERY = 1024  # so many may wait to be added up
_STEP_BITS = 6  # 64 buckets from each power of two to the next
_STEPS = 1 << _STEP_BITS
QUANTILE_RELATIVE_ERROR = 1 / (2 * _STEPS)
_NUM_BUCKETS = 64 * _STEPS  # all that 63 bits can hold
_MANTISSA_BITS = 52  # of a float64, behind the exponent
_ZERO_EXPONENT = 1023
_NS_PER_MS = 1e6


@dataclass(frozen=True)
class Bin:
    """One bar of a distribution: samples from ``lower_ms`` to below ``upper_ms``."""

    lower_ms: float
    upper_ms: float
    count: int


@dataclass(frozen=True)
class Statistics:
    """What is known of ``count`` (1 or more) durations, in milliseconds.

    All exact but the quantiles. A quantile is the least sample that no less than 50 % (95 %) of the
    samples are at or below (of two middle samples, the lower), to within 0.8 % or about 1 ns.
    """

    count: int
    total_ms: float
    mean_ms: float
    std_ms: float  # of the samples themselves (divided by count), so 0 for one sample
    min_ms: float
    median_ms: float
    p95_ms: float
    max_ms: float
    distribution: tuple[Bin, ...]  # ascending, none empty


class Durations:
    """A growing set of durations in whole nanoseconds, kept as sums and a histogram.

    The histogram has 64 equal buckets from each power of two to the next, like HdrHistogram, so no
    value is further from its bucket's middle than 1/128 of itself. The bits of a float64 name the
    bucket: its exponent, and the first six of its mantissa. From a nanosecond to 292 years there
    are some 4000 buckets, hence none ever has to be merged. Sums are whole numbers, thus exact in
    any order; the variance comes of them without cancellation.

    Durations wait in ``waiting``, to be added up many at a time.
    """

    __slots__ = (
        "_buckets",
        "_count",
        "_max_ns",
        "_min_ns",
        "_num_summed",
        "_squares",
        "_total_ns",
        "_waiting_ns",
        "waiting",
    )

    def __init__(self) -> None:
        self.waiting: list[int] = []
        self._count = 0
        self._total_ns = 0
        self._num_summed = 0  # how many of those that wait are in _waiting_ns
        self._waiting_ns = 0
        self._squares = 0  # sum of squares, ns^2
        self._min_ns = 0
        self._max_ns = 0
        self._buckets: np.ndarray | None = None  # (_NUM_BUCKETS,) int64

    @property
    def count(self) -> int:
        """How many there are."""
        return self._count + len(self.waiting)

    @property
    def total_ns(self) -> int:
        """Their sum. Adds to what it found last, since it is asked for after every iteration."""
        new = self.waiting[self._num_summed :]
        self._waiting_ns += sum(new)
        self._num_summed += len(new)
        return self._total_ns + self._waiting_ns

    def add(self, duration_ns: int) -> None:
        """Take in a duration of 0 ns or more."""
        self.waiting.append(duration_ns)
        if len(self.waiting) >= FOLD_EVERY:
            self.fold()

    def add_ms(self, duration_ms: float) -> None:
        """Take in a duration, rounded to whole nanoseconds, and 0 if it is below."""
        self.add(max(0, round(duration_ms * _NS_PER_MS)))

    def fold(self) -> None:
        """Add up what waits. Others may append to ``waiting`` meanwhile, but not fold."""
        values = self.waiting[:]
        if not values:
            return
        array = np.array(values, dtype=np.int64)
        least, most = int(array.min()), int(array.max())
        self._min_ns = min(self._min_ns, least) if self._count else least
        self._max_ns = max(self._max_ns, most)
        if len(values) * most**2 < 2**63:
            self._total_ns += int(array.sum())
            self._squares += int(array @ array)
        else:
            self._total_ns += sum(values)
            self._squares += sum(map(mul, values, values))
        bits = np.maximum(array, 1).astype(np.float64).view(np.int64)
        bits -= _ZERO_EXPONENT << _MANTISSA_BITS
        bits >>= _MANTISSA_BITS - _STEP_BITS
        buckets = np.bincount(bits, minlength=_NUM_BUCKETS)
        self._buckets = buckets if self._buckets is None else self._buckets + buckets
        self._count += len(values)
        del self.waiting[: len(values)]
        self._num_summed = self._waiting_ns = 0

    def merge(self, other: Durations) -> None:
        """Take in all that ``other`` has; what waits there is added up first."""
        other.fold()
        if other._buckets is None:
            return
        self.fold()
        self._min_ns = min(self._min_ns, other._min_ns) if self._count else other._min_ns
        self._max_ns = max(self._max_ns, other._max_ns)
        self._total_ns += other._total_ns
        self._squares += other._squares
        self._buckets = other._buckets + (0 if self._buckets is None else self._buckets)
        self._count += other._count

    def statistics(self) -> Statistics | None:
        """What is known by now; None without a sample."""
        self.fold()
        if not self._count:
            return None
        bins = tuple(self._bins())
        spread = self._count * self._squares - self._total_ns**2  # count^2 times the variance
        return Statistics(
            count=self._count,
            total_ms=self._total_ns / _NS_PER_MS,
            mean_ms=self._total_ns / self._count / _NS_PER_MS,
            std_ms=math.sqrt(spread) / self._count / _NS_PER_MS,
            min_ms=self._min_ns / _NS_PER_MS,
            median_ms=self._percentile_ms(bins, 50),
            p95_ms=self._percentile_ms(bins, 95),
            max_ms=self._max_ns / _NS_PER_MS,
            distribution=bins,
        )

    def _bins(self) -> Iterator[Bin]:
        if self._buckets is not None:
            for bucket in map(int, np.flatnonzero(self._buckets)):
                lower_ns, upper_ns = _edge_ns(bucket), _edge_ns(bucket + 1)
                count = int(self._buckets[bucket])
                yield Bin(lower_ns / _NS_PER_MS, upper_ns / _NS_PER_MS, count)

    def _percentile_ms(self, bins: Sequence[Bin], percent: int) -> float:
        rank = -(-percent * self._count // 100)  # nearest rank, counted from 1
        upto = itertools.accumulate(each.count for each in bins)
        found = next(each for each, count in zip(bins, upto, strict=True) if count >= rank)
        middle_ms = (found.lower_ms + found.upper_ms) / 2
        return min(max(middle_ms, self._min_ns / _NS_PER_MS), self._max_ns / _NS_PER_MS)


def _edge_ns(bucket: int) -> float:
    """The least value of a bucket."""
    exponent, step = divmod(bucket, _STEPS)
    return math.ldexp(1 + step / _STEPS, exponent)
