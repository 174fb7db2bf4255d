"""Seeded, stratified choices of images: a held-out part, or a smaller set."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from assay.errors import ConfigError, DataError
from assay.features.image_set import ImageSet, Subset

__all__ = ["limit_images", "split_images"]

Indices = npt.NDArray[np.int64]


def split_images(images: ImageSet, test_fraction: float, seed: int) -> tuple[Subset, Subset]:
    """A training part and a test part: together every image once, each in the order of ``images``.

    With one label an image, the test part holds ``round(N * test_fraction)`` images, shared among
    the classes in proportion to their sizes by largest remainder; every class of two images or more
    is in both parts, a class of one is in the training part, and these two rules come first. Which
    images of a class are chosen depends on the seed, the class id and the size of the class alone.

    With several labels an image, iterative stratification: the images of the rarest remaining label
    are dealt out first, each to the part that is furthest from its share of that label (Sechidis,
    Tsoumakas and Vlahavas, "On the stratification of multi-label data", 2011), while the sizes of
    the parts are kept exact.

    Raises:
        ConfigError: ``test_fraction`` is not between 0 and 1, or ``seed`` is negative.
        DataError: one of the parts would be empty.
    """
    if not 0 < test_fraction < 1:
        raise ConfigError(f"test_fraction is {test_fraction}; it must lie between 0 and 1.")
    if len(images) < 2:
        raise DataError(f"{images.source}: {len(images)} images cannot be split in two.")
    wanted = round(len(images) * test_fraction)
    if images.multi_label:
        test = _choose_multi_label(images.targets, wanted, _generator(seed))
    else:
        counts = _class_counts(images)
        at_least, at_most = np.minimum(counts // 2, 1), counts - 1
        test = _choose_per_class(images, _apportion(counts, wanted, at_least, at_most), seed)
    train = np.setdiff1d(np.arange(len(images)), test)
    for part, indices in (("training", train), ("test", test)):
        if not len(indices):
            raise DataError(
                f"{images.source}: {len(images)} images with a test fraction of {test_fraction} "
                f"leave the {part} part empty. Add images, or change the fraction."
            )
    return (
        Subset(images, train, f"{images.source} ({len(train)} to train)"),
        Subset(images, test, f"{images.source} ({len(test)} to test)"),
    )


def limit_images(images: ImageSet, limit: int, seed: int) -> ImageSet:
    """``limit`` images, in the order of ``images``, with the classes in proportion; -1 is all.

    Chosen as :func:`split_images` chooses a test part. Every class keeps at least one image, if
    there are not more classes than ``limit``.

    Raises:
        ConfigError: ``limit`` is neither -1 nor at least 1, or ``seed`` is negative.
    """
    if limit < 1 and limit != -1:
        raise ConfigError(f"A limit of {limit} images: give -1 for all, or at least 1.")
    if limit == -1 or limit >= len(images):
        return images
    if images.multi_label:
        chosen = _choose_multi_label(images.targets, limit, _generator(seed))
    else:
        counts = _class_counts(images)
        at_least = np.ones_like(counts) if limit >= len(counts) else np.zeros_like(counts)
        chosen = _choose_per_class(images, _apportion(counts, limit, at_least, counts), seed)
    return Subset(images, chosen)


def _class_counts(images: ImageSet) -> Indices:
    """(C,) images of each class that has any, in the order of the class ids."""
    return np.unique(images.targets[:, 0], return_counts=True)[1].astype(np.int64)


def _apportion(counts: Indices, wanted: int, at_least: Indices, at_most: Indices) -> Indices:
    """(C,) shares of ``wanted`` in proportion to ``counts``, by largest remainder, within bounds.

    Their sum is ``wanted``, or as close to it as the bounds allow. Ties go to the lower class id.
    All in integers: the remainder of a share is ``counts * wanted - share * counts.sum()``.
    """
    total = int(counts.sum())
    quotas = counts * wanted
    shares = np.clip(quotas // total, at_least, at_most)
    while shares.sum() < wanted and (shares < at_most).any():
        lack = np.where(shares < at_most, quotas - shares * total, np.iinfo(np.int64).min)
        shares[np.argmax(lack)] += 1
    while shares.sum() > wanted and (shares > at_least).any():
        lack = np.where(shares > at_least, quotas - shares * total, np.iinfo(np.int64).max)
        shares[np.argmin(lack)] -= 1
    return shares


def _choose_per_class(images: ImageSet, shares: Indices, seed: int) -> Indices:
    """Sorted indices of ``shares[c]`` images of each class that has any, in their order."""
    class_ids, counts = np.unique(images.targets[:, 0], return_counts=True)
    by_class = np.split(np.argsort(images.targets[:, 0], kind="stable"), np.cumsum(counts)[:-1])
    chosen = [
        _generator(seed, int(class_id)).permutation(members)[:share]
        for class_id, members, share in zip(class_ids, by_class, shares, strict=True)
    ]
    return np.sort(np.concatenate(chosen)).astype(np.int64)


def _choose_multi_label(
    targets: npt.NDArray[np.int64], wanted: int, generator: np.random.Generator
) -> Indices:
    """Sorted indices of ``wanted`` rows that hold their share of the positives of every label."""
    present = targets == 1
    free = np.ones(len(targets), bool)
    chosen = np.zeros(len(targets), bool)
    room = np.array([len(targets) - wanted, wanted])  # not chosen, chosen
    shares = room / len(targets)
    desired = np.outer(shares, present.sum(axis=0))  # (2, C) positives still wanted by each side
    while True:
        left = present[free].sum(axis=0)
        if not left.any():
            break
        label = int(np.argmin(np.where(left > 0, left, len(targets) + 1)))
        for row in generator.permutation(np.flatnonzero(free & present[:, label])):
            side = _needier(desired[:, label], room)
            chosen[row] = side == 1
            free[row] = False
            room[side] -= 1
            desired[side] -= present[row]
    unlabelled = generator.permutation(np.flatnonzero(free))
    chosen[unlabelled[: room[1]]] = True
    return np.flatnonzero(chosen).astype(np.int64)


def _needier(desired: npt.NDArray[np.float64], room: npt.NDArray[np.int64]) -> int:
    """The side, of those with room, that wants more of a label; then the one with more room."""
    if not room.all():
        return int(np.argmax(room))
    if desired[0] == desired[1]:
        return int(room[1] > room[0])
    return int(desired[1] > desired[0])


def _generator(seed: int, *stream: int) -> np.random.Generator:
    if seed < 0:
        raise ConfigError(f"The seed is {seed}; it must be 0 or more.")
    return np.random.default_rng([seed, *stream])
