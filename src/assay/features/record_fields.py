"""Fields of a JSON record that may have been damaged: of their type and range, or an error."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

__all__ = ["read_count", "read_flag", "read_list", "read_section", "read_text"]


def read_count(record: Mapping[str, Any], key: str, most: int = sys.maxsize) -> int:
    """A whole number of 0 to ``most``.

    Raises:
        ValueError: the key is missing, or its value is anything else.
    """
    value = _value(record, key)
    if type(value) is not int or not 0 <= value <= most:
        limit = f" up to {most}" if most < sys.maxsize else ""
        raise _wrong(key, value, f"a whole number{limit}")
    return value


def read_flag(record: Mapping[str, Any], key: str) -> bool:
    """True or false.

    Raises:
        ValueError: the key is missing, or its value is anything else.
    """
    value = _value(record, key)
    if not isinstance(value, bool):
        raise _wrong(key, value, "true or false")
    return value


def read_text(record: Mapping[str, Any], key: str) -> str:
    """Text.

    Raises:
        ValueError: the key is missing, or its value is anything else.
    """
    value = _value(record, key)
    if not isinstance(value, str):
        raise _wrong(key, value, "text")
    return value


def read_section(record: Mapping[str, Any], key: str) -> dict[str, Any]:
    """A section of keys.

    Raises:
        ValueError: the key is missing, or its value is anything else.
    """
    value = _value(record, key)
    if not isinstance(value, dict):
        raise _wrong(key, value, "a section of keys")
    return value


def read_list(record: Mapping[str, Any], key: str, items: type) -> list[Any]:
    """A list whose items are all of the type ``items``, where True is no ``int``.

    Raises:
        ValueError: the key is missing, or its value is anything else.
    """
    value = _value(record, key)
    if not isinstance(value, list) or not all(type(item) is items for item in value):
        raise _wrong(key, value, f"a list of {items.__name__}")
    return value


def _value(record: Mapping[str, Any], key: str) -> Any:
    if key not in record:
        raise ValueError(f"it has no {key}")
    return record[key]


def _wrong(key: str, value: Any, wanted: str) -> ValueError:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    return ValueError(f"{key} is {shown}, not {wanted}")
