"""Relative paths among the settings, made absolute."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.config.attrdict import AttrDict
from assay.config.lookup import read_value
from assay.config.rules import FilePath
from assay.config.schema_keys import path_keys

__all__ = ["checkpoint_folder", "is_web_address", "resolve_paths"]

_WEB = re.compile(r"https?://", re.IGNORECASE)
_URL = re.compile(r"[A-Za-z][\w+.-]*://")


def resolve_paths(config: Mapping[str, Any], start: Path) -> AttrDict:
    """A copy of the section ``config`` in which every path is absolute.

    Relative paths lie in ``start``, the folder where the command was started, and ``~`` is the
    user's home. Empty text, URLs and words that only look like paths (``random`` for weights)
    stay; so do keys that ``config`` lacks.
    """
    changed = AttrDict(AttrDict(config).to_dict())
    for key, kind in path_keys().items():
        *sections, name = key.removeprefix("config.").split(".")
        section: Any = changed
        for inner in sections:
            section = section.get(inner, {}) if isinstance(section, Mapping) else {}
        if isinstance(section, Mapping) and name in section:
            section[name] = _absolute(section[name], kind, start)  # type: ignore[index]
    return changed


def _absolute(value: Any, kind: FilePath, start: Path) -> Any:
    if isinstance(value, list):
        return [_absolute(item, kind, start) for item in value]
    if not isinstance(value, str) or not value or value in kind.words or _URL.match(value):
        return value
    return str(start / Path(value).expanduser())


def is_web_address(value: Any) -> bool:
    """Whether a setting is text that starts with http:// or https://, in any case."""
    return isinstance(value, str) and _WEB.match(value) is not None


def checkpoint_folder(config: Mapping[str, Any]) -> str:
    """The folder of a run's checkpoints as the settings say; nothing is made.

    ``CHECKPOINT.DIR``, where empty text is the current folder; with ``APPEND_DISTR_RUN_ID`` the
    sub-folder of it that is named as the run.
    """
    folder = read_value(config, "CHECKPOINT.DIR") or "."
    if not read_value(config, "CHECKPOINT.APPEND_DISTR_RUN_ID", False):
        return str(folder)
    return str(Path(folder) / str(read_value(config, "DISTRIBUTED.RUN_ID")))
