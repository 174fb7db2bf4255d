"""Settings -> what features to extract, as plain values that also travel to other processes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from assay.config import AttrDict
from assay.errors import AssayWarning, ConfigError
from assay.features.datasets import ImageSet, open_images, split_images
from assay.features.extract import ExtractOptions, LayerSpec
from assay.features.forward_passes import resolve_device
from assay.features.models import VisionModel, find_layers, layer_outline, load_model
from assay.features.voc import find_voc_trees

__all__ = ["FeatureRequest", "ImageRequest", "open_model", "open_splits", "read_feature_request"]

POOLS = {
    "AdaptiveAvgPool2d": "avg",
    "AvgPool2d": "avg",
    "AdaptiveMaxPool2d": "max",
    "MaxPool2d": "max",
    "Identity": "flatten",
}

_LAYERS_SHOWN = 12  # of a model whose user has named none


@dataclass(frozen=True)
class ImageRequest:
    """Where the images of one split come from."""

    source: str  # how to read the paths; "auto" looks at them
    paths: tuple[str, ...]
    label_paths: tuple[str, ...]
    limit: int  # at most so many images; -1 = all


@dataclass(frozen=True)
class FeatureRequest:
    """What to extract, from which images, by which model."""

    model: str
    weights: str | None
    transform: Mapping[str, Any]  # what differs from the model's own
    layers: tuple[LayerSpec, ...]
    train: ImageRequest
    test: ImageRequest
    test_fraction: float  # held out of train where test names no images
    seed: int
    options: ExtractOptions


def read_feature_request(config: AttrDict) -> FeatureRequest:
    """The request that ``config`` (the section of that name) makes.

    Raises:
        ConfigError: no model, no layers or no images are named; all that is missing in one error.
        ModelError: no layers are named, and the model, which is looked at to name some, is unknown.
    """
    model = config.MODEL.TRUNK.NAME
    layers = _layers(config.MODEL.FEATURE_EVAL_SETTINGS.LINEAR_EVAL_FEAT_POOL_OPS_MAP)
    train, test = _images(config.DATA.TRAIN), _images(config.DATA.TEST)
    missing = []
    if not model or model == "resnet":
        missing.append(
            "No model is named: give --model torchvision:resnet50, timm:NAME, "
            "python:package.module:factory or efficientnet-lite0 (config.MODEL.TRUNK.NAME)."
        )
    if not layers:
        known = "" if missing else f" Those of {model} are {_known_layers(model)}."
        missing.append(
            "No layer is named: give --layers A,B with names of the model's sub-modules "
            f"(config.MODEL.FEATURE_EVAL_SETTINGS.LINEAR_EVAL_FEAT_POOL_OPS_MAP).{known}"
        )
    if not train.paths and train.source in ("auto", ""):
        missing.append(
            "No images are named: give --train PATH (config.DATA.TRAIN.DATA_PATHS), "
            "or config=demo for the bundled ones."
        )
    if missing:
        raise ConfigError("\n".join(missing))
    return FeatureRequest(
        model=model,
        weights=config.MODEL.WEIGHTS_INIT.PARAMS_FILE or None,
        transform={
            key.lower(): value for key, value in config.TRANSFORM.items() if value is not None
        },
        layers=layers,
        train=train,
        test=test,
        test_fraction=config.DATA.TEST_FRACTION,
        seed=config.SEED_VALUE,
        options=_options(config),
    )


def open_model(request: FeatureRequest) -> VisionModel:
    """The model of a request, ready to run.

    Raises:
        ModelError: it cannot be had, or lacks a layer of the request.
    """
    model = load_model(request.model, weights=request.weights, **request.transform)
    find_layers(model.module, [spec.name for spec in request.layers])
    return model


def open_splits(request: FeatureRequest) -> dict[str, ImageSet]:
    """The images of a request: ``{"train": ..., "test": ...}`` over one list of classes.

    Where the request names no test images, the train paths' own test list serves (Pascal VOC),
    else a seeded, stratified share of the train images is held out.
    """

    own_test_list = not request.test.paths and _is_voc(request.train)
    wanted = replace(request.test, paths=request.train.paths) if own_test_list else request.test
    has_test = bool(wanted.paths)

    def open_split(images: ImageRequest, split: Literal["train", "test"], **more: Any) -> ImageSet:
        return open_images(
            images.source,
            images.paths,
            label_paths=images.label_paths,
            split=split,
            limit=images.limit,
            seed=request.seed,
            **more,
        )

    train = open_split(request.train, "train", other_paths=wanted.paths)
    if has_test:
        names = train.class_names
        test = open_split(wanted, "test", class_names=names, other_paths=request.train.paths)
    else:
        train, test = split_images(train, request.test_fraction, request.seed)
    return {"train": train, "test": test}


def _is_voc(images: ImageRequest) -> bool:
    return images.source in ("auto", "voc") and any(
        find_voc_trees(Path(path).expanduser()) for path in images.paths
    )


def _known_layers(model: str) -> str:
    """Some layers of a model; its weights do not matter, so none are fetched."""
    return layer_outline(load_model(model, weights="random").module, _LAYERS_SHOWN)


def _images(data: AttrDict) -> ImageRequest:
    sources = list(data.DATA_SOURCES)
    return ImageRequest(
        source=sources[0] if sources else "auto",
        paths=tuple(data.DATA_PATHS),
        label_paths=tuple(data.LABEL_PATHS),
        limit=data.DATA_LIMIT,
    )


def _layers(entries: Sequence[Any]) -> tuple[LayerSpec, ...]:
    """An entry is ``NAME``, ``NAME:POOL``, ``[NAME, POOL]`` or ``[NAME, [OPERATOR, [...]]]``."""
    layers = []
    for entry in entries:
        if isinstance(entry, str):
            name, _, pool = entry.partition(":")
        else:
            name, pool = entry[0], entry[1] if len(entry) > 1 else ""
            pool = pool if isinstance(pool, str) else pool[0]
        layers.append(LayerSpec(name, POOLS.get(pool, pool) or "avg"))
    return tuple(layers)


def _device(name: str) -> str:
    """The device for a setting; the contract's "gpu" is a wish, any other name is meant."""
    if name == "gpu" and resolve_device("auto", 0).type == "cpu":
        warnings.warn(
            "config.MACHINE.DEVICE is gpu and there is no accelerator here: this runs on the CPU. "
            "--device cpu (or auto) says that this is meant.",
            AssayWarning,
            stacklevel=2,
        )
        return "cpu"
    return name


def _options(config: AttrDict) -> ExtractOptions:
    amp = config.EXTRACT.AMP
    return ExtractOptions(
        batch_size=config.DATA.TRAIN.BATCHSIZE_PER_REPLICA,
        num_workers=config.DATA.NUM_DATALOADER_WORKERS,
        device=_device(config.MACHINE.DEVICE),
        amp=None if amp == "none" else amp,
        channels_last=config.EXTRACT.CHANNELS_LAST,
        bad_images=config.DATA.BAD_IMAGES,
    )
