"""Summaries of all ranks, reduced: least, mean and most of each name, and who is slowest.

This room lies below the one that talks to torch.distributed, so the exchange is passed in: any
function that takes this rank's object and returns the objects of all ranks, in their order::

    def gather(own):
        everyone = [None] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(everyone, own)
        return everyone

    reduced = summarize_over_ranks(Stopwatch().summary(), gather)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.timing.exports import summary_from_dict, summary_to_dict
from assay.timing.summary import Summary

__all__ = ["OverRanks", "RankMeasurement", "RankSummary", "reduce_ranks", "summarize_over_ranks"]


@dataclass(frozen=True)
class OverRanks:
    """One number of each rank, reduced over the ranks that have it."""

    min: float
    mean: float
    max: float
    slowest_rank: int  # the rank of the maximum; of several, the lowest


@dataclass(frozen=True)
class RankMeasurement:
    """One name on all ranks."""

    name: str
    total_ms: OverRanks
    mean_ms: OverRanks  # the mean of an interval
    missing_ranks: tuple[int, ...]  # those that have no sample of it


@dataclass(frozen=True)
class RankSummary:
    """All names on all ranks, in the order in which rank 0 met them, then rank 1, ..."""

    world_size: int
    measurements: tuple[RankMeasurement, ...]
    iteration_ms: OverRanks | None  # the mean of an iteration; None if no rank finished one


def summarize_over_ranks(
    summary: Summary, gather: Callable[[dict[str, Any]], Sequence[Mapping[str, Any]]]
) -> RankSummary:
    """The same reduction on every rank; all ranks have to call it.

    Args:
        summary: this rank's.
        gather: takes this rank's object, of JSON's types, and returns those of all ranks by rank.
    """
    return reduce_ranks([summary_from_dict(each) for each in gather(summary_to_dict(summary))])


def reduce_ranks(summaries: Sequence[Summary]) -> RankSummary:
    """The reduction of the summaries of ranks 0, 1, ..."""
    by_name = [{each.name: each.host for each in summary.measurements} for summary in summaries]
    names = dict.fromkeys(name for rank in by_name for name in rank)
    measurements = []
    for name in names:
        hosts = {rank: host for rank, own in enumerate(by_name) if (host := own.get(name))}
        totals = _over_ranks({rank: host.total_ms for rank, host in hosts.items()})
        means = _over_ranks({rank: host.mean_ms for rank, host in hosts.items()})
        if totals is not None and means is not None:
            missing = tuple(rank for rank in range(len(summaries)) if rank not in hosts)
            measurements.append(RankMeasurement(name, totals, means, missing))
    iterations = {
        rank: each.iteration.mean_ms for rank, each in enumerate(summaries) if each.iteration
    }
    return RankSummary(len(summaries), tuple(measurements), _over_ranks(iterations))


def _over_ranks(values: Mapping[int, float]) -> OverRanks | None:
    if not values:
        return None
    slowest = max(values, key=lambda rank: (values[rank], -rank))
    mean = sum(values.values()) / len(values)
    return OverRanks(min(values.values()), mean, values[slowest], slowest)
