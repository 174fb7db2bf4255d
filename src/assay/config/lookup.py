"""Values of the section ``config`` by their dotted keys: read with a check, set in place."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from assay.errors import ConfigError

__all__ = [
    "BatchSizes",
    "Inferred",
    "batch_sizes",
    "collected_in",
    "merged_changes",
    "read_count",
    "read_number",
    "read_value",
    "set_values",
]


@dataclass(frozen=True)
class Inferred:
    """What follows from the rest of a configuration."""

    changes: dict[str, Any] = field(default_factory=dict)  # dotted key within config -> new value
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # sentences for the log


@dataclass(frozen=True)
class BatchSizes:
    """Images in a step of training: of a process, of a machine and of all."""

    per_replica: int
    num_proc_per_node: int
    num_nodes: int

    @property
    def world_size(self) -> int:
        return self.num_nodes * self.num_proc_per_node

    @property
    def per_node(self) -> int:
        return self.per_replica * self.num_proc_per_node

    @property
    def all_nodes(self) -> int:
        return self.per_node * self.num_nodes


def batch_sizes(config: Mapping[str, Any]) -> BatchSizes:
    """The batch sizes that the settings say.

    Raises:
        ConfigError: one of the three settings is missing or no whole number from 1.
    """
    return BatchSizes(
        per_replica=read_count(config, "DATA.TRAIN.BATCHSIZE_PER_REPLICA"),
        num_proc_per_node=read_count(config, "DISTRIBUTED.NUM_PROC_PER_NODE"),
        num_nodes=read_count(config, "DISTRIBUTED.NUM_NODES"),
    )


_NO_DEFAULT: Any = object()


def read_value(
    config: Mapping[str, Any], key: str, default: Any = _NO_DEFAULT, *, section: str = "config"
) -> Any:
    """The value of a dotted key, or ``default`` where the key or a section above it is missing.

    ``section`` is what ``config`` is called in errors.

    Raises:
        ConfigError: it is missing and there is no default.
    """
    value: Any = config
    for name in key.split("."):
        if not isinstance(value, Mapping) or name not in value:
            if default is _NO_DEFAULT:
                raise ConfigError(f"{section}.{key}: this key is needed, and it is missing.")
            return default
        value = value[name]
    return value


def read_count(
    config: Mapping[str, Any], key: str, *, minimum: int = 1, section: str = "config"
) -> int:
    """A whole number from ``minimum``.

    Raises:
        ConfigError: it is missing or anything else.
    """
    value = read_value(config, key, section=section)
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ConfigError(
            f"{section}.{key}: expected a whole number of at least {minimum}, given {value!r}."
        )
    return value


def read_number(config: Mapping[str, Any], key: str, *, section: str = "config") -> float:
    """A finite number.

    Raises:
        ConfigError: it is missing or anything else.
    """
    value = read_value(config, key, section=section)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ConfigError(f"{section}.{key}: expected a finite number, given {value!r}.")
    return float(value)


def set_values(config: Any, changes: Mapping[str, Any]) -> None:
    """Set dotted keys in place; sections that are missing on the way are made."""
    for key, value in changes.items():
        *sections, name = key.split(".")
        section = config
        for inner in sections:
            if inner not in section:
                section[inner] = {}
            section = section[inner]
        section[name] = value


def merged_changes(parts: Iterable[Inferred]) -> Inferred:
    """Several inferences as one: a later change of a key wins, faults come once each."""
    changes: dict[str, Any] = {}
    faults: dict[str, None] = {}
    notes: list[str] = []
    for part in parts:
        changes.update(part.changes)
        faults.update(dict.fromkeys(part.faults))
        notes += part.notes
    return Inferred(changes, tuple(faults), tuple(notes))


@contextmanager
def collected_in(faults: list[str]) -> Iterator[None]:
    """Within the block a ConfigError ends it and becomes one of ``faults``."""
    try:
        yield
    except ConfigError as error:
        faults.append(str(error))
