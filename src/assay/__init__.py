"""assay answers three questions about a PyTorch vision model.

Where does the time go, are the numbers still right after a change, and how good are the frozen
features. Names load on first use: ``import assay`` is quick and brings in no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.config import AttrDict, compose, convert_to_attrdict
    from assay.evaluate.svm import SVMResult, SVMTrainer
    from assay.features.datasets import ImageSet, open_images
    from assay.features.extract import extract_features
    from assay.features.models import VisionModel, load_model
    from assay.features.shards import FeatureSet, merge_features
    from assay.recipes.evaluate_svm import evaluate_svm
    from assay.timing.nvtx import NVTXRangeWrapper
    from assay.timing.perf_stats import PerfMetric, PerfStats, PerfTimer
    from assay.timing.stopwatch import Stopwatch

__version__ = "0.1.0"

__all__ = [
    "AttrDict",
    "FeatureSet",
    "ImageSet",
    "NVTXRangeWrapper",
    "PerfMetric",
    "PerfStats",
    "PerfTimer",
    "SVMResult",
    "SVMTrainer",
    "Stopwatch",
    "VisionModel",
    "__version__",
    "compose",
    "convert_to_attrdict",
    "evaluate_svm",
    "extract_features",
    "load_model",
    "merge_features",
    "open_images",
]

_HOMES = {
    "AttrDict": "assay.config",
    "FeatureSet": "assay.features.shards",
    "ImageSet": "assay.features.datasets",
    "NVTXRangeWrapper": "assay.timing.nvtx",
    "PerfMetric": "assay.timing.perf_stats",
    "PerfStats": "assay.timing.perf_stats",
    "PerfTimer": "assay.timing.perf_stats",
    "SVMResult": "assay.evaluate.svm",
    "SVMTrainer": "assay.evaluate.svm",
    "Stopwatch": "assay.timing.stopwatch",
    "VisionModel": "assay.features.models",
    "compose": "assay.config",
    "convert_to_attrdict": "assay.config",
    "evaluate_svm": "assay.recipes.evaluate_svm",
    "extract_features": "assay.features.extract",
    "load_model": "assay.features.models",
    "merge_features": "assay.features.shards",
    "open_images": "assay.features.datasets",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _start_what_the_environment_asks_for() -> None:
    """Done here because a program imports whichever part of assay it measures with."""
    from assay.recipes.time_from_environment import start_from_environment

    start_from_environment()


_start_what_the_environment_asks_for()
