"""``results.json``: what the documents of all kinds of runs have in common."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from assay import __version__
from assay.report.progress import StageTiming
from assay.runtime.collect_env import package_versions
from assay.runtime.machine import available_cores, cpu_model

if TYPE_CHECKING:
    from assay.evaluate.bootstrap import BootstrapInterval

__all__ = [
    "SCHEMA_VERSION",
    "RunRecord",
    "best_layer",
    "class_name",
    "interval_facts",
    "number",
    "run_document",
]

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class RunRecord:
    """How a run came about, whatever it graded."""

    command: str
    created: datetime
    facts: Mapping[str, Any]  # model, transform, data, settings, device
    timings: Sequence[StageTiming]


def run_document(
    kind: str,
    record: RunRecord,
    *,
    headline: Mapping[str, Any],
    layers: Sequence[Mapping[str, Any]],
    more: Mapping[str, Any],
) -> dict[str, Any]:
    """The whole document; ``more`` are the keys that runs of this kind alone have."""
    facts = dict(record.facts)
    device = facts.pop("device")
    return {
        "schema": SCHEMA_VERSION,
        "kind": kind,
        "assay_version": __version__,
        "created": record.created.isoformat(timespec="seconds"),
        "command": record.command,
        "title": f"{facts['model']['name']} on {facts['data']['test']['source']}",
        "headline": dict(headline),
        **facts,
        "versions": {"python": platform.python_version(), **package_versions()},
        "machine": {"cpu": cpu_model(), "cores": available_cores(), "device": device},
        **more,
        "layers": [dict(layer) for layer in layers],
        "timings": [asdict(timing) for timing in record.timings],
    }


def best_layer(layers: Sequence[Mapping[str, Any]], key: str) -> Mapping[str, Any]:
    """The layer whose ``key`` is highest; one where it is undefined (None) loses to all others."""
    return max(layers, key=lambda layer: -math.inf if layer[key] is None else layer[key])


def interval_facts(interval: BootstrapInterval | None, *, seed: int) -> dict[str, Any]:
    """How far a score could be off; nothing of a score that is undefined.

    Args:
        interval: None where the score is undefined.
        seed: of the draws.
    """
    if interval is None:
        return {"interval": None}
    return {
        "interval": [number(interval.low), number(interval.high)],
        "confidence": interval.confidence,
        "resamples": len(interval.resampled),
        "seed": seed,
    }


def class_name(class_names: Sequence[str], class_id: int) -> str:
    """The name of a class, or its number where it has none."""
    return class_names[class_id] if 0 <= class_id < len(class_names) else str(class_id)


def number(value: float) -> float | None:
    """A float for strict JSON, which has no NaN: what is undefined is ``None``."""
    return None if math.isnan(value) else float(value)
