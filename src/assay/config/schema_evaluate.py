"""The sections about scores: linear SVMs, nearest neighbours, image retrieval."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from assay.config.rules import Above, AtLeast, FilePath, Finite, Length, NotEmpty, Pattern, Within

__all__ = ["ImageRetrieval", "NearestNeighbor", "Svm"]

Count = Annotated[int, AtLeast(1)]

# (loss, penalty, dual) for which LIBLINEAR has no solver.
_UNSOLVED = {
    ("hinge", "l2", False),
    ("hinge", "l1", False),
    ("hinge", "l1", True),
    ("squared_hinge", "l1", True),
}


LEAST_COST, MOST_COST = 1e-12, 1e12  # beyond, an SVM is a constant or all rounding
MOST_POWERS = 1000


@dataclass(frozen=True)
class SvmCosts:
    costs_list: list[Annotated[float, Within(LEAST_COST, MOST_COST)]]
    base: Annotated[float, Finite()]
    power_range: Annotated[list[int], Length(2)]

    @staticmethod
    def contradictions(section: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
        first, end = section["power_range"]
        if section["base"] > 0 and first >= end:
            yield (
                ("power_range", "base"),
                f"[{first}, {end}] is empty; give [FIRST, END] with END above FIRST, "
                f"or a base of at most 0, which adds no powers",
            )
        elif section["base"] > 0 and end - first > MOST_POWERS:
            yield (("power_range",), f"{end - first} costs are more than {MOST_POWERS}")
        elif section["base"] > 0 and not _powers_within(section["base"], first, end - 1):
            yield (
                ("power_range", "base"),
                f"base {section['base']:g} to the powers of [{first}, {end}] leaves the range of "
                f"costs, {LEAST_COST:g} to {MOST_COST:g}",
            )
        if section["base"] <= 0 and not section["costs_list"]:
            yield (
                ("costs_list", "base"),
                "no cost is left to try; list some, or give a base above 0",
            )


def _powers_within(base: float, first: int, last: int) -> bool:
    """Whether ``base**first`` and ``base**last`` are costs. (Logarithms do not overflow.)"""
    logarithm = math.log(base)
    ends = (first * logarithm, last * logarithm)
    slack = 1e-9  # for 10**12 itself
    return math.log(LEAST_COST) - slack <= min(ends) and max(ends) <= math.log(MOST_COST) + slack


@dataclass(frozen=True)
class SvmLowShot:
    dataset_name: Annotated[str, Pattern(r"voc|voc07|places.*", "voc, voc07 or places...")]
    sample_inds: Annotated[list[Annotated[int, AtLeast(0)]], NotEmpty()]
    k_values: Annotated[list[Count], NotEmpty()]


@dataclass(frozen=True)
class Svm:
    normalize: bool
    cls_list: list[Annotated[int, AtLeast(0)]]
    loss: Literal["squared_hinge", "hinge"]
    penalty: Literal["l2", "l1"]
    dual: bool
    max_iter: Count
    cross_val_folds: Annotated[int, AtLeast(2)]
    costs: SvmCosts
    ignore_label: Literal["negative", "drop"]
    force_retrain: bool
    low_shot: SvmLowShot

    @staticmethod
    def contradictions(section: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
        chosen = (section["loss"], section["penalty"], section["dual"])
        if chosen in _UNSOLVED:
            yield (
                ("loss", "penalty", "dual"),
                f"no solver has loss={chosen[0]} with penalty={chosen[1]} and "
                f"dual={str(chosen[2]).lower()}; take squared_hinge with l2, squared_hinge with l1 "
                f"and dual=false, or hinge with l2 and dual=true",
            )


@dataclass(frozen=True)
class NearestNeighbor:
    SIGMA: Annotated[float, Above(0), Finite()]
    TOPK: Count
    L2_NORM_FEATS: bool


@dataclass(frozen=True)
class ImageRetrieval:
    RESIZE_IMG: Count
    SPATIAL_LEVELS: Count
    N_PCA: Count
    DATASET_PATH: Annotated[str, FilePath()]
    TRAIN_DATASET_NAME: Annotated[str, NotEmpty()]
    EVAL_DATASET_NAME: Annotated[str, NotEmpty()]
    EVAL_BINARY_PATH: Annotated[str, FilePath()]
    TEMP_DIR: Annotated[str, FilePath()]
    SHOULD_TRAIN_PCA_OR_WHITENING: bool
    FEATS_PROCESSING_TYPE: Literal["", "rmac", "gem", "l2_norm"]
    GEM_POOL_POWER: Annotated[float, Above(0)]  # infinity is max pooling
    WHITEN_IMG_LIST: Annotated[str, FilePath()]
