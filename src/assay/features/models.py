"""A frozen model from a name, its layers, and the digest of its weights."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from assay.checkpoint.load import LoadReport, StateDictFile, load_weights, read_state_dict_file
from assay.errors import ModelError, nearest_names
from assay.features.model_sources import build_model, model_names
from assay.features.transforms import ImageTransform
from assay.runtime.signals import Terminated

__all__ = [
    "VisionModel",
    "find_layers",
    "layer_outline",
    "list_layers",
    "load_model",
    "model_names",
    "weights_digest",
]

_LAYERS_SHOWN = 24


@dataclass(frozen=True)
class VisionModel:
    """A frozen model and the transform that makes its input."""

    name: str  # as the user gave it: "torchvision:resnet50"
    module: nn.Module  # eval mode, on the CPU, float32, no gradients
    transform: ImageTransform  # how an image becomes its input
    weights: str  # where the weights come from, for people
    weights_digest: str  # "sha256:..." over all parameters and buffers
    num_parameters: int


def load_model(
    name: str,
    *,
    weights: str | Path | None = None,
    resize: int | Sequence[int] | None = None,
    crop: int | Sequence[int] | Literal["none"] | None = None,
    interpolation: str | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> VisionModel:
    """The model called ``name``, frozen: eval mode, on the CPU, float32, no gradients.

    Args:
        name: ``torchvision:NAME`` or ``timm:NAME`` (either may name its pretrained weights:
            ``torchvision:resnet50.IMAGENET1K_V1``, ``timm:resnet50.a1_in1k``),
            ``python:package.module:factory`` (a callable without arguments that gives an
            ``nn.Module``, importable from the current folder too; it may carry an
            :class:`ImageTransform` as its attribute ``transform``), or ``efficientnet-lite0``.
        weights: a weights file; "random" for a seeded random initialisation; None for the model's
            own pretrained weights, from the cache or downloaded (a factory's own, as it made them).
        resize, crop, interpolation, mean, std: in place of the transform's own; see
            :meth:`ImageTransform.override`.

    Raises:
        ModelError: the model or its weights cannot be had, or the file does not fit the model.
        ConfigError: an override is out of range.
        MissingExtraError: a package that the model needs is not installed.
    """
    built = build_model(name, pretrained=weights is None)
    transform = built.transform.override(
        resize=resize, crop=crop, interpolation=interpolation, mean=mean, std=std
    )
    _refuse_unusable_weights(name, built.module)
    module = _frozen(name, built.module)
    if weights is None or weights == "random":
        origin = weights or built.weights
    else:
        path = Path(weights).expanduser()
        file = read_state_dict_file(path)
        origin = _origin(path, file, load_weights(module, file.tensors, source=str(path)))
    return VisionModel(
        name=name,
        module=module,
        transform=transform,
        weights=str(origin),
        weights_digest=weights_digest(module),
        num_parameters=sum(parameter.numel() for parameter in module.parameters()),
    )


def list_layers(module: nn.Module) -> dict[str, str]:
    """Every sub-module that can be a layer: dotted name -> type, in the model's order.

    Plain lists and dicts of modules are left out: they are never called and have no output.
    """
    return {
        name: type(layer).__name__
        for name, layer in module.named_modules(remove_duplicate=False)
        if name and _has_output(layer)
    }


def find_layers(module: nn.Module, names: Sequence[str]) -> dict[str, nn.Module]:
    """The sub-modules of these names, in this order.

    Raises:
        ModelError: a name is no sub-module, one that has no output of its own, or one within a
            compiled (TorchScript) part; all such names are in the one error, with the nearest that
            would do.
    """
    layers = {name: m for name, m in module.named_modules(remove_duplicate=False) if name}
    known = list_layers(module)
    faults = []
    for name in dict.fromkeys(names):
        if name not in layers:
            faults.append(f"There is no layer {name!r}.{nearest_names(name, known)}")
        elif name not in known:
            held = ", ".join(_children(name, layers[name])) or "none"
            faults.append(f"{name!r} has no output of its own; name a layer that it holds: {held}.")
        elif script := _compiled_around(layers | {"": module}, name):
            faults.append(
                f"{name!r} lies within {script}, which is TorchScript: nothing can be seen of what "
                f"its layers give. Give the model as it was before torch.jit."
            )
    if faults:
        faults.append(f"The layers are {layer_outline(module)}.")
        raise ModelError("\n".join(faults))
    return {name: layers[name] for name in names}


def layer_outline(module: nn.Module, shown: int = _LAYERS_SHOWN) -> str:
    """The names of the first ``shown`` layers at the top of a model, separated by commas.

    In place of a plain list of layers, or where one layer wraps all others, what it holds.
    """
    outline = _outline(module)
    more = ", ..." if len(outline) > shown else ""
    return f"{', '.join(outline[:shown])}{more}" if outline else "none"


def weights_digest(module: nn.Module) -> str:
    """The SHA-256 over the names, dtypes, shapes and bytes of all weights: "sha256:...".

    All parameters and buffers count, also those that a state dict leaves out; order, device and
    memory layout do not.

    Raises:
        ModelError: a tensor has no values yet (on the meta device, or of a lazy module), or is
            sparse.
    """
    _refuse_unusable_weights(type(module).__name__, module)
    tensors = _weights(module)
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach()
        header = [name, str(tensor.dtype), list(tensor.shape)]
        digest.update(json.dumps(header).encode() + b"\n")
        plain = tensor.cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
        digest.update(plain.view(torch.uint8).numpy().data)
    return f"sha256:{digest.hexdigest()}"


def _frozen(name: str, module: nn.Module) -> nn.Module:
    if isinstance(module, torch.jit.ScriptModule):
        raise ModelError(
            f"{name}: is TorchScript: nothing can be seen of what its layers give. Give the model "
            f"as it was before torch.jit."
        )
    try:
        return module.cpu().float().eval().requires_grad_(False)
    except Terminated:
        raise
    except (Exception, SystemExit) as error:  # the user's code: anything may come
        raise ModelError(
            f"{name}: cannot be frozen in float32 on the CPU: {type(error).__name__}: {error}."
        ) from error


def _weights(module: nn.Module) -> dict[str, Tensor]:
    parameters = module.named_parameters(remove_duplicate=False)
    return {**dict(parameters), **dict(module.named_buffers(remove_duplicate=False))}


def _refuse_unusable_weights(name: str, module: nn.Module) -> None:
    for tensor_name, tensor in _weights(module).items():
        if tensor.layout != torch.strided or tensor.is_nested:
            raise ModelError(
                f"{name}: {tensor_name} is sparse or ragged. Give a model whose weights are dense."
            )
        if is_lazy(tensor) or tensor.is_meta:
            raise ModelError(
                f"{name}: {tensor_name} has no values yet. Give a model whose weights are "
                f"initialised: run a lazy one once, and build off the meta device."
            )


def _origin(path: Path, file: StateDictFile, report: LoadReport) -> str:
    """The weights file for people: which network of it, and whether the classifier was there."""
    which = f" [{file.key}]" if file.other_keys and file.key else ""
    head = "" if report.head_loaded else f" (classifier {report.head} random)"
    return f"{path.name}{which}{head}"


def _compiled_around(modules: Mapping[str, nn.Module], name: str) -> str:
    """The part of the model that is TorchScript and holds this layer, for people; or ""."""
    parts = name.split(".")
    for depth in range(len(parts)):
        holder = ".".join(parts[:depth])
        if isinstance(modules[holder], torch.jit.ScriptModule):
            return repr(holder) if holder else "the model"
    return ""


def _outline(module: nn.Module) -> list[str]:
    """The top-level layers; in place of a list, or where all is wrapped in one, what it holds."""
    outline = []
    is_wrapper = len(list(module.children())) == 1
    for name, child in module.named_children():
        inside = _children(name, child) if is_wrapper or not _has_output(child) else []
        if len(inside) > 3 and isinstance(child, nn.ModuleList | nn.Sequential):
            inside = [f"{inside[0]} to {inside[-1]}"]
        outline += inside or [name]
    return outline


def _has_output(module: nn.Module) -> bool:
    """Whether it can be called; an ``nn.ModuleList`` cannot, a subclass with a forward can."""
    # Static: TorchScript's forward is a descriptor that fails on a class.
    return inspect.getattr_static(type(module), "forward") is not nn.Module.forward


def _children(name: str, module: nn.Module) -> list[str]:
    return [f"{name}.{child}" for child, _ in module.named_children()]
