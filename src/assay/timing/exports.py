"""A summary as JSON and CSV, and a trace as a file that Perfetto opens."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from os import PathLike
from typing import Any

from assay._atomic import write_text
from assay.timing.chrome_trace import Trace, trace_to_dict
from assay.timing.durations import Bin, Statistics
from assay.timing.summary import Measurement, OneTime, Summary

__all__ = [
    "json_text",
    "summary_from_dict",
    "summary_to_csv",
    "summary_to_dict",
    "write_chrome_trace",
    "write_summary_csv",
    "write_summary_json",
]

_KIND = "timing"
_SCHEMA = 1
_NUMBERS = ("count", "total_ms", "mean_ms", "std_ms", "min_ms", "median_ms", "p95_ms", "max_ms")


def summary_to_dict(summary: Summary) -> dict[str, Any]:
    """The summary in JSON's own types, with the names of its fields; what is unknown is None."""
    written: dict[str, Any] = {"schema": _SCHEMA, "kind": _KIND, **asdict(summary)}
    # Tuples become lists, as they will be when read back.
    return json.loads(json.dumps(written, allow_nan=False))  # type: ignore[no-any-return]


def summary_from_dict(written: Mapping[str, Any]) -> Summary:
    """The summary that :func:`summary_to_dict` has written.

    Raises:
        ValueError: it is none, or of another version.
    """
    if written.get("kind") != _KIND or written.get("schema") != _SCHEMA:
        raise ValueError(
            f"This is no summary of timings in schema {_SCHEMA}: kind={written.get('kind')!r}, "
            f"schema={written.get('schema')!r}. Write it anew with this version."
        )
    values = {name: value for name, value in written.items() if name not in ("kind", "schema")}
    values["measurements"] = tuple(
        Measurement(
            **{
                **each,
                "host": _statistics(each["host"]),
                "device": _statistics(each["device"]),
            }
        )
        for each in values["measurements"]
    )
    values["one_time"] = tuple(OneTime(**each) for each in values["one_time"])
    values["iteration"] = _statistics(values["iteration"])
    values["running"] = tuple(values["running"])
    return Summary(**values)


def summary_to_csv(summary: Summary) -> str:
    """One line for each name, after a line of titles; what is unknown is empty.

    Numbers are written in full. One-time measurements have a count of 1, and the row of whole
    iterations is the one with ``kind`` "iteration".
    """
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    device = [f"device_{title}" for title in _NUMBERS]
    own = ["num_failed", "per_iteration_ms", "share", "cpu_percent"]
    rows.writerow(["name", "kind", *_NUMBERS, *device, *own])
    for each in summary.measurements:
        cells = [getattr(each, title) for title in own]
        rows.writerow([each.name, "measurement", *_cells(each.host), *_cells(each.device), *cells])
    if summary.iteration is not None:
        rows.writerow(["iteration", "iteration", *_cells(summary.iteration), *[""] * 12])
    for once in summary.one_time:
        known = once.elapsed_ms is not None
        cells = [1, once.elapsed_ms] if known else ["", ""]
        rows.writerow([once.name, "one time", *cells, *[""] * 18])
    return text.getvalue()


def write_summary_json(summary: Summary, path: str | PathLike[str]) -> None:
    """Write the summary as JSON, whole or not at all.

    Raises:
        OutputError: it cannot be written.
    """
    write_text(path, json_text(summary_to_dict(summary), indent=2))


def write_summary_csv(summary: Summary, path: str | PathLike[str]) -> None:
    """Write the summary as CSV, whole or not at all.

    Raises:
        OutputError: it cannot be written.
    """
    write_text(path, _encodable(summary_to_csv(summary)))


def write_chrome_trace(trace: Trace, path: str | PathLike[str]) -> None:
    """Write the trace for Perfetto (https://ui.perfetto.dev) or chrome://tracing.

    Raises:
        OutputError: it cannot be written.
    """
    write_text(path, json_text(trace_to_dict(trace)))


def json_text(data: Any, *, indent: int | None = None) -> str:
    """Strict JSON that can be written as UTF-8, whatever the names in ``data`` hold."""
    return _encodable(json.dumps(data, indent=indent, allow_nan=False, ensure_ascii=False) + "\n")


def _encodable(text: str) -> str:
    r"""Text with ``\udcff`` in place of the half of a pair, as in file names that are not UTF-8.

    In JSON that is just how it is escaped.
    """
    return text.encode("utf-8", errors="backslashreplace").decode("utf-8")


def _statistics(written: Mapping[str, Any] | None) -> Statistics | None:
    if written is None:
        return None
    bins = tuple(Bin(**each) for each in written["distribution"])
    return Statistics(**{**written, "distribution": bins})


def _cells(statistics: Statistics | None) -> list[Any]:
    return ["" if statistics is None else getattr(statistics, title) for title in _NUMBERS]
