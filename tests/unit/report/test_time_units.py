from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from assay.report.time_units import format_ms

SCALES = {"ns": 1e-6, "µs": 1e-3, "ms": 1.0, "s": 1e3}


@given(st.floats(1e-6, 59_000))
def test_a_duration_is_right_to_three_figures_and_never_long(milliseconds: float) -> None:
    number, unit = format_ms(milliseconds).split(" ")

    assert abs(float(number) * SCALES[unit] / milliseconds - 1) < 0.0051
    assert len(number) <= 4
