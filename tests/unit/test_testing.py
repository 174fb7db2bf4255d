from __future__ import annotations

from assay.testing import reset_instruments
from assay.timing import NVTXRangeWrapper, Stopwatch


def test_every_instrument_is_off_and_as_new_after_a_reset() -> None:
    reset_instruments()
    for _ in range(2):
        Stopwatch(0, None, False).start_meas("a")
        assert Stopwatch().summary().running == ("a",)
        reset_instruments()
        assert not Stopwatch().is_enabled
        assert not NVTXRangeWrapper().is_enabled
        assert Stopwatch().summary().measurements == ()


def test_a_reset_of_what_was_never_enabled_does_nothing() -> None:
    reset_instruments()
    reset_instruments()
    assert not Stopwatch().is_enabled
