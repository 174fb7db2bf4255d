"""Is a configuration one that the schema allows? All faults in one error."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

from assay.config.nearest import nearest_keys
from assay.config.origins import origin_of
from assay.config.resolving import AlreadyReported, resolved
from assay.config.rules import Rule
from assay.config.schema import Settings
from assay.config.schema_keys import (
    describe,
    is_section,
    section_fields,
    split_annotation,
    union_members,
)
from assay.errors import ConfigError, nearest_names
from assay.runtime.masking import MASK, is_secret, masked_text

__all__ = ["check", "find_faults", "raise_faults"]

_MISSING = "???"  # how OmegaConf writes a value that somebody still has to give


def check(cfg: Mapping[str, Any], origins: Mapping[str, str]) -> None:
    """Nothing, if every key is known and every value allowed.

    Args:
        cfg: the composed settings with VERSION, node_id, engine_name and config.
        origins: full key -> where its value comes from ("FILE:LINE", "override 'KEY=VALUE'").

    Raises:
        ConfigError: one error with every fault: its full key, what was expected, what was given,
            where that came from, and for an unknown key the nearest known ones.
    """
    raise_faults(find_faults(cfg, origins))


def raise_faults(faults: Sequence[str]) -> None:
    """One ConfigError for all ``faults``; nothing if there are none.

    Raises:
        ConfigError: there are faults.
    """
    if len(faults) == 1:
        raise ConfigError(faults[0])
    if faults:
        raise ConfigError(f"{len(faults)} settings are wrong:\n  - " + "\n  - ".join(faults))


def find_faults(cfg: Mapping[str, Any], origins: Mapping[str, str]) -> list[str]:
    """One sentence a fault; see :func:`check`."""
    values, faults = resolved(cfg, origins)
    return [*faults, *_section_faults(Settings, values, "", origins)]


def _section_faults(
    section: type, values: Any, prefix: str, origins: Mapping[str, str]
) -> Iterator[str]:
    if not isinstance(values, Mapping):
        key = prefix.rstrip(".")
        yield _wrong_value(key, "a section of keys", values, origins)
        return
    fields = {field.key: field for field in section_fields(section)}
    faults: list[str] = []
    for key, field in fields.items():
        if key in values:
            faults += _value_faults(field.type, values[key], prefix + key, origins)
        elif not field.may_be_missing:
            faults.append(_missing_key(prefix + key, describe(field.type), origins))
    if not getattr(section, "OPEN", False):
        for key in values:
            if key not in fields:
                faults.append(_unknown_key(f"{prefix}{key}", values[key], origins))
    if not faults and hasattr(section, "contradictions"):
        for keys, fault in section.contradictions(values):
            involved = dict.fromkeys(origin_of(prefix + key, origins) for key in keys)
            faults.append(f"{prefix}{keys[0]}: {fault}{''.join(involved)}.")
    yield from faults


def _value_faults(
    annotation: Any, value: Any, key: str, origins: Mapping[str, str]
) -> Iterator[str]:
    if isinstance(value, AlreadyReported):
        return
    if is_section(annotation):
        yield from _section_faults(split_annotation(annotation)[0], value, f"{key}.", origins)
        return
    item = _item_type(annotation)
    if item is not None and isinstance(value, (list, tuple)):
        # Items are looked at one by one, so that a fault names the item.
        faults = [
            fault
            for index, entry in enumerate(value)
            for fault in _value_faults(item, entry, f"{key}[{index}]", origins)
        ]
        if faults:
            yield from faults
            return
    if not _accepts(annotation, value):
        hint = _value_hint(annotation, value)
        yield _wrong_value(key, describe(annotation), value, origins, hint)


def _item_type(annotation: Any) -> Any:
    """What the items of a list are; None for anything but a list, and for a list within a union."""
    plain, _ = split_annotation(annotation)
    return get_args(plain)[0] if get_origin(plain) is list else None


def _accepts(annotation: Any, value: Any) -> bool:
    plain, marks = split_annotation(annotation)
    members = union_members(plain)
    if len(members) > 1:
        return any(_accepts(member, value) for member in members)
    return _has_type(plain, value) and all(
        mark.accepts(value) for mark in marks if isinstance(mark, Rule)
    )


def _has_type(plain: Any, value: Any) -> bool:
    if plain is Any:
        return True
    if get_origin(plain) is Literal:
        # By type as well: True is no 1.
        return any(type(value) is type(choice) and value == choice for choice in get_args(plain))
    if get_origin(plain) is list:
        (item,) = get_args(plain)
        return isinstance(value, (list, tuple)) and all(
            is_section(item) or _accepts(item, entry) for entry in value
        )
    if plain is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if plain is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, plain)


def _wrong_value(
    key: str, expected: str, value: Any, origins: Mapping[str, str], hint: str = ""
) -> str:
    if value == _MISSING:
        return (
            f"{key}: a value is needed, {expected}{origin_of(key, origins)}. Give it: {key}=VALUE."
        )
    given = MASK if is_secret(key) else _shown(value)
    return f"{key}: expected {expected}, given {given}{origin_of(key, origins)}.{hint}"


def _missing_key(key: str, expected: str, origins: Mapping[str, str]) -> str:
    return f"{key}: this key is missing{origin_of(key, origins)}: expected {expected}."


def _unknown_key(key: str, value: Any, origins: Mapping[str, str]) -> str:
    # A section that holds one value was most likely meant as the path to that value.
    while isinstance(value, Mapping) and len(value) == 1:
        ((inner, value),) = value.items()
        key = f"{key}.{inner}"
    where = origin_of(key, origins)
    if key == "config.config" or key.startswith("config.config."):
        return (
            f"{key}: a section config within config is unknown{where}. A file that starts at "
            f"`config:` has `# @package _global_` as its first line."
        )
    return f"{key}: there is no such setting{where}.{nearest_keys(key)}"


def _value_hint(annotation: Any, value: Any) -> str:
    plain, _ = split_annotation(annotation)
    if isinstance(value, str):
        choices = [
            choice
            for member in union_members(plain)
            if get_origin(split_annotation(member)[0]) is Literal
            for choice in get_args(split_annotation(member)[0])
        ]
        return nearest_names(value, [choice for choice in choices if isinstance(choice, str)])
    if plain is str and isinstance(value, (int, float)):
        return f' Write "{value}", with the quotes, to make it text.'
    return ""


def _shown(value: Any) -> str:
    """A value as YAML would write it on one line, cut where it gets long."""
    text = masked_text(json.dumps(value, default=str, ensure_ascii=False))
    text = {"NaN": ".nan", "Infinity": ".inf", "-Infinity": "-.inf"}.get(text, text)
    return text if len(text) <= 80 else f"{text[:77]}..."
