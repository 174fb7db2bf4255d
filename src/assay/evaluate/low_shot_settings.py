"""The settings of low-shot training, checked once: all their faults in one error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.errors import ConfigError, nearest_names
from assay.evaluate.setting_values import read_whole_numbers, with_defaults

__all__ = ["LowShotSettings"]

_DEFAULTS: dict[str, Any] = {
    "dataset_name": "voc",
    "sample_inds": (1, 2, 3, 4, 5),
    "k_values": (1, 2, 4, 8, 16, 32, 64, 96),
}
_VOC_NAMES = ("voc", "voc07")


@dataclass(frozen=True)
class LowShotSettings:
    """What the section ``SVM.low_shot`` of the settings says."""

    dataset_name: str  # voc, voc07, or a name that starts with places
    sample_inds: tuple[int, ...]  # S independent samples, each index names one
    k_values: tuple[int, ...]  # positives a class

    @property
    def multi_label(self) -> bool:
        """Whether targets are one column a class (VOC) or one class id a row (Places)."""
        return self.dataset_name in _VOC_NAMES

    @classmethod
    def from_config(cls, section: Mapping[str, Any]) -> LowShotSettings:
        """Read the section; a key that is missing has its default.

        Raises:
            ConfigError: keys that are unknown, values that cannot be; one error names them all.
        """
        faults: list[str] = []
        values = with_defaults(section, _DEFAULTS, faults, name="low_shot", prefix="low_shot.")
        settings = cls(
            dataset_name=_dataset_name(values["dataset_name"], faults),
            sample_inds=read_whole_numbers(values, "sample_inds", 0, faults),
            k_values=read_whole_numbers(values, "k_values", 1, faults),
        )
        if faults:
            raise ConfigError("SVM.low_shot settings cannot be used:\n  - " + "\n  - ".join(faults))
        return settings


def _dataset_name(value: Any, faults: list[str]) -> str:
    if isinstance(value, str) and (value in _VOC_NAMES or value.startswith("places")):
        return value
    hint = nearest_names(value, (*_VOC_NAMES, "places", "places205")) if type(value) is str else ""
    faults.append(
        f"dataset_name is {value!r}: give voc or voc07 for targets of one column a class, or a "
        f"name that starts with places for one class id a row.{hint}"
    )
    return _VOC_NAMES[0]
