"""What was measured, as data: the one form that tables, files and pages are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from assay.timing.durations import QUANTILE_RELATIVE_ERROR, Durations, Statistics

__all__ = ["EMPTY_SUMMARY", "Measurement", "OneTime", "Samples", "Summary", "summarize"]

_NS_PER_MS = 1e6


@dataclass(frozen=True)
class Measurement:
    """All intervals of one name, over all threads."""

    name: str
    host: (
        Statistics | None
    )  # None: named, yet never measured (only in the warm-up, or still running)
    device: Statistics | None  # between events on the device; None: none were recorded
    num_failed: int  # how many of the host's samples an exception ended
    per_iteration_ms: float | None  # the total over measured iterations; None without iterations
    share: float | None  # of the time of measured iterations, 0..1 on one thread; None without
    cpu_percent: float | None  # 0..100 of all cores while it ran; None: not asked, or not known


@dataclass(frozen=True)
class OneTime:
    """An interval that is measured once."""

    name: str
    elapsed_ms: float | None  # None while it runs


@dataclass(frozen=True)
class Summary:
    """Everything that was measured, at one moment."""

    measurements: tuple[Measurement, ...] = ()
    one_time: tuple[OneTime, ...] = ()
    num_iterations: int = 0  # measured ones: the warm-up does not count
    iteration: Statistics | None = None  # from one finish_iter to the next
    unaccounted_ms: float | None = None  # of all iterations: under no name on the iterating thread
    running: tuple[str, ...] = ()  # names that run now on any thread; these intervals are not in it
    quantile_relative_error: float = QUANTILE_RELATIVE_ERROR


EMPTY_SUMMARY = Summary()


@dataclass
class Samples:
    """What one name has gathered, ready to be summarised. Mutable: it is gathered in place."""

    host: Durations = field(default_factory=Durations)
    device: Durations = field(default_factory=Durations)
    num_failed: int = 0
    in_iterations_ns: int = 0  # the part of host.total_ns that lies in measured iterations
    cpu_busy_s: float = 0.0  # over all cores
    cpu_total_s: float = 0.0

    def merge(self, other: Samples) -> None:
        """Take in all that ``other`` has gathered."""
        self.host.merge(other.host)
        self.device.merge(other.device)
        self.num_failed += other.num_failed
        self.in_iterations_ns += other.in_iterations_ns
        self.cpu_busy_s += other.cpu_busy_s
        self.cpu_total_s += other.cpu_total_s


def summarize(
    samples: Mapping[str, Samples],
    iterations: Durations,
    *,
    covered_ns: int = 0,
    one_time: Iterable[OneTime] = (),
    running: Iterable[str] = (),
) -> Summary:
    """The summary of ``samples``, in their order.

    Args:
        iterations: the lengths of the measured iterations.
        covered_ns: time of the iterations during which anything was measured.
    """
    return Summary(
        measurements=tuple(_measurement(name, each, iterations) for name, each in samples.items()),
        one_time=tuple(one_time),
        num_iterations=iterations.count,
        iteration=iterations.statistics(),
        unaccounted_ms=(
            (iterations.total_ns - covered_ns) / _NS_PER_MS if iterations.count else None
        ),
        running=tuple(sorted(set(running))),
    )


def _measurement(name: str, samples: Samples, iterations: Durations) -> Measurement:
    host, num_iterations = samples.host, iterations.count
    measured = bool(host.count and num_iterations)
    return Measurement(
        name=name,
        host=host.statistics(),
        device=samples.device.statistics(),
        num_failed=samples.num_failed,
        per_iteration_ms=host.total_ns / num_iterations / _NS_PER_MS if measured else None,
        share=(
            samples.in_iterations_ns / iterations.total_ns
            if measured and iterations.total_ns
            else None
        ),
        cpu_percent=100 * samples.cpu_busy_s / samples.cpu_total_s if samples.cpu_total_s else None,
    )
