"""Durations from a nanosecond to days, each in the unit that suits it."""

from __future__ import annotations

from assay.report.wording import format_duration

__all__ = ["format_ms"]

_UNITS = ((1e-3, 1e6, "ns"), (1.0, 1e3, "µs"), (1e3, 1.0, "ms"), (60e3, 1e-3, "s"))


def format_ms(milliseconds: float) -> str:
    """A duration to three figures, in the unit that leaves no long number.

    >>> format_ms(0.0000421), format_ms(0.0421), format_ms(4.21), format_ms(4210)
    ('42.1 ns', '42.1 µs', '4.21 ms', '4.21 s')
    >>> format_ms(0), format_ms(0.9999999), format_ms(75_000), format_ms(180_000_000)
    ('0 ns', '1.00 ms', '1 min 15 s', '50 h 0 min')
    """
    if milliseconds == 0:
        return "0 ns"
    for limit, factor, unit in _UNITS:
        # By the rounded value, so that 999.9 µs becomes 1.00 ms.
        if float(f"{milliseconds:.3g}") < limit:
            value = milliseconds * factor
            text = f"{value:.3g}"
            decimals = 2 if float(text) < 10 else 1 if float(text) < 100 else 0
            return f"{value:.{decimals}f} {unit}"
    return format_duration(milliseconds / 1e3)
