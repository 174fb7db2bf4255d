"""What neighbours vote (pure)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from assay.evaluate.metrics import precision_recall

__all__ = ["average_precisions", "count_votes", "vote_shares", "vote_weights"]


def vote_weights(similarities: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """(Q, k) the vote of each neighbour, that of the nearest being 1.

    The factor ``exp(-highest / temperature)`` is common to all of a query's votes, so it changes no
    ranking and no share; without it the votes of rows that are not of unit length would overflow.
    """
    return np.asarray(np.exp((similarities - similarities[:, :1]) / temperature))


def count_votes(
    classes: NDArray[np.int64], weights: NDArray[np.float64], num_classes: int
) -> NDArray[np.float64]:
    """(Q, num_classes) the sum of the weights (Q, k) of each class among ``classes`` (Q, k)."""
    cells = classes + num_classes * np.arange(len(classes))[:, np.newaxis]
    sums = np.bincount(cells.ravel(), weights.ravel(), minlength=len(classes) * num_classes)
    return np.asarray(sums.reshape(len(classes), num_classes), np.float64)


def vote_shares(
    labels: NDArray[np.int8], indices: NDArray[np.int64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(Q, C) the votes for each class over those for and against it; 0 where none is cast."""
    shape = (len(indices), labels.shape[1])
    votes_for, votes_cast = np.zeros(shape), np.zeros(shape)
    # Neighbour by neighbour: (Q, k, C) at once would be the largest array of all.
    for column, weight in zip(indices.T, weights.T, strict=True):
        their_labels = labels[column]
        votes_for += weight[:, np.newaxis] * (their_labels == 1)
        votes_cast += weight[:, np.newaxis] * (their_labels != -1)
    return np.divide(votes_for, votes_cast, out=np.zeros(shape), where=votes_cast > 0)


def average_precisions(targets: NDArray[np.int8], scores: NDArray[np.float64]) -> list[float]:
    """The interpolated AP of each class; ``targets`` (N, C) of {1, 0, -1}, ``scores`` (N, C)."""
    return [
        precision_recall(labels == 1, column, labels != -1).interpolated_ap
        for labels, column in zip(targets.T, scores.T, strict=True)
    ]
