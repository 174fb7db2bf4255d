"""Intervals as a Chrome trace: the JSON that Perfetto and chrome://tracing open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["EMPTY_TRACE", "ITERATIONS_TRACK", "Trace", "TraceEvent", "trace_to_dict"]

ITERATIONS_TRACK = 0  # no thread has this id
_CATEGORY = "assay"


@dataclass(frozen=True)
class TraceEvent:
    """One interval of one thread, on the stopwatch's clock."""

    name: str
    thread_id: int
    start_ns: int
    end_ns: int
    failed: bool = False  # ended by an exception


@dataclass(frozen=True)
class Trace:
    """The latest intervals of one process."""

    events: tuple[TraceEvent, ...] = ()
    process_id: int = 0
    thread_names: Mapping[int, str] = field(default_factory=dict)  # by thread id
    num_dropped: int = 0  # older intervals, for which there was no room


EMPTY_TRACE = Trace()


def trace_to_dict(trace: Trace) -> dict[str, Any]:
    """The trace in the JSON object form of Chrome's Trace Event Format.

    Times are microseconds, process and thread ids are integers. Intervals that lie within one
    another are B and E events in the order of time, so that each E ends the last open B of its
    thread. What overlaps an interval without lying in it, as coroutines do, is a pair of b and e
    with an id.
    """
    tracks: dict[int, list[TraceEvent]] = {}
    for event in trace.events:
        tracks.setdefault(event.thread_id, []).append(event)
    events = list(_names(trace, tracks))
    identifiers = iter(range(1, len(trace.events) + 1))
    for thread_id in sorted(tracks):
        for phase, time_ns, event in _phases(tracks[thread_id]):
            events.append(_event(phase, time_ns, event, trace.process_id))
            if phase == "b":
                pair = {"id": next(identifiers)}
                events[-1].update(pair)
                events.append({**_event("e", event.end_ns, event, trace.process_id), **pair})
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {"num_dropped": trace.num_dropped},
    }


def _phases(events: Iterable[TraceEvent]) -> Iterator[tuple[str, int, TraceEvent]]:
    """(phase, time, event) of one thread; B and E in order and properly nested."""
    open_: list[TraceEvent] = []
    for event in sorted(events, key=lambda each: (each.start_ns, -each.end_ns)):
        while open_ and open_[-1].end_ns <= event.start_ns:
            ended = open_.pop()
            yield "E", ended.end_ns, ended
        if open_ and event.end_ns > open_[-1].end_ns:
            yield "b", event.start_ns, event
        else:
            open_.append(event)
            yield "B", event.start_ns, event
    for ended in reversed(open_):
        yield "E", ended.end_ns, ended


def _event(phase: str, time_ns: int, event: TraceEvent, process_id: int) -> dict[str, Any]:
    written = {
        "name": event.name,
        "cat": _CATEGORY,
        "ph": phase,
        "ts": time_ns / 1000,
        "pid": process_id,
        "tid": event.thread_id,
    }
    if event.failed and phase in "Bb":
        written["args"] = {"failed": True}
    return written


def _names(trace: Trace, tracks: Iterable[int]) -> Iterator[dict[str, Any]]:
    """The metadata by which a viewer names the tracks."""
    for thread_id in sorted(tracks):
        default = "iterations" if thread_id == ITERATIONS_TRACK else f"thread {thread_id}"
        yield {
            "name": "thread_name",
            "ph": "M",
            "pid": trace.process_id,
            "tid": thread_id,
            "args": {"name": trace.thread_names.get(thread_id, default)},
        }
