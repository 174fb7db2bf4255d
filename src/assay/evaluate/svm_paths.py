"""Problems that differ in cost alone, and how they are shared out."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.evaluate.linear_svc import SVMProblem

__all__ = ["CostPath", "cost_paths", "share_out", "share_rows"]


@dataclass(frozen=True)
class CostPath:
    """Problems that differ in cost alone."""

    labels: NDArray[np.int8]  # (N,)
    rows: NDArray[np.int64]  # (n,)
    places: tuple[int, ...]  # of the problems, by ascending cost
    costs: tuple[float, ...]


def cost_paths(problems: Sequence[SVMProblem]) -> list[CostPath]:
    """Problems with equal labels and rows together, in the order of the first of each."""
    digests: dict[int, bytes] = {}

    def digest(array: NDArray[Any]) -> bytes:
        if id(array) not in digests:
            digests[id(array)] = hashlib.sha256(np.ascontiguousarray(array).tobytes()).digest()
        return digests[id(array)]

    together: dict[tuple[bytes, bytes], list[int]] = {}
    for place, problem in enumerate(problems):
        together.setdefault((digest(problem.labels), digest(problem.rows)), []).append(place)
    paths = []
    for places in together.values():
        ordered = sorted(places, key=lambda place: problems[place].cost)
        first = problems[ordered[0]]
        costs = tuple(float(problems[place].cost) for place in ordered)
        paths.append(CostPath(first.labels, first.rows, tuple(ordered), costs))
    return paths


def share_out(paths: list[CostPath], cores: int, width: int) -> list[list[CostPath]]:
    """Neighbours together, as they may share rows; as many batches as keep all cores busy."""
    if not paths:
        return []
    count = min(len(paths), cores * -(-len(paths) // (cores * width)))
    bounds = [len(paths) * place // count for place in range(count + 1)]
    return [paths[start:stop] for start, stop in pairwise(bounds)]


def share_rows(paths: list[CostPath], cores: int) -> list[list[CostPath]]:
    """Paths over the same rows together; in as many parts as keep all cores busy."""
    together: dict[bytes, list[CostPath]] = {}
    for path in paths:
        together.setdefault(path.rows.tobytes(), []).append(path)
    parts = -(-cores // max(1, len(together)))
    shared = []
    for group in together.values():
        shared += share_out(group, min(parts, len(group)), len(group))
    return shared
