"""The schema as data: sections, keys and the words for what a value may be."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from assay.config.rules import FilePath, MayBeMissing, Rule
from assay.config.schema import Settings

__all__ = [
    "Field",
    "describe",
    "is_section",
    "known_keys",
    "path_keys",
    "section_fields",
    "setting_keys",
    "split_annotation",
    "union_members",
]


@dataclass(frozen=True)
class Field:
    """One key of a section."""

    key: str
    type: Any  # a type, a Literal, a section, or any of them in Annotated
    may_be_missing: bool


@cache
def section_fields(section: type) -> tuple[Field, ...]:
    """The keys of a section, in its order."""
    hints = get_type_hints(section, include_extras=True)
    return tuple(
        Field(
            field.name,
            hints[field.name],
            any(isinstance(mark, MayBeMissing) for mark in split_annotation(hints[field.name])[1]),
        )
        for field in fields(section)
    )


def split_annotation(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """``Annotated[T, a, b]`` -> ``T, (a, b)``; any other type -> itself and no marks."""
    if get_origin(annotation) is Annotated:
        plain, *marks = get_args(annotation)
        return plain, tuple(marks)
    return annotation, ()


def is_section(annotation: Any) -> bool:
    """Whether a field of this type is a section with keys of its own."""
    return is_dataclass(split_annotation(annotation)[0])


def union_members(annotation: Any) -> tuple[Any, ...]:
    """The alternatives of a union; any other type is its own only one."""
    if get_origin(annotation) in (Union, types.UnionType):
        return get_args(annotation)
    return (annotation,)


@cache
def setting_keys() -> tuple[str, ...]:
    """Every setting's full key (``config.SVM.max_iter``), sections left out, in schema order."""
    return tuple(key for key, field in _walk(Settings) if not is_section(field.type))


@cache
def known_keys() -> tuple[str, ...]:
    """Every full key, those of sections among them."""
    return tuple(key for key, _ in _walk(Settings))


@cache
def path_keys() -> dict[str, FilePath]:
    """The full keys whose values are paths, or lists of them, with what is known of these paths."""
    return {
        key: mark
        for key, field in _walk(Settings)
        for mark in _marks_within(field.type)
        if isinstance(mark, FilePath)
    }


def _walk(section: type, prefix: str = "") -> Iterator[tuple[str, Field]]:
    for field in section_fields(section):
        yield prefix + field.key, field
        if is_section(field.type):
            yield from _walk(split_annotation(field.type)[0], f"{prefix}{field.key}.")


def _marks_within(annotation: Any) -> Iterator[Any]:
    plain, marks = split_annotation(annotation)
    yield from marks
    if get_origin(plain) is list:
        yield from _marks_within(get_args(plain)[0])


_NOUNS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    type(None): "null",
    Any: "anything",
}


def describe(annotation: Any) -> str:
    """Words for what a value of this type may be.

    >>> describe(list[Literal["a", "b"]] | None)
    'a list, each item a or b; or null'
    """
    plain, marks = split_annotation(annotation)
    members = union_members(plain)
    if len(members) > 1:
        return _either([describe(member) for member in members])
    if get_origin(plain) is Literal:
        noun = _either([str(choice) or "''" for choice in get_args(plain)])
    elif get_origin(plain) is list:
        (item,) = get_args(plain)
        noun = "a list" if item is Any else f"a list, each item {describe(item)}"
    elif is_dataclass(plain):
        noun = "a section of keys"
    else:
        noun = _NOUNS[plain]
    for mark in marks:
        if isinstance(mark, Rule):
            noun = mark.describe(noun)
    return noun


def _either(words: list[str]) -> str:
    if len(words) == 1:
        return words[0]
    if any("," in word for word in words):
        return f"{'; '.join(words[:-1])}; or {words[-1]}"
    return f"{', '.join(words[:-1])} or {words[-1]}"
