"""Interpolations (``${other.key}``) worked out, each that fails named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.config.origins import origin_of

__all__ = ["AlreadyReported", "resolved"]


class AlreadyReported:
    """Stands for a value whose fault was found before the check, which passes over it."""


def resolved(
    cfg: Mapping[str, Any], origins: Mapping[str, str]
) -> tuple[dict[str, Any], list[str]]:
    """Plain data in which every interpolation is worked out, and a sentence for each that fails.

    Only a DictConfig has interpolations; any other mapping comes back as it is. Where one fails
    stands an :class:`AlreadyReported`; where a value has yet to be given, ``???``.
    """
    faults: list[str] = []
    return _plain(cfg, "", origins, faults), faults


def _plain(node: Any, path: str, origins: Mapping[str, str], faults: list[str]) -> Any:
    from omegaconf import DictConfig, ListConfig

    if isinstance(node, DictConfig):
        return {
            key: _item(node, key, f"{path}.{key!s}" if path else str(key), origins, faults)
            for key in node
        }
    if isinstance(node, ListConfig):
        return [
            _item(node, index, f"{path}[{index}]", origins, faults) for index in range(len(node))
        ]
    return node


def _item(holder: Any, key: Any, path: str, origins: Mapping[str, str], faults: list[str]) -> Any:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    if OmegaConf.is_missing(holder, key):
        return "???"
    try:
        value = holder[key]
    except (OmegaConfBaseException, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        faults.append(f"{path}: {reason}{origin_of(path, origins)}.")
        return AlreadyReported()
    return _plain(value, path, origins, faults)
