"""Flags of a command -> Hydra overrides."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["overrides_from_flags", "quote"]


def overrides_from_flags(keys: Mapping[str, Sequence[str]], flags: Mapping[str, Any]) -> list[str]:
    """``KEY=VALUE`` for each key of each flag that was given.

    A flag that was not given is ``None``, ``False`` or an empty tuple.

    >>> overrides_from_flags({"out": ["config.OUT"], "n": ["a", "b"]}, {"out": "it's", "n": 0})
    ["config.OUT='it\\\\'s'", 'a=0', 'b=0']
    """
    return [
        f"{key}={quote(value)}"
        for flag, value in flags.items()
        if value is not None and value is not False and value != ()
        for key in keys[flag]
    ]


def quote(value: Any) -> str:
    """``value`` in Hydra's override grammar; text is quoted, whatever stands in it.

    >>> quote(["a,b", 1, True])
    "['a,b',1,true]"
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(quote(item) for item in value) + "]"
    if isinstance(value, str):
        # A backslash is literal in the grammar, save in a run that ends at a quote.
        escaped = re.sub(r"(\\*)('|\Z)", lambda run: run[1] * 2 + run[2].replace("'", "\\'"), value)
        return f"'{escaped}'"
    return str(value)
