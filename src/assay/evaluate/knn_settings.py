"""The settings of nearest neighbours, checked once: all their faults in one error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.errors import ConfigError
from assay.evaluate.setting_values import (
    is_number,
    is_whole,
    read_flag,
    read_whole_numbers,
    with_defaults,
)

__all__ = ["KNNSettings"]

_DEFAULTS: dict[str, Any] = {"SIGMA": 0.1, "TOPK": 200, "L2_NORM_FEATS": False}


@dataclass(frozen=True)
class KNNSettings:
    """How neighbours are found and weighed; the defaults are those of DINO and DINOv2."""

    k_values: tuple[int, ...] = (10, 20, 100, 200)  # how many neighbours vote, each on its own
    temperature: float = 0.07  # a neighbour's vote is exp(similarity / temperature)
    l2_norm: bool = True  # similarity is the cosine; without, the product of the rows as they are

    @classmethod
    def from_config(cls, section: Mapping[str, Any]) -> KNNSettings:
        """Read the section ``NEAREST_NEIGHBOR``; a key that is missing has the section's default.

        ``SIGMA`` is the temperature, ``TOPK`` one k or a list of them, ``L2_NORM_FEATS`` whether
        rows are scaled to unit length.

        Raises:
            ConfigError: keys that are unknown, values that cannot be; one error names them all.
        """
        faults: list[str] = []
        values = with_defaults(section, _DEFAULTS, faults, name="NEAREST_NEIGHBOR")
        sigma = values["SIGMA"]
        if not is_number(sigma) or not math.isfinite(sigma) or sigma <= 0:
            faults.append(f"SIGMA is {sigma!r}: give a number above 0")
            sigma = 1.0
        if is_whole(values["TOPK"]):
            values["TOPK"] = [values["TOPK"]]
        settings = cls(
            k_values=read_whole_numbers(values, "TOPK", 1, faults),
            temperature=float(sigma),
            l2_norm=read_flag(values, "L2_NORM_FEATS", faults),
        )
        if faults:
            raise ConfigError(
                "NEAREST_NEIGHBOR settings cannot be used:\n  - " + "\n  - ".join(faults)
            )
        return settings
