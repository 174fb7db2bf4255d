"""How a program is to be timed from outside: options, and the text that stands for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from assay.errors import ConfigError, nearest_names

__all__ = [
    "ACCEPTED",
    "EXPORTS",
    "TimeOptions",
    "format_options",
    "parse_exports",
    "parse_options",
]

EXPORTS = ("json", "csv", "trace")
_ON = ("1", "on", "yes", "true")
_OFF = ("0", "off", "no", "false")
_COMMA = re.compile(r"(?<!\\),")  # one with a backslash before it belongs to the value


@dataclass(frozen=True)
class TimeOptions:
    """What is measured, and what becomes of it."""

    warmup: int = 0  # iterations that are not measured
    print_every: int | None = None  # print the table each time that so many more were measured
    sync: bool = False  # wait for the accelerator at each start and end
    events: bool = False  # mark starts and ends on the accelerator's stream
    nvtx: bool = False  # open NVTX ranges as well
    cpu_usage: str | None = None  # the name during which the load of the CPU is taken
    export: tuple[str, ...] = EXPORTS
    report: bool = True  # draw the page
    quiet: bool = False  # say nothing at the end
    out: Path = Path("runs/time")


def parse_options(text: str) -> TimeOptions | None:
    """The options that a text such as ``warmup=10,sync=1`` stands for; None: do not measure.

    ``1`` (``on``, ``yes``, ``true``) measures with the defaults, ``0`` (``off``, ``no``, ``false``)
    or nothing does not. A comma within a value has a backslash before it.

    >>> parse_options("warmup=10,out=runs/a").warmup
    10
    >>> parse_options("0") is None
    True

    Raises:
        ConfigError: it cannot be understood; says what can.
    """
    word = text.strip().lower()
    if not word or word in _OFF:
        return None
    if word in _ON:
        return TimeOptions()
    values: dict[str, Any] = {}
    for part in _COMMA.split(text):
        key, equals, value = part.partition("=")
        key = key.strip().replace("-", "_")
        if key not in _READERS:
            hint = nearest_names(key, _READERS)
            raise ConfigError(f"{part.strip()!r} is no option.{hint} {ACCEPTED}")
        if not equals:
            raise ConfigError(f"{part.strip()!r} lacks its value: {key}=... {ACCEPTED}")
        try:
            values[key] = _READERS[key](value.replace(r"\,", ","))
        except ValueError as error:
            raise ConfigError(f"{part.strip()!r}: {error}. {ACCEPTED}") from error
    return TimeOptions(**values)


def format_options(options: TimeOptions) -> str:
    """The text for which :func:`parse_options` gives ``options``."""
    parts = []
    for field in fields(options):
        value = getattr(options, field.name)
        if value is None:
            continue
        if isinstance(value, bool):
            value = int(value)
        elif isinstance(value, tuple):
            value = "+".join(value) or "none"
        parts.append(f"{field.name}=" + str(value).replace(",", r"\,"))
    return ",".join(parts)


def parse_exports(text: str) -> tuple[str, ...]:
    """The kinds of files that ``json,csv`` (or ``json+csv``) names, in our order.

    Raises:
        ValueError: there is no such kind.
    """
    names = {name.strip().lower() for name in re.split(r"[,+]", text)} - {""}
    if names == {"none"}:
        return ()
    unknown = sorted(names - set(EXPORTS))
    if unknown or not names:
        raise ValueError(f"exports are some of {', '.join(EXPORTS)}, or none; not {text!r}")
    return tuple(name for name in EXPORTS if name in names)


def _flag(text: str) -> bool:
    word = text.strip().lower()
    if word not in (*_ON, *_OFF):
        raise ValueError("has to be 1 or 0")
    return word in _ON


def _whole(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.strip().isdecimal() and int(text) >= least):
            raise ValueError(f"has to be a whole number of {least} or more")
        return int(text)

    return read


def _path(text: str) -> Path:
    if not text.strip() or "\0" in text:
        raise ValueError("has to name a folder")
    return Path(text)


_READERS: Mapping[str, Callable[[str], Any]] = {
    "warmup": _whole(0),
    "print_every": _whole(1),
    "sync": _flag,
    "events": _flag,
    "nvtx": _flag,
    "cpu_usage": str,
    "export": parse_exports,
    "report": _flag,
    "quiet": _flag,
    "out": _path,
}
ACCEPTED = (
    "Accepted are 1, 0, or a list such as warmup=10,print_every=100,sync=0,out=runs/time of "
    f"{', '.join(_READERS)}."
)
