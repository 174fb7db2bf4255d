"""Few-image training sets: k positives a class, drawn by a seed (pure).

The two forms of Goyal et al., "Scaling and Benchmarking Self-Supervised Visual Representation
Learning" (2019): for images of several labels, as in VOC07, each class has its own k positives and
19 k negatives; for images of one label, as in Places205, k images of each class together make the
training set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import ConfigError, DataError
from assay.evaluate.arrays import some_of
from assay.evaluate.targets import LabelTable, read_targets

__all__ = ["LowShotSample", "draw_low_shot_sample"]

_IGNORED = -1


@dataclass(frozen=True)
class LowShotSample:
    """The rows of one small training set, and what they are labelled there."""

    sample_num: int
    low_shot_kvalue: int  # positives a class
    rows: NDArray[np.int64]  # (n,) sorted, unique: rows of the full training set
    targets: NDArray[np.int64]  # (n,) class ids; or (n, L) of {1, 0}, -1 = not drawn for the class
    classes_short_of_negatives: tuple[int, ...]  # these have all their negatives: fewer than wanted


def draw_low_shot_sample(
    targets: Any,
    sample_num: int,
    low_shot_kvalue: int,
    *,
    class_ids: Sequence[int] | None = None,
    negatives_per_positive: int = 19,
    seed: int = 0,
) -> LowShotSample:
    """Draw one sample, without replacement.

    Train on ``features[sample.rows]`` and ``sample.targets``.

    Samples of one ``sample_num`` are nested: the images of k = 1 are among those of k = 2, and so
    on, so that a curve against k grows one training set and does not hop between several. Samples
    of different ``sample_num`` are drawn independently of each other, and so are the classes of one
    sample; what is drawn for a class depends on its labels, the seed and the two numbers alone.
    Rows labelled -1 for a class are never drawn for it.

    Args:
        targets: N labels: (N,) or (N, 1) class ids, or (N, L) of {1, 0, -1}.
        sample_num: at least 0; each number names a sample.
        low_shot_kvalue: positives a class, at least 1.
        class_ids: classes to draw; None draws all. Other classes have no rows in the sample (one
            class id a row) or are labelled -1 in all of them (one column a class).
        negatives_per_positive: only for one column a class. Where a class has fewer negatives than
            that, it has all of them, and ``classes_short_of_negatives`` names it.
        seed: the same seed, numbers and labels draw the same rows.

    Raises:
        DataError: labels that cannot be used, or classes with fewer than k positives.
        ConfigError: a number out of range, or class ids that the labels lack.

    >>> sample = draw_low_shot_sample([7, 7, 9, 9, 9, -1], sample_num=1, low_shot_kvalue=2)
    >>> sample.targets.tolist()
    [7, 7, 9, 9]
    """
    for name, value, minimum in (
        ("sample_num", sample_num, 0),
        ("low_shot_kvalue", low_shot_kvalue, 1),
        ("negatives_per_positive", negatives_per_positive, 1),
        ("seed", seed, 0),
    ):
        if value < minimum:
            raise ConfigError(f"{name} is {value}: give a whole number of at least {minimum}.")
    labels = read_targets(targets)
    wanted = _wanted_classes(labels, class_ids)
    _check_positives(labels, wanted, low_shot_kvalue)
    sampler = _Sampler(labels, sample_num, low_shot_kvalue, seed)
    if labels.multi_label:
        return sampler.one_column_a_class(wanted, negatives_per_positive)
    return sampler.one_class_a_row(wanted)


@dataclass(frozen=True)
class _Sampler:
    labels: LabelTable
    sample_num: int
    kvalue: int
    seed: int

    def one_class_a_row(self, class_ids: Sequence[int]) -> LowShotSample:
        drawn = [self._draw(class_id, label=1, count=self.kvalue) for class_id in class_ids]
        rows = np.sort(np.concatenate(drawn))
        return LowShotSample(self.sample_num, self.kvalue, rows, self.labels.values[rows], ())

    def one_column_a_class(self, class_ids: Sequence[int], ratio: int) -> LowShotSample:
        targets = np.full_like(self.labels.values, _IGNORED)
        short = []
        for class_id in class_ids:
            targets[self._draw(class_id, label=1, count=self.kvalue), class_id] = 1
            negatives = self._draw(class_id, label=0, count=ratio * self.kvalue)
            targets[negatives, class_id] = 0
            if len(negatives) < ratio * self.kvalue:
                short.append(class_id)
        rows = np.flatnonzero((targets != _IGNORED).any(axis=1))
        return LowShotSample(self.sample_num, self.kvalue, rows, targets[rows], tuple(short))

    def _draw(self, class_id: int, *, label: int, count: int) -> NDArray[np.int64]:
        """The first ``count`` rows of a class and label in this sample's order; fewer if it has."""
        rows = np.flatnonzero(self.labels.column(class_id) == label)
        order = np.random.default_rng([self.seed, self.sample_num, class_id, label])
        return order.permutation(rows)[:count]


def _wanted_classes(labels: LabelTable, class_ids: Sequence[int] | None) -> tuple[int, ...]:
    wanted = labels.class_ids if class_ids is None else tuple(dict.fromkeys(class_ids))
    unknown = sorted(set(wanted) - set(labels.class_ids))
    if unknown:
        raise ConfigError(
            f"class_ids name classes that the targets lack: {some_of(unknown, 20)}. They have "
            f"{some_of(labels.class_ids, 20)}."
        )
    if not wanted:
        raise DataError("there is no class to draw: all rows are labelled -1, or none was asked.")
    return wanted


def _check_positives(labels: LabelTable, class_ids: Sequence[int], kvalue: int) -> None:
    counts = {class_id: int((labels.column(class_id) == 1).sum()) for class_id in class_ids}
    short = [f"{class_id} ({count})" for class_id, count in counts.items() if count < kvalue]
    if short:
        shown = ", ".join(short[:20]) + (f" and {len(short) - 20} more" if len(short) > 20 else "")
        raise DataError(
            f"k = {kvalue} needs as many positive rows of each class, but fewer are there of class "
            f"{shown}: leave k values above {min(counts.values())} out, or these classes."
        )
