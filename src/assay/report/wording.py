"""How numbers and names are written, on the terminal and on the page alike."""

from __future__ import annotations

import math
import unicodedata
from typing import Any

__all__ = [
    "display_width",
    "format_bytes",
    "format_count",
    "format_difference",
    "format_duration",
    "format_number",
    "format_range",
    "format_score",
    "format_signed",
    "printable",
    "printable_tree",
    "shorten",
    "shorten_middle",
]

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_MINUS = "\N{MINUS SIGN}"
_DIRECTION_MARKS = frozenset(("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"))


def format_range(low: float, high: float, digits: int = 3) -> str:
    """The range from one score to another.

    >>> format_range(0.97512, 0.9891)
    '0.975 to 0.989'
    """
    return f"{format_score(low, digits)} to {format_score(high, digits)}"


def format_score(value: float, digits: int = 3) -> str:
    """A score in 0..1, or "undefined" for NaN.

    A score below 1 is never rounded up to it: it gets as many more digits as that takes, up to 6.

    >>> format_score(0.98765), format_score(0.99961), format_score(1.0)
    ('0.988', '0.9996', '1.000')
    """
    if math.isnan(value):
        return "undefined"
    value = round(value, 9)  # a sum of floats may miss 1 by its last bits
    for places in range(digits, 7):
        text = f"{value:.{places}f}"
        if value >= 1 or float(text) < 1:
            return text
    return ">0.999999"


def format_signed(value: float) -> str:
    """A decision value: two decimals, with a true minus sign.

    >>> format_signed(-0.314)
    '−0.31'
    """
    return f"{value:.2f}".replace("-", _MINUS)


def format_difference(value: float) -> str:
    """A difference of two scores: four decimals and its sign, a true minus if it is below 0.

    >>> format_difference(-0.0123), format_difference(0.5)
    ('−0.0123', '+0.5000')
    """
    return f"{value:+.4f}".replace("-", _MINUS)


def format_number(value: float) -> str:
    """A number in its shortest usual form.

    >>> format_number(10.0), format_number(1e-05)
    ('10', '1e-05')
    """
    return f"{value:g}"


def format_count(count: int) -> str:
    """A count with thousands separated.

    >>> format_count(1797)
    '1,797'
    """
    return f"{count:,}"


def format_bytes(count: int) -> str:
    """A size in decimal units.

    >>> format_bytes(812), format_bytes(43_210), format_bytes(5_000_000)
    ('812 B', '43 kB', '5 MB')
    """
    if count < 1000:
        return f"{count} B"
    return f"{count / 1e3:.0f} kB" if count < 999_500 else f"{round(count / 1e6, 1):g} MB"


def format_duration(elapsed_s: float) -> str:
    """A duration, as exact as its reader needs.

    >>> format_duration(0.0421), format_duration(3.21), format_duration(75), format_duration(7500)
    ('0.04 s', '3.2 s', '1 min 15 s', '2 h 5 min')
    """
    if elapsed_s < 1:
        return f"{elapsed_s:.2f} s"
    if elapsed_s < 10:
        return f"{elapsed_s:.1f} s"
    seconds = round(elapsed_s)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"


def printable(text: str, *, keep_lines: bool = False) -> str:
    """``text`` with what no terminal, HTML or XML can carry replaced.

    Control characters, lone surrogates (as in file names that are not UTF-8), non-characters and
    marks that turn the direction of what follows become U+FFFD; tabs and line breaks become spaces,
    unless ``keep_lines``.

    >>> printable("a\\x1b[31mb\\n")
    'a�[31mb '
    """
    if text.isprintable():
        return text
    spaced = text if keep_lines else text.replace("\n", " ").replace("\t", " ")
    kept = "\n\t" if keep_lines else ""
    return "".join(_REPLACEMENT if _is_unprintable(c) and c not in kept else c for c in spaced)


def printable_tree(value: Any) -> Any:
    """A copy of JSON-like data with every text in it, keys included, made printable."""
    if isinstance(value, str):
        return printable(value, keep_lines=True)
    if isinstance(value, dict):
        return {printable(str(key)): printable_tree(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [printable_tree(item) for item in value]
    return value


def display_width(text: str) -> int:
    """How many columns ``text`` takes: 2 for a wide character, 0 for a combining one.

    >>> display_width("abc"), display_width("数字")
    (3, 4)
    """
    return sum(_columns(character) for character in text)


def shorten(text: str, width: int) -> str:
    """``text`` cut at its end to at most ``width`` columns.

    >>> shorten("a rather long name", 10)
    'a rather …'
    """
    return text if display_width(text) <= width else _head(text, width - 1) + "…"


def shorten_middle(text: str, width: int) -> str:
    """``text`` cut in its middle to at most ``width`` columns, for paths.

    >>> shorten_middle("photos/train/cat/0001.jpg", 15)
    'photos/…001.jpg'
    """
    if display_width(text) <= width:
        return text
    tail = (width - 1) // 2
    return _head(text, width - 1 - tail) + "…" + _head(text[::-1], tail)[::-1]


def _head(text: str, width: int) -> str:
    used = 0
    for place, character in enumerate(text):
        used += _columns(character)
        if used > width:
            return text[:place]
    return text


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def _is_unprintable(character: str) -> bool:
    return (
        unicodedata.category(character) in ("Cc", "Cs")
        or unicodedata.bidirectional(character) in _DIRECTION_MARKS
        or ord(character) & 0xFFFE == 0xFFFE
    )
