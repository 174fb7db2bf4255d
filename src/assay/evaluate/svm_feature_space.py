"""The features that many linear SVMs share, and the products with them that solving takes.

A :class:`FeatureSpace` is X with the constant feature of the bias as its last column. Where memory
allows it holds X in both precisions that the solver computes in; where not, every product reads X
block by block from where it lies, e.g. a memory-mapped file, and converts it on the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from assay.errors import DataError
from assay.evaluate.arrays import some_of

__all__ = ["Eigenbasis", "FeatureSpace"]

_BLOCK_BYTES = 16 << 20
_GRAM_BLOCK_ROWS = 1024
_BASIS_SIZE = 128
_EXACT_BASIS = 512
_BASIS_SEED = 0

Source: TypeAlias = "np.ndarray[Any, Any] | Tensor"


@dataclass(frozen=True)
class Eigenbasis:
    """The directions in which X is longest; exact, or nearly so, in single precision."""

    vectors: Tensor  # (D, k) float32, orthonormal
    values: Tensor  # (k,) float32, descending: eigenvalues of X^T X
    rest: float  # the mean of its other eigenvalues
    projected: Tensor  # (N, k) float32: X @ vectors


class FeatureSpace:
    """X (N, D), its last column constant, in ``dtype`` and in float32.

    X is the features times :attr:`scale`, a power of two that brings the largest to about 1: in
    single precision nothing overflows then, and little vanishes. With cost / scale^2 for each cost,
    the weights are those of the features divided by scale.

    Args:
        features: (N, D - 1) numpy array or tensor of any real type; read, never written.
        intercept_scaling: the value of the last column.
        dtype: of the products that must be exact, float64 or float32.
        device: where products are computed.
        memory_bytes: what X and its Gram matrix may take together.

    Raises:
        DataError: features that are not finite.
    """

    def __init__(
        self,
        features: Source,
        *,
        intercept_scaling: float,
        dtype: torch.dtype,
        device: torch.device,
        memory_bytes: int,
    ) -> None:
        self._source = features
        self._intercept_scaling = intercept_scaling
        self.dtype = dtype
        self.device = device
        self._memory_bytes = memory_bytes
        self.num_rows = int(features.shape[0])
        self.dim = int(features.shape[1]) + 1
        self._copies: dict[torch.dtype, Tensor] = {}
        self._transposed: dict[torch.dtype, Tensor] = {}
        self.is_resident = 2 * self._copy_bytes <= memory_bytes
        self.scale = 1.0
        self.scale = self._checked_scale()

    @property
    def _copy_bytes(self) -> int:
        """Bytes of X once in each precision."""
        size = 4 if self.dtype is torch.float32 else 12
        return self.num_rows * self.dim * size

    @property
    def has_gram(self) -> bool:
        """Whether :meth:`gram_block` may be called."""
        return 2 * self._copy_bytes + 4 * self.num_rows**2 <= self._memory_bytes

    def margins(self, weights: Tensor) -> Tensor:
        """X @ ``weights`` (D, P) -> (N, P), in the type of the weights."""
        if self.is_resident:
            return self._copies[weights.dtype] @ weights
        return torch.cat([block @ weights for _, block in self._blocks(weights.dtype)])

    def pull(self, duals: Tensor) -> Tensor:
        """X^T @ ``duals`` (N, P) -> (D, P), in the type of the duals."""
        if self.is_resident:
            return self._transposed[duals.dtype] @ duals
        total = torch.zeros(self.dim, duals.shape[1], dtype=duals.dtype, device=self.device)
        for start, block in self._blocks(duals.dtype):
            total += block.T @ duals[start : start + len(block)]
        return total

    def curvature_product(self, curvature: Tensor, directions: Tensor) -> Tensor:
        """X^T (``curvature`` (N, P) * (X @ ``directions`` (D, P))) -> (D, P)."""
        if self.is_resident:
            return self.pull(self.margins(directions).mul_(curvature))
        total = torch.zeros_like(directions)
        for start, block in self._blocks(directions.dtype):
            total += block.T @ (block @ directions).mul_(curvature[start : start + len(block)])
        return total

    def rows(self, index: Tensor, dtype: torch.dtype) -> Tensor:
        """(n, D) some rows of X."""
        if dtype in self._copies:
            return self._copies[dtype].index_select(0, index)
        return self._converted(self._chosen(index), dtype)

    def gram_block(self, index: Tensor) -> Tensor:
        """(n, n) float32 of X X^T at ``index`` (n,), sorted; only the lower triangle is meant."""
        count = len(index)
        block = torch.empty(count, count, device=self.device)
        step = max(64, -(-count // 8))
        for start in range(0, count, step):
            stop = min(count, start + step)
            # Whole rows up to the last column wanted, then the columns: both run along memory.
            reach = int(index[stop - 1]) + 1
            rows = self._gram[:, :reach].index_select(0, index[start:stop])
            block[start:stop, :stop] = rows.index_select(1, index[:stop])
        return block

    def gram_entries(self, rows: Tensor, columns: Tensor) -> Tensor:
        """(n, m) float32 of X X^T at any ``rows`` (n,) and ``columns`` (m,)."""
        if len(rows) > len(columns):
            return self.gram_entries(columns, rows).T
        return self._gram.index_select(0, rows).index_select(1, columns)

    def preparations(self) -> list[Callable[[], None]]:
        """What has to be done before solving, in any order or at once on several threads."""
        starts = range(0, self.num_rows, _GRAM_BLOCK_ROWS) if self.has_gram else ()
        return [self._find_basis, *(partial(self._fill_gram, start) for start in starts)]

    def _fill_gram(self, start: int) -> None:
        stop = min(self.num_rows, start + _GRAM_BLOCK_ROWS)
        matrix = self._copies[torch.float32]
        self._gram[start:stop, :stop] = matrix[start:stop] @ matrix[:stop].T
        self._gram[:start, start:stop] = self._gram[start:stop, :start].T

    def _find_basis(self) -> None:
        if self.dim <= _EXACT_BASIS:
            identity = torch.eye(self.dim, device=self.device)
            moments = self.curvature_product(self._ones(self.dim), identity)
            values, vectors = torch.linalg.eigh(moments)
            values = values.clamp_min(0).flip(0)
            vectors = vectors.flip(1)[:, :_BASIS_SIZE].contiguous()
        else:
            values, vectors = self._subspace_iteration()
        count = vectors.shape[1]
        unseen = self.num_rows * self.mean_square - float(values[:count].sum())
        self.basis = Eigenbasis(
            vectors=vectors,
            values=values[:count],
            rest=max(0.0, unseen) / max(1, self.dim - count),
            projected=self.margins(vectors),
        )

    def subset(self, index: Tensor) -> FeatureSpace:
        """Some rows of X as a space of their own, loaded."""
        space = FeatureSpace(
            self._chosen(index),
            intercept_scaling=self._intercept_scaling,
            dtype=self.dtype,
            device=self.device,
            memory_bytes=self._memory_bytes,
        )
        space.load()
        return space

    def _chosen(self, index: Tensor) -> Source:
        """Some rows of the source."""
        source = self._source
        if isinstance(source, Tensor):
            return source[index.to(source.device)]
        return np.asarray(source[index.cpu().numpy()])

    def _subspace_iteration(self) -> tuple[Tensor, Tensor]:
        """Halko, Martinsson and Tropp (2011), algorithm 4.4, on X^T X."""
        generator = torch.Generator().manual_seed(_BASIS_SEED)
        width = min(self.dim, _BASIS_SIZE + 16)
        probe = torch.randn(self.dim, width, generator=generator).to(self.device)
        everywhere = self._ones(width)
        for _ in range(3):
            probe = torch.linalg.qr(self.curvature_product(everywhere, probe)).Q
        image = self.curvature_product(everywhere, probe)
        values, rotation = torch.linalg.eigh(probe.T @ image)
        vectors = probe @ rotation.flip(1)[:, :_BASIS_SIZE]
        return values.clamp_min(0).flip(0), vectors.contiguous()

    def _ones(self, width: int) -> Tensor:
        return torch.ones(1, 1, device=self.device).expand(self.num_rows, width)

    def _checked_scale(self) -> float:
        """A power of two that brings the largest value to about 1; all values are finite."""
        largest = abs(self._intercept_scaling)
        bad = []
        for start, rows in self._source_blocks():
            low, high = torch.aminmax(_widened(rows), dim=1)
            bad += ((~torch.isfinite(high - low)).nonzero()[:, 0] + start).tolist()
            largest = max(largest, float(high.max()), -float(low.min()))
        if bad:
            raise DataError(
                f"features hold NaN or infinity in {len(bad)} of {self.num_rows} rows "
                f"({some_of(bad)}): look at these images and at the model's weights."
            )
        return 2.0 ** -math.frexp(largest)[1]

    def load(self) -> None:
        """Copy X if it may stay, and learn the mean square of its rows.

        Before this, :meth:`rows` alone may be called.
        """
        whole = torch.empty(
            self.num_rows if self.is_resident else 0, self.dim, dtype=self.dtype, device=self.device
        )
        square = 0.0
        for start, block in self._read(self.dtype):
            square += float(torch.linalg.vector_norm(block)) ** 2
            if self.is_resident:
                whole[start : start + len(block)] = block
        self.mean_square = max(square / self.num_rows, torch.finfo(torch.float32).tiny)
        if self.is_resident:
            for dtype in {self.dtype, torch.float32}:
                self._copies[dtype] = whole.to(dtype)
                # Products with the transpose are twice as fast on a copy that runs along memory.
                self._transposed[dtype] = self._copies[dtype].T.contiguous()
        self._gram = self._empty_gram()

    def _empty_gram(self) -> Tensor:
        """(N, N) float32 for X X^T: on and below the diagonal blocks; above them stays nothing."""
        size = self.num_rows if self.has_gram else 0
        return torch.empty(size, size, device=self.device)

    def _blocks(self, dtype: torch.dtype) -> Iterator[tuple[int, Tensor]]:
        if self.is_resident:
            yield 0, self._copies[dtype]
        else:
            yield from self._read(dtype)

    def _read(self, dtype: torch.dtype) -> Iterator[tuple[int, Tensor]]:
        """Blocks of X; each is good until the next is asked for."""
        # One for all blocks: memory that threads take and give back in turns comes to pieces.
        buffer = torch.empty(self._block_rows, self.dim, dtype=dtype, device=self.device)
        for start, rows in self._source_blocks():
            yield start, self._convert(rows, buffer[: len(rows)])

    @property
    def _block_rows(self) -> int:
        return min(self.num_rows, max(1, _BLOCK_BYTES // (8 * self.dim)))

    def _source_blocks(self) -> Iterator[tuple[int, Source]]:
        """Blocks of rows of the source with the number of their first."""
        for start in range(0, self.num_rows, self._block_rows):
            yield start, self._source[start : start + self._block_rows]

    def _converted(self, rows: Source, dtype: torch.dtype) -> Tensor:
        """``rows`` (n, D - 1) of the source as rows of X."""
        empty = torch.empty(len(rows), self.dim, dtype=dtype, device=self.device)
        return self._convert(rows, empty)

    def _convert(self, rows: Source, block: Tensor) -> Tensor:
        """Write ``rows`` (n, D - 1) of the source into ``block`` (n, D) as rows of X."""
        wide = _widened(rows)
        features = block[:, :-1]
        if wide.dtype == block.dtype:
            features.copy_(wide).mul_(self.scale)
        else:  # before single precision, which it could overflow
            features.copy_(wide * self.scale)
        block[:, -1] = self._intercept_scaling * self.scale
        return block


def _widened(rows: Source) -> Tensor:
    """``rows`` as a tensor of at least single precision, where they lie."""
    if isinstance(rows, np.ndarray):
        wide = rows.dtype.itemsize > 4 or (rows.dtype.kind in "iu" and rows.dtype.itemsize > 2)
        dtype = np.float64 if wide else np.float32
        if not (rows.dtype == dtype and rows.flags.writeable and rows.flags.c_contiguous):
            # torch wants no tensor over memory that must not be written, nor strides below 0.
            rows = np.array(rows, dtype, order="C")
        return torch.from_numpy(rows)
    return rows.to(torch.promote_types(rows.dtype, torch.float32))
