"""A composed configuration -> AttrDicts, as the contract's callers want it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from assay._optional import is_available, require
from assay.config.attrdict import AttrDict
from assay.config.checks import find_faults, raise_faults
from assay.config.infer import assert_hydra_conf
from assay.config.origins import Origins, origin_of
from assay.config.overrides import apply_overrides, parse_overrides
from assay.config.resolving import resolved
from assay.config.schema import SUPPORTED_VERSION
from assay.errors import ConfigError

if TYPE_CHECKING:
    from omegaconf import DictConfig

__all__ = ["convert_to_attrdict", "is_hydra_available"]


def is_hydra_available() -> bool:
    """Whether Hydra is installed and its import works."""
    return is_available("hydra")


def convert_to_attrdict(
    cfg: DictConfig | Mapping[str, Any],
    cmdline_args: Sequence[Any] | None = None,
    *,
    infer: bool = True,
) -> tuple[AttrDict, AttrDict]:
    """All settings as AttrDicts, and their section ``config``, which is a part of the former.

    ``cmdline_args`` are merged first, with the grammar of overrides (``key=value``, ``+key=value``,
    ``~key``), and interpolations worked out. ``cfg`` stays as it is. What satisfied the schema
    before ``cmdline_args`` has to satisfy it after them; other configurations, of a program that
    has keys of its own, are taken as they are.

    Then values that follow from others are inferred, as training programs expect:
    :func:`~assay.config.infer.assert_hydra_conf` says which. ``infer=False`` leaves that out.

    Returns:
        (cfg, config), and ``cfg.config is config``.

    Raises:
        ConfigError: VERSION is missing or not one that is supported, there is no section
            ``config``, ``cmdline_args`` or interpolations cannot be followed, or settings
            contradict each other where one is inferred from another.
        ModelError: weights that are named by an address on the web cannot be fetched.
    """
    require("omegaconf", extra="evaluate", purpose="convert settings")
    from omegaconf import DictConfig, OmegaConf

    whole = cfg if isinstance(cfg, DictConfig) else OmegaConf.create(_plain(cfg))
    parsed, faults = parse_overrides([str(argument) for argument in cmdline_args or ()])
    changed, origins, more = apply_overrides(whole, parsed, Origins())
    values, unresolved = resolved(changed, origins)
    is_ours = bool(parsed) and not find_faults(whole, {})
    find = find_faults if is_ours else _layout_faults
    raise_faults([*faults, *more, *unresolved, *find(values, origins)])
    converted = AttrDict(values)
    if infer:
        assert_hydra_conf(converted["config"])
    return converted, converted["config"]


def _plain(cfg: Any) -> dict[str, Any]:
    if not isinstance(cfg, Mapping):
        raise ConfigError(
            f"Settings are a DictConfig or another mapping; given was a {type(cfg).__name__}."
        )
    return AttrDict(cfg).to_dict()


def _layout_faults(values: Mapping[str, Any], origins: Mapping[str, str]) -> list[str]:
    faults = []
    version = values.get("VERSION")
    if type(version) is not int or version != SUPPORTED_VERSION:
        given = repr(version) if "VERSION" in values else "nothing"
        faults.append(
            f"VERSION: expected {SUPPORTED_VERSION}, the version of settings that is read here, "
            f"given {given}{origin_of('VERSION', origins)}."
        )
    if not isinstance(values.get("config"), Mapping):
        faults.append(
            f"config: expected a section of keys{origin_of('config', origins)}. Files of settings "
            f"are chosen by config=NAME where settings are composed, not here."
        )
    return faults
