"""Single values of a section of the settings, checked; faults are gathered, not raised.

Every ``read_*`` appends to ``faults`` what is wrong and returns a stand-in, so that one error can
name all faults of a section.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from assay.errors import nearest_names

__all__ = [
    "is_number",
    "is_whole",
    "list_items",
    "read_choice",
    "read_count",
    "read_flag",
    "read_whole_numbers",
    "with_defaults",
]


def with_defaults(
    section: Any, defaults: Mapping[str, Any], faults: list[str], *, name: str, prefix: str = ""
) -> dict[str, Any]:
    """The keys of ``defaults``, each with its value in ``section`` where that has one.

    Keys that ``defaults`` lacks are faults; ``name`` is the section's, ``prefix`` goes before keys.
    """
    if not isinstance(section, Mapping):
        faults.append(f"{name} is {section!r}: give a mapping")
        return dict(defaults)
    for key in [str(key) for key in section if key not in defaults]:
        known = [f"{prefix}{name}" for name in defaults]
        faults.append(f"{prefix}{key} is not a setting.{nearest_names(prefix + key, known)}")
    return {key: section.get(key, default) for key, default in defaults.items()}


def read_flag(values: Mapping[str, Any], key: str, faults: list[str]) -> bool:
    """A value that is true or false."""
    if not isinstance(values[key], bool | np.bool_):
        faults.append(f"{key} is {values[key]!r}: give true or false")
    return bool(values[key])


def read_choice(
    values: Mapping[str, Any], key: str, choices: tuple[str, ...], faults: list[str]
) -> Any:
    """A value that is one of ``choices``; in its stead the first of them."""
    if values[key] not in choices:
        faults.append(f"{key} is {values[key]!r}: give {' or '.join(choices)}")
        return choices[0]
    return values[key]


def read_count(values: Mapping[str, Any], key: str, minimum: int, faults: list[str]) -> int:
    """A whole number of at least ``minimum``; in its stead ``minimum``."""
    if not is_whole(values[key]) or values[key] < minimum:
        faults.append(f"{key} is {values[key]!r}: give a whole number of at least {minimum}")
        return minimum
    return int(values[key])


def list_items(value: Any) -> list[Any] | None:
    """The items of a list, tuple, array or configuration list; None for anything else."""
    if isinstance(value, np.ndarray):
        return list(value.tolist()) if value.ndim == 1 else None
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else None


def is_whole(value: Any) -> bool:
    """Whether it is an integer of Python or numpy; truth values are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether it is an integer or a float of Python or numpy."""
    return is_whole(value) or isinstance(value, float | np.floating)


def read_whole_numbers(
    values: Mapping[str, Any], key: str, minimum: int, faults: list[str]
) -> tuple[int, ...]:
    """One or more whole numbers of at least ``minimum``, none of them twice."""
    numbers = list_items(values[key])
    if not numbers or not all(is_whole(each) and each >= minimum for each in numbers):
        faults.append(
            f"{key} is {values[key]!r}: give a list of whole numbers of at least {minimum}"
        )
        return (minimum,)
    if len(set(numbers)) < len(numbers):
        faults.append(f"{key} is {values[key]!r}: name each number once")
    return tuple(int(each) for each in numbers)
