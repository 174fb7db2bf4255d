"""The settings of SVM training, checked once: all their faults in one error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from assay.errors import ConfigError
from assay.evaluate.linear_svc import SolverOptions
from assay.evaluate.setting_values import (
    is_number,
    is_whole,
    list_items,
    read_choice,
    read_count,
    read_flag,
    with_defaults,
)

__all__ = ["IgnoreLabel", "SVMSettings"]

IgnoreLabel = Literal["negative", "drop"]

_DEFAULTS: dict[str, Any] = {
    "normalize": True,
    "cls_list": (),
    "loss": "squared_hinge",
    "penalty": "l2",
    "dual": True,
    "max_iter": 2000,
    "cross_val_folds": 3,
    "costs": {},
    "force_retrain": False,
    "low_shot": {},
}
_LEAST_COST, _MOST_COST = 1e-12, 1e12  # beyond, an SVM is a constant or all rounding
_MOST_POWERS = 1000
_COST_DEFAULTS: dict[str, Any] = {
    "costs_list": (0.1, 0.01),
    "base": -1.0,
    "power_range": (4, 20),
}
# (loss, penalty, dual) that have no solver.
_UNSOLVED = {
    ("hinge", "l2", False),
    ("hinge", "l1", False),
    ("hinge", "l1", True),
    ("squared_hinge", "l1", True),
}


@dataclass(frozen=True)
class SVMSettings:
    """What the section ``SVM`` of the settings says."""

    normalize: bool  # rows to unit length; rows of zeros stay
    cls_list: tuple[int, ...]  # class ids to train; () = all
    loss: str  # squared_hinge | hinge
    penalty: str  # l2 | l1
    dual: bool
    max_iter: int
    cross_val_folds: int  # 0 = none: nothing is said of the costs
    costs: tuple[float, ...]  # the user's, then the powers of a base; no cost twice
    force_retrain: bool  # train also what an earlier run has trained already
    ignore_label: IgnoreLabel  # what training rows labelled -1 are: negatives, or left out

    @property
    def solver_options(self) -> SolverOptions:
        """What the solver has to know of them."""
        return SolverOptions(self.loss, self.penalty, self.dual, self.max_iter)

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], *, ignore_label: IgnoreLabel = "negative"
    ) -> SVMSettings:
        """Read the section; a key that is missing has its default.

        ``costs.costs_list`` is continued by ``costs.base ** i`` for each i of
        ``range(*costs.power_range)`` if the base is above 0.

        Raises:
            ConfigError: keys that are unknown, values that cannot be; one error names them all.
        """
        faults: list[str] = []
        values = with_defaults(config, _DEFAULTS, faults, name="SVM")
        settings = cls(
            normalize=read_flag(values, "normalize", faults),
            cls_list=_class_ids(values["cls_list"], faults),
            loss=read_choice(values, "loss", ("squared_hinge", "hinge"), faults),
            penalty=read_choice(values, "penalty", ("l2", "l1"), faults),
            dual=read_flag(values, "dual", faults),
            max_iter=read_count(values, "max_iter", 1, faults),
            cross_val_folds=read_count(values, "cross_val_folds", 2, faults),
            costs=_costs(values["costs"], faults),
            force_retrain=read_flag(values, "force_retrain", faults),
            ignore_label=read_choice(
                {"ignore_label": ignore_label}, "ignore_label", ("negative", "drop"), faults
            ),
        )
        if (settings.loss, settings.penalty, settings.dual) in _UNSOLVED:
            faults.append(
                f"loss={settings.loss}, penalty={settings.penalty}, dual={settings.dual} has no "
                f"solver: take squared_hinge with l2 (dual true or false), squared_hinge with l1 "
                f"(dual=false), or hinge with l2 (dual=true)"
            )
        if faults:
            raise ConfigError("SVM settings cannot be used:\n  - " + "\n  - ".join(faults))
        return settings


def _class_ids(value: Any, faults: list[str]) -> tuple[int, ...]:
    ids = list_items(value)
    if ids is None or not all(is_whole(item) and item >= 0 for item in ids):
        faults.append(f"cls_list is {value!r}: give a list of class ids, or [] for all classes")
        return ()
    return tuple(dict.fromkeys(int(item) for item in ids))


def _costs(section: Any, faults: list[str]) -> tuple[float, ...]:
    values = with_defaults(section, _COST_DEFAULTS, faults, name="costs", prefix="costs.")
    listed = list_items(values["costs_list"])
    if listed is None or not all(is_number(item) for item in listed):
        faults.append(f"costs.costs_list is {values['costs_list']!r}: give a list of numbers")
        listed = [1.0]
    costs = [float(cost) for cost in listed] + _powers(values, faults)
    bad = [cost for cost in costs if not _LEAST_COST <= cost <= _MOST_COST]
    if bad:
        faults.append(
            f"costs {bad} are not usable: a cost is a number from {_LEAST_COST:g} to {_MOST_COST:g}"
        )
    if not costs:
        faults.append(
            "costs are empty: list some in costs.costs_list, or set costs.base above 0 and a "
            "costs.power_range"
        )
    return tuple(dict.fromkeys(costs))


def _powers(values: Mapping[str, Any], faults: list[str]) -> list[float]:
    """``base ** i`` over the range; none unless the base is above 0."""
    base, ends = values["base"], list_items(values["power_range"])
    if not is_number(base) or not math.isfinite(base):
        faults.append(f"costs.base is {base!r}: give a number; at most 0 adds no powers")
        return []
    if base <= 0:
        return []
    if ends is None or len(ends) != 2 or not all(is_whole(end) for end in ends):
        faults.append(
            f"costs.power_range is {values['power_range']!r}: give two whole numbers [first, end)"
        )
        return []
    if ends[0] >= ends[1]:
        faults.append(f"costs.power_range {list(ends)} is empty: its end must be above its first")
    if ends[1] - ends[0] > _MOST_POWERS:
        faults.append(f"costs.power_range {list(ends)} has more than {_MOST_POWERS} powers")
        return []
    try:
        return [float(base) ** int(power) for power in range(int(ends[0]), int(ends[1]))]
    except OverflowError:
        faults.append(f"costs.base {base:g} to a power of {list(ends)} is beyond a float")
        return []
