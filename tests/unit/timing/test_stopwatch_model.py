"""The stopwatch against a model of ten lines, over sequences of calls good and bad."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import InstrumentError
from assay.testing import reset_instruments
from assay.timing import Stopwatch

NAMES = st.sampled_from("abc")
CALLS = st.one_of(
    st.tuples(st.sampled_from(["start", "end", "once", "end once"]), NAMES),
    st.tuples(st.sampled_from(["finish", "wait"]), st.just("")),
)


class Model:
    """What the stopwatch is to do, told without its haste. A refused call changes nothing."""

    def __init__(self, warmup: int) -> None:
        self.left, self.now, self.iterations = warmup, 0, 0
        self.running, self.ignored, self.once = {}, set(), {}
        self.samples: dict[str, list[int]] = {}

    def call(self, what: str, name: str) -> bool:
        """Whether the call is allowed."""
        if what == "wait":
            self.now += 1
        elif what == "once":
            if name in self.once:
                return False
            self.once[name] = [self.now]
        elif what == "end once":
            if len(self.once.get(name, [])) != 1:
                return False
            self.once[name].append(self.now)
        elif what == "finish":
            if self.running:
                return False
            self.iterations += self.left == 0
            self.left = max(0, self.left - 1)
        elif what == "start":
            if name in self.running:
                return False
            self.ignored.discard(name)
            (self.ignored.add(name) if self.left else self.running.update({name: self.now}))
        elif name in self.running:
            self.samples.setdefault(name, []).append(self.now - self.running.pop(name))
        elif name in self.ignored:
            self.ignored.discard(name)
        else:
            return self.left > 0
        return True


@given(st.integers(0, 2), st.booleans(), st.lists(CALLS, max_size=40))
@settings(max_examples=400, deadline=None)
def test_any_sequence_of_calls_does_what_the_model_does(
    warmup: int, traced: bool, calls: list[tuple[str, str]]
) -> None:
    reset_instruments()
    model = Model(warmup)
    stopwatch = Stopwatch(
        warmup, None, False, clock_ns=lambda: model.now * 1_000_000, trace_events=10 * traced
    )
    methods = {
        "start": stopwatch.start_meas,
        "end": stopwatch.end_meas,
        "once": stopwatch.start_one_time_measurement,
        "end once": stopwatch.end_one_time_measurement,
        "finish": lambda _: stopwatch.finish_iter(),
        "wait": lambda _: None,
    }
    for what, name in calls:
        refused = True
        with contextlib.suppress(InstrumentError):
            methods[what](name)
            refused = False
        assert model.call(what, name) == (not refused), (what, name)
    summary = stopwatch.summary()
    measured = {each.name: each.host for each in summary.measurements if each.host is not None}
    assert measured.keys() == model.samples.keys()
    for name, samples in model.samples.items():
        assert measured[name].count == len(samples)
        assert measured[name].total_ms == sum(samples)
        assert (measured[name].min_ms, measured[name].max_ms) == (min(samples), max(samples))
    assert summary.running == tuple(sorted(model.running))
    assert summary.num_iterations == model.iterations
    assert {each.name: each.elapsed_ms for each in summary.one_time} == {
        name: times[1] - times[0] if len(times) == 2 else None for name, times in model.once.items()
    }
