"""Images to vectors: a model, its labelled images, and the features it gives them.

Names load on first use, so that ``import assay.features`` is quick and brings in no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.features.datasets import ImageSet, find_bad_images, open_images
    from assay.features.extract import (
        ExtractOptions,
        ExtractResult,
        LayerSpec,
        extract_features,
    )
    from assay.features.images import BadImage, read_image
    from assay.features.models import (
        VisionModel,
        find_layers,
        list_layers,
        load_model,
        model_names,
        weights_digest,
    )
    from assay.features.shards import FeatureSet, merge_features, merge_shards
    from assay.features.transforms import ImageTransform

__all__ = [
    "BadImage",
    "ExtractOptions",
    "ExtractResult",
    "FeatureSet",
    "ImageSet",
    "ImageTransform",
    "LayerSpec",
    "VisionModel",
    "extract_features",
    "find_bad_images",
    "find_layers",
    "list_layers",
    "load_model",
    "merge_features",
    "merge_shards",
    "model_names",
    "open_images",
    "read_image",
    "weights_digest",
]

_HOMES = {
    "BadImage": "images",
    "ExtractOptions": "extract",
    "ExtractResult": "extract",
    "FeatureSet": "shards",
    "ImageSet": "datasets",
    "ImageTransform": "transforms",
    "LayerSpec": "extract",
    "VisionModel": "models",
    "extract_features": "extract",
    "find_bad_images": "datasets",
    "find_layers": "models",
    "list_layers": "models",
    "load_model": "models",
    "merge_features": "shards",
    "merge_shards": "shards",
    "model_names": "models",
    "open_images": "datasets",
    "read_image": "images",
    "weights_digest": "models",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
