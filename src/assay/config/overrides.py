"""Hydra's override grammar applied to a composed configuration."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from assay.config.nearest import nearest_keys
from assay.config.origins import Origins
from assay.runtime.masking import masked_text

if TYPE_CHECKING:
    from omegaconf import DictConfig

__all__ = ["apply_overrides", "parse_overrides", "where"]


def parse_overrides(lines: Sequence[str]) -> tuple[list[Any], list[str]]:
    """Hydra's ``Override`` objects of the lines that it can read, and a sentence for each other."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    parser = OverridesParser.create()
    parsed, faults = [], []
    for line in lines:
        try:
            # The plural form is the one whose errors are worded for people.
            (override,) = parser.parse_overrides([line])
        except HydraException as error:
            faults.append(_unreadable(line, str(error)))
            continue
        if override.is_sweep_override():
            faults.append(
                f"{where(line)}: gives several values for {override.key_or_group}, and one run "
                f"takes one. A list is written [A,B]; text with a comma stands in quotes."
            )
        elif re.match(r"hydra\b", override.key_or_group):
            faults.append(
                f"{where(line)}: Hydra's own settings have no effect here. Folders of settings are "
                f"added by --config-dir."
            )
        else:
            parsed.append(override)
    return parsed, faults


def apply_overrides(
    cfg: DictConfig, overrides: Sequence[Any], origins: Origins
) -> tuple[DictConfig, Origins, list[str]]:
    """A changed copy of ``cfg``, its origins, and a sentence for each override that fails.

    ``key=value`` and ``++key=value`` set a key, ``+key=value`` adds one that is not there, and
    ``~key`` takes one out. A key that the schema does not know is set all the same: the check of
    the whole finds it, with all other faults.
    """
    from copy import deepcopy

    changed, known, faults = deepcopy(cfg), Origins(origins), []
    for override in overrides:
        fault = _apply(changed, override, known)
        if fault:
            faults.append(f"{where(override.input_line)}: {fault}")
    return changed, known, faults


def where(line: str) -> str:
    """How an override is named as the origin of a value, secrets masked."""
    return f"override '{masked_text(line)}'"


def _apply(cfg: DictConfig, override: Any, origins: Origins) -> str:
    """Change ``cfg`` and ``origins`` in place; the fault if that is not possible."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    key, value = override.key_or_group, override.value()
    if override.package is not None or "/" in key:
        return f"there is no group of settings {key!r} to choose from."
    plain = OmegaConf.to_container(cfg, resolve=False)
    there, now, path = _look_up(plain, key)
    if override.is_delete():
        if not there:
            return f"{key} is not there to take out.{nearest_keys(key)}"
        if value is not None and value != now:
            return f"{key} has another value, so it stays: write ~{key} to take it out."
        return _delete(cfg, key, path, override.input_line, origins)
    if override.is_add() and there and now is not None and not isinstance(value, (dict, list)):
        return f"{key} is there already: write {override.input_line[1:]} to change it."
    try:
        OmegaConf.update(cfg, key, value, merge=True, force_add=True)
    except (OmegaConfBaseException, ValueError, TypeError) as error:
        return f"{key} cannot be set so: {_first_line(error)}."
    origins.set(path, value, where(override.input_line))
    return ""


def _delete(cfg: DictConfig, key: str, path: str, line: str, origins: Origins) -> str:
    from omegaconf import OmegaConf, open_dict

    section, _, name = key.rpartition(".")
    holder: Any = OmegaConf.select(cfg, section) if section else cfg
    if OmegaConf.is_list(holder):
        return f"{key} is an item of a list: give the list that should be there instead."
    with open_dict(cfg):
        del holder[name]
    origins.replace(path, where(line))
    return ""


def _look_up(data: Any, key: str) -> tuple[bool, Any, str]:
    """Whether ``key`` is there, its value, and its path with list indices in brackets."""
    path, there = "", True
    for name in key.split("."):
        if isinstance(data, list) and name.isdecimal():
            path += f"[{name}]"
            there = int(name) < len(data)
            data = data[int(name)] if there else None
        else:
            path += f".{name}" if path else name
            there = isinstance(data, dict) and name in data
            data = data[name] if there else None
    return there, data, path


def _unreadable(line: str, message: str) -> str:
    if "=" not in line and not line.startswith("~"):
        return f"{where(line)}: write KEY=VALUE, or ~KEY to take a key out."
    reason = message.splitlines()[0].removeprefix(f"Error parsing override '{line}'").strip()
    reason = f" ({reason})" if reason else ""
    return (
        f"{where(line)}: cannot be read{reason}. Write KEY=VALUE; a VALUE with any of = , : {{ }} "
        f"[ ] ( ) or quotes that is text stands in quotes: 'KEY=\"VALUE\"'."
    )


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
