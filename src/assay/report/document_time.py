"""``timing.json``: what a timed program measured, on one rank or on all."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from assay import __version__
from assay.errors import DataError
from assay.report.document import SCHEMA_VERSION
from assay.runtime.collect_env import package_versions
from assay.runtime.machine import available_cores, cpu_model
from assay.timing import Summary, reduce_ranks, summary_from_dict, summary_to_dict

__all__ = ["TIME_KIND", "TimedRun", "merged_document", "summary_of", "timing_document"]

TIME_KIND = "time"


@dataclass(frozen=True)
class TimedRun:
    """How a summary came about."""

    command: str
    created: datetime  # when the program started
    elapsed_s: float  # until it ended
    options: Mapping[str, Any]
    process: Mapping[str, Any]  # kind, rank, world_size, pid, run
    device: str  # the accelerator that was used, or "cpu"


def timing_document(run: TimedRun, summary: Summary) -> dict[str, Any]:
    """The document of one process; ``summary`` in it is that of ``summary_to_dict``."""
    return {
        "schema": SCHEMA_VERSION,
        "kind": TIME_KIND,
        "assay_version": __version__,
        "created": run.created.isoformat(timespec="seconds"),
        "command": run.command,
        "elapsed_s": run.elapsed_s,
        "process": dict(run.process),
        "options": dict(run.options),
        "versions": {"python": platform.python_version(), **package_versions()},
        "machine": {"cpu": cpu_model(), "cores": available_cores(), "device": run.device},
        "summary": summary_to_dict(summary),
        "ranks": None,
        "workers": [],
    }


def merged_document(
    documents: Mapping[int, Mapping[str, Any]], workers: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """The document of a whole run: that of the lowest rank, with all ranks and workers.

    Args:
        documents: by rank, one or more; ranks that ended without one are named as missing.
        workers: documents of processes that are no ranks.
    """
    first = documents[min(documents)]
    world_size = max([each["process"]["world_size"] for each in documents.values()])
    merged = {**first, "workers": [_worker(each) for each in workers]}
    if world_size > 1:
        summaries = [
            summary_of(documents[rank]) if rank in documents else Summary()
            for rank in range(world_size)
        ]
        missing = [rank for rank in range(world_size) if rank not in documents]
        merged["ranks"] = {**asdict(reduce_ranks(summaries)), "missing": missing}
    return merged


def summary_of(document: Mapping[str, Any]) -> Summary:
    """The summary in a document.

    Raises:
        DataError: it is none of ours, or of another version.
    """
    if document.get("kind") != TIME_KIND or document.get("schema") != SCHEMA_VERSION:
        raise DataError(
            f"These are no results of a timed program, or of another version of assay: "
            f"kind={document.get('kind')!r}, schema={document.get('schema')!r}. Time it again."
        )
    return summary_from_dict(document["summary"])


def _worker(document: Mapping[str, Any]) -> dict[str, Any]:
    process, summary = document["process"], document["summary"]
    return {
        "rank": process["rank"],
        "pid": process["pid"],
        "measurements": [
            {
                "name": each["name"],
                "count": each["host"]["count"],
                "total_ms": each["host"]["total_ms"],
                "mean_ms": each["host"]["mean_ms"],
                "max_ms": each["host"]["max_ms"],
            }
            for each in summary["measurements"]
            if each["host"] is not None
        ],
    }
