"""Feature rows as a linear SVM takes them: float64, finite, of unit length if wanted."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import DataError
from assay.evaluate.arrays import as_numpy, some_of

__all__ = ["features_digest", "prepare_features", "read_features", "unit_rows"]

_CHUNK_BYTES = 32 << 20


def read_features(features: Any, *, name: str = "features") -> NDArray[Any]:
    """``features`` (N, D), checked and unchanged: any real type, strides, or memory-mapped file.

    Raises:
        DataError: another shape or type, no row or column, or values that are not finite.
    """
    try:
        array = as_numpy(features)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} cannot be read as an array: {error}.") from error
    if array.ndim != 2 or 0 in array.shape:
        raise DataError(
            f"{name} have the shape {array.shape}: give one vector a row, (N, D); pool or flatten "
            f"maps first."
        )
    if array.dtype.kind not in "biuf":
        raise DataError(f"{name} hold {array.dtype}: give real numbers.")
    bad = [
        start + np.flatnonzero(~np.isfinite(chunk).all(axis=1)) for start, chunk in _chunks(array)
    ]
    rows = np.concatenate(bad)
    if len(rows):
        raise DataError(
            f"{name} hold NaN or infinity in {len(rows)} of {len(array)} rows ({some_of(rows)}): "
            f"look at these images and at the model's weights; half precision overflows at 65504."
        )
    return array


def prepare_features(features: NDArray[Any], *, normalize: bool) -> NDArray[np.float64]:
    """A C-contiguous float64 copy of ``features`` (N, D), its rows of unit length if wanted."""
    prepared = np.empty(features.shape, np.float64)
    for start, chunk in _chunks(features):
        # Of one layout, so that sums over a row round alike for any strides.
        rows = np.array(chunk, np.float64, order="C")
        prepared[start : start + len(chunk)] = unit_rows(rows) if normalize else rows
    return prepared


def unit_rows(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """``rows`` (N, D), each divided by its L2 norm; rows of zeros stay zeros."""
    # Scaled first, so that squares neither overflow nor vanish; by powers of two, which is exact.
    _, exponents = np.frexp(np.abs(rows).max(axis=1, keepdims=True))
    scaled = np.asarray(np.ldexp(rows, -exponents), np.float64)
    norms = np.linalg.norm(scaled, axis=1, keepdims=True)
    np.divide(scaled, norms, out=scaled, where=norms > 0)
    return scaled


def features_digest(features: NDArray[Any]) -> str:
    """``"sha256:..."`` over type, shape and values; the same for any strides."""
    digest = hashlib.sha256(f"{features.dtype.str} {features.shape}".encode())
    for _, chunk in _chunks(features):
        digest.update(np.ascontiguousarray(chunk).data)
    return f"sha256:{digest.hexdigest()}"


def _chunks(features: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    """Blocks of rows with the number of their first, small enough to be worked on in memory."""
    step = max(1, _CHUNK_BYTES // (8 * features.shape[1]))
    for start in range(0, len(features), step):
        yield start, features[start : start + step]
