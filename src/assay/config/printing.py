"""Settings for people, and for ``results.json``: plain data without secrets."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any

from assay.runtime.masking import masked

__all__ = ["print_cfg", "to_plain"]

# What OmegaConf reads as a float and PyYAML as text: 1e-3. Text of that form needs its quotes.
_BARE_EXPONENT = re.compile(r"^[-+]?(\d[\d_]*)(\.[\d_]*)?[eE][-+]?\d+$")


def print_cfg(cfg: Mapping[str, Any]) -> None:
    """Print a DictConfig, an AttrDict or any other mapping as YAML, secrets masked.

    What is printed for all settings (``config`` among them) is itself a file of settings that
    ``config=NAME`` may choose. Interpolations of a DictConfig are shown as they are written.
    """
    header = "# @package _global_\n" if "config" in cfg else ""
    print(header + _yaml_text(masked(_plain(cfg, resolve=False))), end="")


def to_plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """``config`` as what strict JSON can hold, secrets masked, interpolations resolved.

    Tuples are lists, paths text, keys text, NumPy's scalars Python's; NaN and infinities are the
    texts ``nan``, ``inf`` and ``-inf``; anything else is its ``str``. ``config`` stays as it is.
    """
    plain: dict[str, Any] = masked(_plain(config, resolve=True))
    return plain


def _plain(value: Any, *, resolve: bool) -> Any:
    if type(value).__module__.partition(".")[0] == "omegaconf":
        from omegaconf import OmegaConf

        value = OmegaConf.to_container(value, resolve=resolve)
    if isinstance(value, Mapping):
        return {str(key): _plain(item, resolve=resolve) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, resolve=resolve) for item in value]
    return _scalar(value)


def _scalar(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, str)):
        # Subclasses (an IntEnum, a numpy.str_) lose what JSON and YAML could not keep.
        return int(value) if isinstance(value, int) else str(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, PathLike):
        return fspath(value)
    if hasattr(value, "item") and hasattr(value, "dtype") and getattr(value, "ndim", None) == 0:
        return _scalar(value.item())
    return str(value)


def _yaml_text(data: dict[str, Any]) -> str:
    import yaml

    class Dumper(yaml.SafeDumper):  # type: ignore[misc]
        """Indents lists, writes the same list twice rather than an anchor, quotes ``1e-3``."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            super().increase_indent(flow, False)

    Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _BARE_EXPONENT, list("-+0123456789"))
    text: str = yaml.dump(
        data, Dumper=Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False
    )
    return text
