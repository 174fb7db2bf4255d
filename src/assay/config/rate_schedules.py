"""Schedules of the learning rate, scaled to a batch size. Plain values in, new dicts out.

A schedule is a dict with a ``name`` and the keys of that kind; a ``composite`` has ``schedulers``,
its parts, which are schedules themselves. The rule and the warm-up are those of Goyal et al.,
"Accurate, Large Minibatch SGD" (arXiv:1706.02677).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.errors import ConfigError, nearest_names

__all__ = [
    "RULES",
    "ResolvedSchedule",
    "has_warmup",
    "resolved_warmups",
    "scaled_rate",
    "scaled_schedule",
]

Schedule = Mapping[str, Any]

# How the rate grows with the size of a batch.
RULES = ("linear", "sqrt")

# What only some kinds of schedule have: a composite that becomes its last part leaves these behind.
_KEYS_OF_KINDS = (
    "values",
    "milestones",
    "schedulers",
    "interval_scaling",
    "lengths",
    "start_value",
    "end_value",
    "value",
    "base_value",
)


def scaled_rate(
    base_value: float,
    batch_size: int,
    base_batch_size: int,
    *,
    rule: str = "linear",
    where: str = "auto_lr_scaling",
) -> float:
    """The rate for ``batch_size``, where ``base_value`` is right for ``base_batch_size``.

    ``linear``: twice the batch, twice the rate (Goyal et al., 2017). ``sqrt``: four times the
    batch, twice the rate (Krizhevsky, "One weird trick", arXiv:1404.5997). ``where`` is the section
    of these values, for errors.

    >>> scaled_rate(0.1, 1024, 256), scaled_rate(0.1, 1024, 256, rule="sqrt")
    (0.4, 0.2)
    """
    if rule not in RULES:
        raise ConfigError(
            f"{where}.scaling_type: expected {' or '.join(RULES)}, given {rule!r}."
            f"{nearest_names(str(rule), RULES)}"
        )
    if rule == "sqrt":
        return base_value * math.sqrt(batch_size / base_batch_size)
    return batch_size * base_value / base_batch_size


def scaled_schedule(schedule: Schedule, rate: float, *, where: str = "schedule") -> dict[str, Any]:
    """A copy of ``schedule`` whose highest rate is ``rate`` and whose shape is the same.

    ======================= =======================================================================
    cosine                  ``start_value`` is the rate, ``end_value`` keeps its ratio to it
    multistep, step         ``values`` go down from the rate by the ratio of the first two
    step_with_fixed_gamma   ``base_value`` is the rate
    linear                  ``end_value`` is the rate
    inverse_sqrt            ``start_value`` is the rate
    constant                ``value`` is the rate
    composite               each part likewise, in the same order
    ======================= =======================================================================

    Args:
        schedule: stays as it is.
        rate: the scaled rate.
        where: the key of the schedule, for errors.

    Raises:
        ConfigError: an unknown name, a key that the kind of schedule needs and lacks, or a first
            rate of zero with a second one above it, so that there is no ratio to keep.
    """
    name = _read(schedule, "name", where)
    if name not in _SCALERS:
        raise ConfigError(
            f"{where}.name: expected one of {', '.join(_SCALERS)}, given {name!r}."
            f"{nearest_names(str(name), _SCALERS)}"
        )
    changed = copy.deepcopy(dict(schedule))
    changed.update(_SCALERS[name](schedule, float(rate), where))
    return changed


def _scaled_cosine(schedule: Schedule, rate: float, where: str) -> dict[str, Any]:
    start, end = _number(schedule, "start_value", where), _number(schedule, "end_value", where)
    return {"start_value": rate, "end_value": rate * _ratio(end, start, f"{where}.start_value")}


def _scaled_steps(schedule: Schedule, rate: float, where: str) -> dict[str, Any]:
    values = _list(schedule, "values", where)
    if not values:
        raise ConfigError(f"{where}.values: expected at least one rate, given an empty list.")
    numbers = [_as_number(value, f"{where}.values[{place}]") for place, value in enumerate(values)]
    gamma = _ratio(numbers[1], numbers[0], f"{where}.values[0]") if len(numbers) > 1 else 1.0
    try:
        return {"values": [rate * gamma**place for place in range(len(numbers))]}
    except OverflowError as error:
        raise ConfigError(
            f"{where}.values: each is {gamma:g} times the one before, which leaves all range."
        ) from error


def _scaled_composite(schedule: Schedule, rate: float, where: str) -> dict[str, Any]:
    return {
        "schedulers": [
            scaled_schedule(part, rate, where=part_where)
            for part, part_where in _parts(schedule, where)
        ]
    }


def _set_to_rate(key: str) -> Callable[[Schedule, float, str], dict[str, Any]]:
    return lambda _schedule, rate, _where: {key: rate}


_SCALERS: dict[str, Callable[[Schedule, float, str], dict[str, Any]]] = {
    "cosine": _scaled_cosine,
    "multistep": _scaled_steps,
    "step": _scaled_steps,
    "step_with_fixed_gamma": _set_to_rate("base_value"),
    "linear": _set_to_rate("end_value"),
    "inverse_sqrt": _set_to_rate("start_value"),
    "constant": _set_to_rate("value"),
    "composite": _scaled_composite,
}


@dataclass(frozen=True)
class ResolvedSchedule:
    """A schedule whose warm-ups were looked at."""

    schedule: dict[str, Any]
    notes: tuple[str, ...]  # a sentence for each warm-up that was taken out


def has_warmup(schedule: Schedule) -> bool:
    """Whether a linear schedule is among the parts of a composite, at any depth."""
    parts = schedule.get("schedulers") if schedule.get("name") == "composite" else None
    return any(part.get("name") == "linear" or has_warmup(part) for part in parts or ())


def resolved_warmups(
    schedule: Schedule, start_value: float, *, one_node: bool, where: str = "schedule"
) -> ResolvedSchedule:
    """A copy of a composite in which every linear part starts at ``start_value``.

    On one node a part that then has nowhere to climb (``start_value <= end_value``, the two being
    the same rate) is taken out, with its length and its interval scaling. What stays keeps its
    order, and the lengths of what stays fill the time of what went. A composite of which one part
    is left becomes that part; one of which none is left becomes constant at ``start_value``.

    Args:
        schedule: stays as it is. Of any other kind than composite it comes back alike.
        start_value: the rate for the batch of one node.
        one_node: whether the run has one node only.
        where: the key of the schedule, for errors and notes.

    Raises:
        ConfigError: ``schedulers`` is empty, ``lengths`` or ``interval_scaling`` has another number
            of entries, or a linear part lacks its ``end_value``.
    """
    changed = copy.deepcopy(dict(schedule))
    if schedule.get("name") != "composite":
        return ResolvedSchedule(changed, ())
    parts: list[dict[str, Any]] = []
    notes: list[str] = []
    for part, part_where in _parts(schedule, where):
        inner = resolved_warmups(part, start_value, one_node=one_node, where=part_where)
        if inner.schedule.get("name") == "linear":
            inner.schedule["start_value"] = start_value
        parts.append(inner.schedule)
        notes.extend(inner.notes)
    kept = [
        place
        for place, (part, (_, part_where)) in enumerate(
            zip(parts, _parts(schedule, where), strict=True)
        )
        if not (one_node and _is_useless(part, part_where))
    ]
    changed["schedulers"] = parts
    if len(kept) < len(parts):
        notes += [
            f"{where}.schedulers[{place}]: on one node the warm-up would start at {start_value:g}, "
            f"where it ends, so it is left out"
            for place in range(len(parts))
            if place not in kept
        ]
        changed = _without_parts(changed, kept, start_value, where)
    return ResolvedSchedule(changed, tuple(notes))


def _is_useless(part: Schedule, where: str) -> bool:
    if part.get("name") != "linear":
        return False
    start, end = part["start_value"], _number(part, "end_value", where)
    # A caller's own rounding of the same rate is no height to climb down from.
    return bool(start <= end or math.isclose(start, end))


def _without_parts(
    composite: dict[str, Any], kept: Sequence[int], rate: float, where: str
) -> dict[str, Any]:
    parts = composite["schedulers"]
    if len(kept) <= 1:
        last = parts[kept[0]] if kept else {"name": "constant", "value": rate}
        outer = {key: value for key, value in composite.items() if key not in _KEYS_OF_KINDS}
        return {**outer, **last}
    changed = {**composite, "schedulers": [parts[place] for place in kept]}
    for key in ("lengths", "interval_scaling"):
        entries = composite.get(key)
        if entries:
            changed[key] = [entries[place] for place in kept]
    if composite.get("lengths"):
        changed["lengths"] = _filling(changed["lengths"], math.fsum(composite["lengths"]))
    return changed


def _filling(lengths: Sequence[float], total: float) -> list[float]:
    """``lengths`` in their proportions, with the sum ``total``."""
    present = math.fsum(lengths)
    if present <= 0:
        return list(lengths)
    total = 1.0 if math.isclose(total, 1.0) else total
    stretched = [length * total / present for length in lengths[:-1]]
    # The last takes the rounding: schedulers ask for a sum of exactly 1.
    return [*stretched, total - sum(stretched)]


def _parts(schedule: Schedule, where: str) -> list[tuple[Schedule, str]]:
    """Each part of a composite with its key."""
    parts = _list(schedule, "schedulers", where)
    if not parts:
        raise ConfigError(f"{where}.schedulers: a composite needs parts, and there are none.")
    for key in ("lengths", "interval_scaling"):
        entries = schedule.get(key)
        if entries and len(entries) != len(parts):
            raise ConfigError(
                f"{where}.{key}: {len(entries)} entries for {len(parts)} schedulers; give one each."
            )
    for place, part in enumerate(parts):
        if not isinstance(part, Mapping):
            raise ConfigError(
                f"{where}.schedulers[{place}]: expected a section of keys, given {part!r}."
            )
    return [(part, f"{where}.schedulers[{place}]") for place, part in enumerate(parts)]


def _ratio(second: float, first: float, where: str) -> float:
    if second == 0:
        return 0.0
    if first == 0:
        raise ConfigError(
            f"{where}: the rates that follow keep their ratio to it, so 0 cannot be scaled; give a "
            f"rate above 0, or switch auto_lr_scaling.auto_scale off."
        )
    return second / first


def _read(schedule: Schedule, key: str, where: str) -> Any:
    if key not in schedule:
        kind = f" a {schedule['name']} schedule needs it," if "name" in schedule else ""
        raise ConfigError(f"{where}.{key}:{kind} and it is missing.")
    return schedule[key]


def _number(schedule: Schedule, key: str, where: str) -> float:
    return _as_number(_read(schedule, key, where), f"{where}.{key}")


def _as_number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ConfigError(f"{where}: expected a finite number, given {value!r}.")
    return float(value)


def _list(schedule: Schedule, key: str, where: str) -> Sequence[Any]:
    value = _read(schedule, key, where)
    if not isinstance(value, (list, tuple)):
        raise ConfigError(f"{where}.{key}: expected a list, given {value!r}.")
    return value
