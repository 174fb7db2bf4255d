"""The files that the processes of one run left, read back and put together."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assay._atomic import write_text
from assay.errors import DataError
from assay.recipes.timed_process import WORKERS
from assay.timing.exports import json_text

__all__ = ["latest_run", "merge_traces", "read_ranks", "read_workers"]

_RANK_FILE = re.compile(r"rank(\d+)\.json")


def read_ranks(folder: Path, run: str) -> dict[int, dict[str, Any]]:
    """The documents of those ranks of a run that have ended, by rank."""
    found = {}
    for path in folder.glob("rank*.json"):
        match = _RANK_FILE.fullmatch(path.name)
        document = _read(path) if match else None
        if match and document is not None and document["process"]["run"] == run:
            found[int(match[1])] = document
    return found


def read_workers(folder: Path, run: str) -> list[dict[str, Any]]:
    """The documents of a run's workers, by rank and process id. Those of other runs are removed."""
    found = []
    for path in (folder / WORKERS).glob("*.json"):
        document = _read(path)
        if document is None:
            continue
        if document["process"]["run"] == run:
            found.append(document)
        elif document["process"]["kind"] == "worker":
            path.unlink(missing_ok=True)
    return sorted(found, key=lambda each: (each["process"]["rank"], each["process"]["pid"]))


def latest_run(folder: Path) -> dict[str, Any]:
    """The document of the rank of ``folder`` that started last.

    Raises:
        DataError: there is none.
    """
    documents = [_read(path) for path in folder.glob("rank*.json") if _RANK_FILE.match(path.name)]
    known = [document for document in documents if document is not None]
    if not known:
        raise DataError(
            f"{folder}: no rank has left a rank0.json, rank1.json, ... here. Name the folder that "
            f"was --out (or out= in ASSAY_STOPWATCH) of a run with several ranks."
        )
    return max(known, key=lambda each: str(each["created"]))


def merge_traces(folder: Path, ranks: Sequence[int], path: Path) -> None:
    """Write one trace of all ranks: a process for each, named after it.

    Times of ranks on one machine share a clock; across machines they do not line up.

    Raises:
        OutputError: it cannot be written.
    """
    events: list[dict[str, Any]] = []
    num_dropped = 0
    for rank in ranks:
        try:
            trace = json.loads((folder / f"rank{rank}.trace.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):  # that rank was killed, or asked for no trace
            continue
        named = {"name": "process_name", "ph": "M", "pid": rank, "tid": 0}
        events.append({**named, "args": {"name": f"rank {rank}"}})
        events += [{**event, "pid": rank} for event in trace["traceEvents"]]
        num_dropped += trace["otherData"]["num_dropped"]
    merged = {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {"num_dropped": num_dropped},
    }
    write_text(path, json_text(merged))


def _read(path: Path) -> dict[str, Any] | None:
    """A document of a timed process; None if the file is another's, or has gone."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    is_ours = isinstance(document, dict) and document.get("kind") == "time"
    return document if is_ours and "process" in document else None
