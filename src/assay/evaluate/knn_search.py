"""Exact nearest neighbours by inner product, the same to the last bit however rows are chunked.

Matrix products round differently from one block size, library or device to the next, which is
enough to swap neighbours of almost equal similarity. Here they do not round: rows are first brought
to a length of at most 1 (all by one factor, where they are not to be of unit length) and to
multiples of ``2**-26``. Then every product and every partial sum is a multiple of ``2**-52`` below
2, by Cauchy and Schwarz, which float64 holds exactly in whatever order it is added up. What that
costs is an error of at most ``2**-27`` in each coordinate, less than float32 makes of a number near
1. Of equally similar rows the lower index is nearer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from assay._optional import require
from assay.errors import ConfigError
from assay.evaluate.svm_features import unit_rows

__all__ = ["Neighbours", "find_neighbours"]

_FRACTION_BITS = 26
_NORM_CHUNK_ROWS = 4096


@dataclass(frozen=True)
class Neighbours:
    """The k nearest database rows of Q consecutive queries, nearest first."""

    start: int  # number of the first query
    indices: NDArray[np.int64]  # (Q, k) database rows
    similarities: NDArray[np.float64]  # (Q, k) falling; cosine or inner product


class _Backend(Protocol):
    def put(self, rows: NDArray[np.float64]) -> Any:
        """The rows where the products are computed."""

    def nearest(
        self, queries: Any, database: Any, same: NDArray[np.bool_] | None, k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(Q, k) indices into ``database`` and products, nearest first; ``same`` pairs last."""


def find_neighbours(
    queries: NDArray[Any],
    database: NDArray[Any],
    k: int,
    *,
    l2_norm: bool = True,
    query_ids: NDArray[np.int64] | None = None,
    database_ids: NDArray[np.int64] | None = None,
    query_chunk: int = 2048,
    database_chunk: int = 4096,
    device: str | None = None,
) -> Iterator[Neighbours]:
    """The k nearest rows of each query, one block of queries after another.

    Memory beyond the caller's is that of one block of each, whatever their number; either may be a
    memory-mapped file.

    Args:
        queries: (N, D) finite.
        database: (M, D) finite, M at least k.
        k: how many, at least 1.
        l2_norm: compare by cosine; rows of zeros then have the cosine 0 with everything.
        query_ids, database_ids: (N,) and (M,) whose rows they are; a database row is no neighbour
            of a query of its own id. None for both: all rows may be neighbours.
        query_chunk, database_chunk: rows at a time; the answer does not depend on them.
        device: None computes in numpy; a torch device such as "cpu" or "cuda" computes there.

    Raises:
        ConfigError: a query has fewer than k rows of another id, or the device cannot compute in
            float64.
    """
    _check_k(k, len(database), query_ids, database_ids)
    backend = _NumpyBackend() if device is None else _TorchBackend(device)
    query_scale = _Scale.of(queries, l2_norm=l2_norm)
    database_scale = _Scale.of(database, l2_norm=l2_norm)
    for start in range(0, len(queries), query_chunk):
        block = backend.put(query_scale.fix(queries[start : start + query_chunk]))
        found: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []
        for first in range(0, len(database), database_chunk):
            rows = database_scale.fix(database[first : first + database_chunk])
            same = None
            if query_ids is not None and database_ids is not None:
                ids = database_ids[first : first + database_chunk]
                same = query_ids[start : start + query_chunk, np.newaxis] == ids
            indices, products = backend.nearest(block, backend.put(rows), same, k)
            found = [_merge([*found, (indices + first, products)], k)]
        indices, products = found[0]
        exponent = query_scale.exponent + database_scale.exponent
        yield Neighbours(start, indices, np.asarray(np.ldexp(products, exponent), np.float64))


@dataclass(frozen=True)
class _Scale:
    """Brings rows to multiples of ``2**-26`` and a length of at most 1."""

    l2_norm: bool
    exponent: int  # a row is ``2**exponent`` times what it is brought to

    @classmethod
    def of(cls, rows: NDArray[Any], *, l2_norm: bool) -> _Scale:
        if l2_norm:
            return cls(True, 0)
        exponents = []
        for start in range(0, len(rows), _NORM_CHUNK_ROWS):
            chunk = np.asarray(rows[start : start + _NORM_CHUNK_ROWS], np.float64)
            largest = np.abs(chunk).max()
            if largest > 0:
                # Scaled first, so that squares neither overflow nor vanish.
                shift = int(np.frexp(largest)[1])
                longest = np.linalg.norm(np.ldexp(chunk, -shift), axis=1).max()
                exponents.append(shift + int(np.frexp(longest)[1]))
        return cls(False, max(exponents, default=0))

    def fix(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """(n, D) float64; the caller's rows stay as they are."""
        copy = np.array(rows, np.float64, order="C")
        scaled = unit_rows(copy) if self.l2_norm else np.ldexp(copy, -self.exponent)
        return np.asarray(np.ldexp(np.rint(np.ldexp(scaled, _FRACTION_BITS)), -_FRACTION_BITS))


class _NumpyBackend:
    def put(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        return rows

    def nearest(
        self,
        queries: NDArray[np.float64],
        database: NDArray[np.float64],
        same: NDArray[np.bool_] | None,
        k: int,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        products = queries @ database.T
        if same is not None:
            products[same] = -np.inf
        num_rows = products.shape[1]
        if num_rows > k:
            # What partition leaves at the edge of k among equals is arbitrary: take all that is
            # above the k-th value, then equals from the lowest index up.
            edge = np.partition(products, num_rows - k, axis=1)[:, num_rows - k, np.newaxis]
            chosen = products > edge
            equals = products == edge
            wanted = k - chosen.sum(axis=1, keepdims=True)
            crowded = equals.sum(axis=1) > wanted[:, 0]
            equals[crowded] &= np.cumsum(equals[crowded], axis=1) <= wanted[crowded]
            chosen |= equals
            indices = np.nonzero(chosen)[1].reshape(-1, k)
        else:
            indices = np.tile(np.arange(num_rows), (len(products), 1))
        return _ordered(indices, np.take_along_axis(products, indices, axis=1))


class _TorchBackend:
    def __init__(self, device: str) -> None:
        self.torch = require("torch", extra="evaluate", purpose="find neighbours on a device")
        try:
            probe = self.torch.zeros(1, dtype=self.torch.float64, device=device)
        except (RuntimeError, TypeError, AssertionError) as error:
            raise ConfigError(
                f"device {device} cannot compute in float64 here, which exact neighbours need: "
                f"{str(error).splitlines()[0]} Take cpu, or a device that can."
            ) from error
        self.device = probe.device

    def put(self, rows: NDArray[np.float64]) -> Any:
        return self.torch.from_numpy(rows).to(self.device)

    def nearest(
        self, queries: Any, database: Any, same: NDArray[np.bool_] | None, k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        torch = self.torch
        products = queries @ database.T
        if same is not None:
            products[torch.from_numpy(same).to(self.device)] = -torch.inf
        num_rows = products.shape[1]
        if num_rows > k:
            edge = torch.topk(products, k, dim=1, sorted=True).values[:, -1:]
            chosen = products > edge
            equals = products == edge
            wanted = k - chosen.sum(dim=1, keepdim=True)
            crowded = equals.sum(dim=1) > wanted[:, 0]
            equals[crowded] &= torch.cumsum(equals[crowded], dim=1) <= wanted[crowded]
            chosen |= equals
            indices = torch.nonzero(chosen)[:, 1].reshape(-1, k)
        else:
            indices = torch.arange(num_rows, device=self.device).expand(len(products), -1)
        values = torch.gather(products, 1, indices)
        return _ordered(indices.cpu().numpy(), values.cpu().numpy())


def _ordered(
    indices: NDArray[np.int64], products: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Nearest first; of equals, in the order they are in: from the lowest index up."""
    order = np.argsort(-products, axis=1, kind="stable")
    return np.take_along_axis(indices, order, axis=1), np.take_along_axis(products, order, axis=1)


def _merge(
    parts: list[tuple[NDArray[np.int64], NDArray[np.float64]]], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The k nearest of all parts; those of an earlier part have lower indices."""
    indices, products = _ordered(
        np.concatenate([each for each, _ in parts], axis=1),
        np.concatenate([each for _, each in parts], axis=1),
    )
    return indices[:, :k], products[:, :k]


def _check_k(
    k: int,
    num_rows: int,
    query_ids: NDArray[np.int64] | None,
    database_ids: NDArray[np.int64] | None,
) -> None:
    own, why = 0, ""
    if query_ids is not None and database_ids is not None:
        ids, counts = np.unique(database_ids, return_counts=True)
        own = int(counts[np.isin(ids, query_ids)].max(initial=0))
        why = f", of which up to {own} are a query's own" if own else ""
    if not 1 <= k <= num_rows - own:
        raise ConfigError(
            f"k is {k} but the database has {num_rows} rows{why}: give a k from 1 to "
            f"{num_rows - own}, or a larger database."
        )
