"""What the layers of a model give in one forward pass, each pooled to one vector an image."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from assay.errors import AssayError, ModelError
from assay.features.layer_spec import LayerSpec
from assay.features.models import find_layers
from assay.runtime.signals import Terminated

__all__ = ["LayerTaps", "pool_output"]

_GEM_FLOOR = 1e-6  # values below count as this: a power of a negative number is no number


class LayerTaps:
    """Forward hooks that pool what the named layers of a module give; removed at the block's end.

    Several threads may call the module at once: each has its own outputs.

    >>> module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
    >>> with LayerTaps(module, [LayerSpec("0"), LayerSpec("1", "flatten")]) as taps:
    ...     features = taps.features_of(torch.zeros(2, 3, 8, 8))
    >>> {name: tuple(rows.shape) for name, rows in features.items()}
    {'0': (2, 4), '1': (2, 144)}

    Raises:
        ModelError: the module has no such layers.
    """

    def __init__(self, module: nn.Module, specs: Sequence[LayerSpec]) -> None:
        self._module = module
        self._specs = tuple(specs)
        self._layers = find_layers(module, [spec.name for spec in specs])
        self._outputs = threading.local()
        self._handles: list[torch.utils.hooks.RemovableHandle] = []

    def __enter__(self) -> LayerTaps:
        for spec in self._specs:
            hook = self._hook(spec)
            self._handles.append(self._layers[spec.name].register_forward_hook(hook))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._handles:
            self._handles.pop().remove()

    def features_of(self, pixels: Tensor) -> dict[str, Tensor]:
        """One forward pass over (N, 3, H, W): layer name -> (N, D) float32, on the model's device.

        The values are those at the moment when the layer returns; what a later layer does to its
        output in place does not show.

        Raises:
            ModelError: the model fails on the batch; or a layer did not run, ran more than once, or
                gives nothing that can be pooled to one vector an image.
        """
        pooled: dict[str, Tensor] = {}
        self._outputs.pooled = pooled
        try:
            self._module(pixels)
        except (AssayError, Terminated):
            raise
        except (Exception, SystemExit) as error:  # the user's code: anything may come
            raise ModelError(
                f"The model fails on a batch of {len(pixels)} images of {pixels.shape[2]} x "
                f"{pixels.shape[3]} pixels: {type(error).__name__}: {error}. If it wants another "
                f"size, set config.TRANSFORM.RESIZE and CROP."
            ) from error
        missing = [spec.name for spec in self._specs if spec.name not in pooled]
        if missing:
            raise ModelError(
                f"Layer {missing[0]!r} did not run in the forward pass: the model never calls it "
                f"for images. Name a layer that it calls."
            )
        for spec in self._specs:
            if len(pooled[spec.name]) != len(pixels):
                raise ModelError(
                    f"Layer {spec.name!r} gives {len(pooled[spec.name])} rows for a batch of "
                    f"{len(pixels)} images: its first dimension is not the batch. Name a layer "
                    f"whose output has one entry an image."
                )
        return dict(pooled)

    def _hook(self, spec: LayerSpec) -> Any:
        def keep(_module: nn.Module, _inputs: Any, output: Any) -> None:
            pooled: dict[str, Tensor] = self._outputs.pooled
            if spec.name in pooled:
                raise ModelError(
                    f"Layer {spec.name!r} runs more than once in one forward pass, so its output "
                    f"is ambiguous. Name a layer that runs once, such as the one that holds it."
                )
            pooled[spec.name] = pool_output(output, spec)

        return keep


def pool_output(output: Any, spec: LayerSpec) -> Tensor:
    """What a layer gave, as (N, D) float32 that shares no memory with it.

    Of a tuple, list or dict it is the first tensor, found depth first.

    Raises:
        ModelError: there is no tensor, it is complex, sparse or ragged, or ``spec.pool`` does not
            apply to its shape.
    """
    tensor = next(_tensors(output), None)
    if tensor is None:
        raise ModelError(
            f"Layer {spec.name!r} gives no tensor but {type(output).__name__}. Name another layer."
        )
    if tensor.is_complex():
        raise ModelError(f"Layer {spec.name!r} gives complex numbers. Name another layer.")
    if tensor.layout != torch.strided or tensor.is_nested or tensor.is_meta:
        kind = "ragged" if tensor.is_nested else "empty" if tensor.is_meta else "sparse"
        raise ModelError(
            f"Layer {spec.name!r} gives a {kind} tensor, and features are dense. Name another "
            f"layer, or have the model call to_dense() on it."
        )
    if tensor.ndim < 2 or (tensor.ndim > 2 and spec.pool == "none"):
        raise _does_not_apply(tensor, spec, "vectors (N, C)")
    with torch.autocast(tensor.device.type, enabled=False):
        values = tensor.to(torch.float32)
        if tensor.ndim == 2:
            return values.clone(memory_format=torch.contiguous_format)
        if spec.pool == "flatten":
            return values.flatten(1).clone(memory_format=torch.contiguous_format)
        if spec.pool == "cls":
            if tensor.ndim != 3:
                raise _does_not_apply(tensor, spec, "tokens (N, T, C)")
            return values[:, 0].clone(memory_format=torch.contiguous_format)
        return _pool_over(values, (1,) if tensor.ndim == 3 else tuple(range(2, tensor.ndim)), spec)


def _pool_over(values: Tensor, dims: tuple[int, ...], spec: LayerSpec) -> Tensor:
    if spec.pool == "max":
        return values.amax(dims)
    power = spec.gem_power
    if power is None:
        return values.mean(dims)
    return values.clamp(min=_GEM_FLOOR).pow(power).mean(dims).pow(1 / power)


def _tensors(output: Any) -> Iterator[Tensor]:
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, (tuple, list)):
        for item in output:
            yield from _tensors(item)
    elif isinstance(output, Mapping):
        for item in output.values():
            yield from _tensors(item)


def _does_not_apply(tensor: Tensor, spec: LayerSpec, wanted: str) -> ModelError:
    hint = "avg" if tensor.ndim > 2 else ""
    advice = f"Pool it by {hint}" if hint else "Name another layer"
    return ModelError(
        f"Layer {spec.name!r} gives a tensor of shape {tuple(tensor.shape)}, "
        f"and pool {spec.pool!r} needs {wanted}. {advice}."
    )
