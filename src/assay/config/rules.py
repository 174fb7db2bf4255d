"""What a value may be, beyond its type: small rules that a schema puts on its fields."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

__all__ = [
    "MAY_BE_MISSING",
    "Above",
    "AtLeast",
    "FilePath",
    "Finite",
    "Length",
    "MayBeMissing",
    "MinusOneOrAtLeast",
    "NotEmpty",
    "Pattern",
    "PoolingEntry",
    "Rule",
    "Within",
]


def _shown(number: float) -> str:
    return f"{number:g}" if isinstance(number, float) else str(number)


@runtime_checkable
class Rule(Protocol):
    """A limit on values of a type.

    ``describe`` gets the words for the type alone ("a number") and returns those for the type
    under this rule ("a number above 0").
    """

    def accepts(self, value: Any) -> bool: ...

    def describe(self, noun: str) -> str: ...


@dataclass(frozen=True)
class AtLeast:
    minimum: float

    def accepts(self, value: Any) -> bool:
        return bool(value >= self.minimum)

    def describe(self, noun: str) -> str:
        return f"{noun} of at least {self.minimum:g}"


@dataclass(frozen=True)
class Above:
    limit: float

    def accepts(self, value: Any) -> bool:
        return bool(value > self.limit)

    def describe(self, noun: str) -> str:
        return f"{noun} above {self.limit:g}"


@dataclass(frozen=True)
class Within:
    """A closed range, or an open one."""

    minimum: float
    maximum: float
    open: bool = False

    def accepts(self, value: Any) -> bool:
        if self.open:
            return bool(self.minimum < value < self.maximum)
        return bool(self.minimum <= value <= self.maximum)

    def describe(self, noun: str) -> str:
        if self.open:
            return f"{noun} above {_shown(self.minimum)} and below {_shown(self.maximum)}"
        return f"{noun} from {_shown(self.minimum)} to {_shown(self.maximum)}"


@dataclass(frozen=True)
class MinusOneOrAtLeast:
    """-1 stands for "off" or "all"."""

    minimum: int

    def accepts(self, value: Any) -> bool:
        return bool(value == -1 or value >= self.minimum)

    def describe(self, noun: str) -> str:
        return f"-1 or {noun} of at least {self.minimum}"


@dataclass(frozen=True)
class Finite:
    """Neither NaN nor infinite."""

    def accepts(self, value: Any) -> bool:
        return isinstance(value, int) or math.isfinite(value)

    def describe(self, noun: str) -> str:
        return noun


@dataclass(frozen=True)
class Length:
    """A list of exactly so many items."""

    length: int

    def accepts(self, value: Any) -> bool:
        return len(value) == self.length

    def describe(self, noun: str) -> str:
        return noun.replace("a list", f"a list of {self.length}", 1)


@dataclass(frozen=True)
class NotEmpty:
    def accepts(self, value: Any) -> bool:
        return len(value) > 0

    def describe(self, noun: str) -> str:
        return f"{noun} that is not empty"


@dataclass(frozen=True)
class Pattern:
    """Text that a regular expression matches as a whole; ``words`` say for people what that is."""

    pattern: str
    words: str

    def accepts(self, value: Any) -> bool:
        return re.fullmatch(self.pattern, value) is not None

    def describe(self, noun: str) -> str:
        return self.words


@dataclass(frozen=True)
class FilePath:
    """Text that names a file or folder, relative to where the command was started.

    ``words`` are values that are no paths although they look like one.
    """

    words: tuple[str, ...] = ()
    required: bool = False

    def accepts(self, value: Any) -> bool:
        return bool(value) or not self.required

    def describe(self, noun: str) -> str:
        return "a path" if self.required else "a path, or empty text for none"


@dataclass(frozen=True)
class PoolingEntry:
    """``NAME``, ``NAME:POOL``, ``[NAME, POOL]`` or ``[NAME, [OPERATOR, ARGUMENTS]]``."""

    def accepts(self, value: Any) -> bool:
        if isinstance(value, str):
            return bool(value)
        if not isinstance(value, (list, tuple)) or len(value) not in (1, 2):
            return False
        name, pool = value[0], value[1] if len(value) == 2 else "avg"
        operator = pool[0] if isinstance(pool, (list, tuple)) and pool else pool
        return isinstance(name, str) and bool(name) and isinstance(operator, str) and bool(operator)

    def describe(self, noun: str) -> str:
        return "NAME, [NAME, POOL] or [NAME, [OPERATOR, ARGUMENTS]] of a layer"


@dataclass(frozen=True)
class MayBeMissing:
    """Marks a key that ``~key`` may take out."""


MAY_BE_MISSING = MayBeMissing()
