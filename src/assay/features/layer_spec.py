"""Which layer of a model, and how its output becomes a vector."""

from __future__ import annotations

from dataclasses import dataclass

from assay.errors import ConfigError

__all__ = ["LayerSpec"]

_POOLS = ("avg", "max", "gem:P", "cls", "flatten", "none")


@dataclass(frozen=True)
class LayerSpec:
    """A layer, and how its output becomes one vector an image.

    ======== ============================ ===================== ================
    pool     feature maps (N, C, H, W)    tokens (N, T, C)      vectors (N, C)
    ======== ============================ ===================== ================
    avg      mean over H and W: C         mean over tokens: C   as they are
    max      maximum over H and W: C      over tokens: C        as they are
    gem:P    generalised mean: C          over tokens: C        as they are
    cls      refused                      the first token: C    as they are
    flatten  C * H * W                    T * C                 as they are
    none     refused                      refused               as they are
    ======== ============================ ===================== ================

    Dimensions beyond four count as more of H and W. ``gem:P`` is ``mean(max(x, 1e-6)**P)**(1/P)``
    for P > 0 (Radenovic, Tolias and Chum, "Fine-tuning CNN image retrieval with no human
    annotation", 2018). A layer that gives (N, H, W, C), as Swin's blocks do, would be averaged
    over the wrong dimensions: name the layer behind its permutation.

    Raises:
        ConfigError: an unknown pool, or a P that is not a positive number.
    """

    name: str  # of a sub-module: "layer4", "_blocks.10"
    pool: str = "avg"  # avg | max | gem:P | cls | flatten | none

    def __post_init__(self) -> None:
        kind, _, power = self.pool.partition(":")
        if kind == "gem":
            if _positive_number(power) is None:
                raise ConfigError(
                    f"Layer {self.name!r}: pool {self.pool!r} has no power above 0; "
                    f"write gem:3, for example."
                )
        elif self.pool not in _POOLS:
            raise ConfigError(
                f"Layer {self.name!r}: unknown pool {self.pool!r}; choose one of "
                f"{', '.join(_POOLS)}, where P is a power, such as gem:3."
            )

    @property
    def gem_power(self) -> float | None:
        """P of ``gem:P``; None for any other pool."""
        kind, _, power = self.pool.partition(":")
        return float(power) if kind == "gem" else None


def _positive_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 < number < float("inf") else None
