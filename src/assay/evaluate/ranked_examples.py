"""Which images a class's scores rank first and last: what people look at to understand an AP."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["RankedExample", "RankedExamples", "rank_examples"]


@dataclass(frozen=True)
class RankedExample:
    """One test image in the ranking of one class."""

    row: int  # row of the test set
    rank: int  # 1 = highest score; rows that are ignored for this class have no rank
    score: float
    positive: bool


@dataclass(frozen=True)
class RankedExamples:
    """The telling ends of one class's ranking, each list in order of rank."""

    first: tuple[RankedExample, ...]
    last_positives: tuple[RankedExample, ...]
    first_negatives: tuple[RankedExample, ...]


def rank_examples(
    scores: NDArray[np.floating], targets: NDArray[np.integer], count: int
) -> RankedExamples:
    """The first ``count`` rows by score, the positives ranked last and the negatives ranked first.

    Args:
        scores: (N,) of any float dtype. Equal scores rank in the order of their rows.
        targets: (N,) 1 = positive, 0 = negative, -1 = ignored, which leaves the row out.
        count: how many rows a list holds at most.
    """
    rows = np.flatnonzero(targets >= 0)
    order = rows[np.argsort(-scores[rows], kind="stable")]
    positive = targets[order] == 1

    def examples(places: NDArray[np.integer]) -> tuple[RankedExample, ...]:
        return tuple(
            RankedExample(
                row=int(order[place]),
                rank=int(place) + 1,
                score=float(scores[order[place]]),
                positive=bool(positive[place]),
            )
            for place in places
        )

    return RankedExamples(
        first=examples(np.arange(min(count, len(order)))),
        last_positives=examples(np.flatnonzero(positive)[-count:] if count else np.arange(0)),
        first_negatives=examples(np.flatnonzero(~positive)[:count]),
    )
