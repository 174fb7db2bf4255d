"""How features are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from assay.errors import ConfigError

__all__ = ["ExtractOptions", "Precision"]

Precision = Literal["bf16", "fp16"]


@dataclass(frozen=True, kw_only=True)
class ExtractOptions:
    """How features are computed.

    Raises:
        ConfigError: a value is out of range.
    """

    batch_size: int = 64  # images loaded together; the most that a forward pass takes
    num_workers: int = 2  # processes that load images; 0: this one does
    device: str = "auto"  # "auto", "cpu", "gpu", or PyTorch's name: "cuda", "cuda:1", "mps"
    amp: Precision | None = None  # autocast to "bf16" or "fp16"; features are float32 all the same
    channels_last: bool | Literal["auto"] = "auto"  # "auto": if the model has 2-D convolutions
    bad_images: Literal["error", "skip"] = "error"  # what to do with images that cannot be read
    num_threads: int | None = None  # passes at once on a CPU; None: PyTorch's number of threads
    # How much work a kill may cost; more on a slow disk, so that no more than a twentieth of the
    # time goes into syncing. 0: one batch, whatever it takes.
    record_every_s: float = 2.0

    def __post_init__(self) -> None:
        faults = [
            *_out_of_range("batch_size", self.batch_size, 1),
            *_out_of_range("num_workers", self.num_workers, 0),
            *_out_of_range("num_threads", 1 if self.num_threads is None else self.num_threads, 1),
            *_out_of_range("record_every_s", self.record_every_s, 0),
            *_not_one_of("amp", self.amp, (None, "bf16", "fp16")),
            *_not_one_of("channels_last", self.channels_last, (True, False, "auto")),
            *_not_one_of("bad_images", self.bad_images, ("error", "skip")),
        ]
        if faults:
            raise ConfigError("\n".join(faults))


def _out_of_range(name: str, value: float, lowest: int) -> list[str]:
    return [] if value >= lowest else [f"{name} is {value}; it must be {lowest} or more."]


def _not_one_of(name: str, value: object, allowed: Sequence[object]) -> list[str]:
    if value in allowed:
        return []
    return [f"{name} is {value!r}; it must be one of {', '.join(map(repr, allowed))}."]
