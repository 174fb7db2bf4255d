"""Which tensor of a file goes where in a model, and why each other does not: decided beforehand."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from assay.checkpoint.positions import can_resize_positions, is_position_embedding
from assay.errors import ConfigError

__all__ = ["Change", "InitPlan", "Skipped", "Strictness", "plan_init", "skip_list"]

# What stops a plan: "all" what is missing, unexpected or does not fit; "fit" what does not fit;
# "off" nothing: what does not fit is left as it is.
Strictness = Literal["all", "fit", "off"]


@dataclass(frozen=True)
class Skipped:
    """A layer of the model that keeps its own values."""

    name: str
    reason: str


@dataclass(frozen=True)
class Change:
    """A layer whose tensor in the file is of another shape or dtype."""

    name: str
    theirs: str  # in the file: "[1, 197, 768]" or "float16"
    ours: str  # in the model


@dataclass(frozen=True)
class InitPlan:
    """What is to become of every tensor of the model and of the file. Names are the model's."""

    loaded: tuple[str, ...]
    skipped: tuple[Skipped, ...]  # left out on request
    missing: tuple[str, ...]  # in the model alone
    unexpected: tuple[str, ...]  # in the file alone
    shape_mismatches: tuple[Change, ...]
    unfit: tuple[Skipped, ...]  # of a kind that does not convert, such as integers for weights
    dtype_changes: tuple[Change, ...]  # loaded, and converted
    resized: tuple[Change, ...]  # loaded, and interpolated: position embeddings

    def faults(self, strict: Strictness) -> list[str]:
        """What speaks against the plan, as sentences."""
        if strict not in ("all", "fit", "off"):
            raise ConfigError(f"strict is one of 'all', 'fit' and 'off', not {strict!r}.")
        found = []
        if not self.loaded and not (self.skipped and not self.shape_mismatches):
            found.append(
                f"Nothing in the file fits the model: the model has {_first(self.missing)}; the "
                f"file has {_first(self.unexpected)}."
            )
        if strict != "off":
            wrong = [
                f"{change.name} ({change.theirs} in the file, {change.ours} in the model)"
                for change in self.shape_mismatches
            ]
            if wrong:
                found.append(f"{len(wrong)} differ in shape: {_first(wrong)}.")
            unfit = [f"{skipped.name} ({skipped.reason})" for skipped in self.unfit]
            if unfit:
                found.append(f"{len(unfit)} cannot be converted: {_first(unfit)}.")
        if strict == "all":
            if self.missing:
                found.append(f"{len(self.missing)} are missing: {_first(self.missing)}.")
            if self.unexpected:
                found.append(
                    f"{len(self.unexpected)} are not in the model: {_first(self.unexpected)}."
                )
        return found

    def lines(self) -> list[str]:
        """The plan for people: a line for each tensor that is not simply loaded, and a summary."""
        told = [
            *(f"interpolated   {c.name}: {c.theirs} -> {c.ours}" for c in self.resized),
            *(f"converted      {c.name}: {c.theirs} -> {c.ours}" for c in self.dtype_changes),
            *(f"skipped        {s.name}: {s.reason}" for s in self.skipped),
            *(f"shape differs  {c.name}: {c.theirs} in the file, {c.ours} in the model"
              for c in self.shape_mismatches),
            *(f"does not fit   {s.name}: {s.reason}" for s in self.unfit),
            *(f"missing        {name}" for name in self.missing),
            *(f"unexpected     {name}" for name in self.unexpected),
        ]  # fmt: skip
        counts = {
            "loaded": self.loaded, "skipped": self.skipped, "missing": self.missing,
            "unexpected": self.unexpected, "of another shape": self.shape_mismatches,
            "of another kind": self.unfit,
        }  # fmt: skip
        summary = ", ".join(
            f"{len(names)} {what}" for what, names in counts.items() if names or what == "loaded"
        )
        return [*told, summary]


def plan_init(
    ours: Mapping[str, Any],
    theirs: Mapping[str, Any],
    *,
    skip_layers: Sequence[str] | str | None = None,
    load_heads: bool = True,
    interpolate_positions: bool = False,
    tied: Mapping[str, Collection[str]] | None = None,
) -> InitPlan:
    """Decide what to load; no value is looked at.

    Args:
        ours: the model's state dict.
        theirs: the file's, under the model's names. Values may be arrays of NumPy.
        skip_layers: a layer is skipped if its name contains one of these. None is none.
        load_heads: whether layers under a part named ``heads`` are loaded.
        interpolate_positions: bring position embeddings of another grid of patches to ours.
        tied: names of the model -> the other names of the same memory.
    """
    skips = skip_list(skip_layers)
    loaded, missing = [], []
    skipped, unfit = [], []
    mismatches, dtype_changes, resized = [], [], []
    for name, own in ours.items():
        fragment = next((skip for skip in skips if skip in name), None)
        if fragment is not None:
            skipped.append(Skipped(name, f"its name contains {fragment!r}"))
        elif not load_heads and "heads" in name.split("."):
            skipped.append(Skipped(name, "the settings leave heads as they are"))
        elif not isinstance(own, Tensor):
            if name in theirs:
                skipped.append(Skipped(name, f"it is no tensor, but a {type(own).__name__}"))
        elif name not in theirs:
            missing.append(name)
        elif reason := _misfit(theirs[name], own):
            unfit.append(Skipped(name, reason))
        else:
            shape, own_shape = tuple(theirs[name].shape), tuple(own.shape)
            if shape != own_shape:
                change = Change(name, str(list(shape)), str(list(own_shape)))
                if not (
                    interpolate_positions
                    and is_position_embedding(name)
                    and can_resize_positions(shape, own_shape)
                ):
                    mismatches.append(change)
                    continue
                resized.append(change)
            loaded.append(name)
            dtype = _dtype(theirs[name])
            if dtype != own.dtype:
                dtype_changes.append(Change(name, _short(dtype), _short(own.dtype)))
    taken = set(loaded)
    for name in list(missing):
        twin = next((other for other in (tied or {}).get(name, ()) if other in taken), None)
        if twin is not None:
            missing.remove(name)
            skipped.append(Skipped(name, f"it is the same tensor as {twin}, which is loaded"))
    return InitPlan(
        loaded=tuple(loaded),
        skipped=tuple(skipped),
        missing=tuple(missing),
        unexpected=tuple(str(name) for name in theirs if name not in ours),
        shape_mismatches=tuple(mismatches),
        unfit=tuple(unfit),
        dtype_changes=tuple(dtype_changes),
        resized=tuple(resized),
    )


def skip_list(skip_layers: Sequence[str] | str | None) -> list[str]:
    """The parts of names to be skipped.

    Raises:
        ConfigError: one is empty, which every name contains.
    """
    skips = [skip_layers] if isinstance(skip_layers, str) else list(skip_layers or ())
    if not all(isinstance(skip, str) and skip for skip in skips):
        raise ConfigError(
            f"skip_layers has an entry that is no text or empty, {skips}: every name contains the "
            f"empty text. Leave it out."
        )
    return skips


def _misfit(value: Any, own: Tensor) -> str:
    """Why a value cannot become one of the model, its shape aside; "" where it can."""
    if not isinstance(value, (Tensor, np.ndarray)):
        return f"the file has no tensor there, but a {type(value).__name__}"
    dtype = _dtype(value)
    if dtype is None:
        return f"torch has no dtype for an array of {value.dtype}"
    if isinstance(value, Tensor) and value.layout is not own.layout:
        return f"the file has a tensor of layout {_short(value.layout)}"
    quantised = isinstance(value, Tensor) and value.is_quantized
    if quantised != own.is_quantized or (quantised and dtype != own.dtype):
        return f"{_short(dtype)} in the file, {_short(own.dtype)} in the model: dequantize first"
    if quantised:
        return ""
    is_learned = dtype.is_floating_point or dtype.is_complex
    if is_learned != (own.dtype.is_floating_point or own.dtype.is_complex) or not torch.can_cast(
        dtype, own.dtype
    ):
        return f"{_short(dtype)} in the file, {_short(own.dtype)} in the model"
    return ""


def _dtype(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.dtype
    try:
        return torch.from_numpy(np.empty(0, value.dtype.newbyteorder("="))).dtype
    except TypeError:
        return None


def _short(value: object) -> str:
    return str(value).removeprefix("torch.")


def _first(names: Sequence[str], count: int = 5) -> str:
    more = len(names) - count
    return (", ".join(names[:count]) or "no tensors") + (f" and {more} more" if more > 0 else "")
