from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from assay.timing import Trace, TraceEvent, trace_to_dict, write_chrome_trace

EVENTS = st.lists(
    st.builds(
        lambda name, thread, start, length, failed: TraceEvent(
            name, thread, start, start + length, failed
        ),
        st.sampled_from(["a", "b", "ü / \n\"'"]),
        st.integers(0, 2),
        st.integers(0, 30),
        st.integers(0, 10),
        st.booleans(),
    ),
    max_size=25,
)


def check_format(trace: dict) -> list[tuple[str, int, float, float]]:
    """Hold the rules that viewers go by; returns the intervals: name, thread, start, end (us)."""
    stacks: dict[int, list[dict]] = {}
    latest: dict[int, float] = {}
    waiting: dict[int, dict] = {}
    intervals = []
    for event in trace["traceEvents"]:
        assert type(event["pid"]) is int
        assert type(event["tid"]) is int
        if event["ph"] == "M":
            continue
        assert isinstance(event["ts"], (int, float))
        assert event["cat"]
        key, start = event["tid"], None
        if event["ph"] in "BE":
            assert event["ts"] >= latest.get(key, 0), "B and E of a thread lie in order"
            latest[key] = event["ts"]
        if event["ph"] == "B":
            stacks.setdefault(key, []).append(event)
        elif event["ph"] == "E":
            start = stacks[key].pop()
        elif event["ph"] == "b":
            assert event["id"] not in waiting
            waiting[event["id"]] = event
        else:
            assert event["ph"] == "e"
            start = waiting.pop(event["id"])
            waiting[-event["id"]] = event
        if start is not None:
            assert start["name"] == event["name"]
            assert start["ts"] <= event["ts"]
            intervals.append((event["name"], key, start["ts"], event["ts"]))
    assert not any(stacks.values())
    assert all(identifier < 0 for identifier in waiting)
    return intervals


@given(EVENTS)
def test_any_intervals_make_a_trace_by_the_rules_of_the_format(events: list[TraceEvent]) -> None:
    written = json.loads(json.dumps(trace_to_dict(Trace(tuple(events), process_id=7))))
    assert sorted(check_format(written)) == sorted(
        (each.name, each.thread_id, each.start_ns / 1000, each.end_ns / 1000) for each in events
    )


def test_nested_intervals_are_paired_from_the_inside_out() -> None:
    events = (TraceEvent("inner", 5, 2000, 3000), TraceEvent("outer", 5, 1000, 4000, failed=True))
    written = trace_to_dict(Trace(events, process_id=7, thread_names={5: "MainThread"}))
    assert written["traceEvents"] == [
        {"name": "thread_name", "ph": "M", "pid": 7, "tid": 5, "args": {"name": "MainThread"}},
        {
            "name": "outer",
            "cat": "assay",
            "ph": "B",
            "ts": 1.0,
            "pid": 7,
            "tid": 5,
            "args": {"failed": True},
        },
        {"name": "inner", "cat": "assay", "ph": "B", "ts": 2.0, "pid": 7, "tid": 5},
        {"name": "inner", "cat": "assay", "ph": "E", "ts": 3.0, "pid": 7, "tid": 5},
        {"name": "outer", "cat": "assay", "ph": "E", "ts": 4.0, "pid": 7, "tid": 5},
    ]


def test_a_trace_is_written_as_json(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    write_chrome_trace(Trace((TraceEvent("ü", 1, 0, 5),), process_id=7, num_dropped=3), path)
    written = json.loads(path.read_text(encoding="utf-8"))
    assert check_format(written) == [("ü", 1, 0, 0.005)]
    assert written["otherData"] == {"num_dropped": 3}
