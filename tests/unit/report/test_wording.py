from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.report.wording import (
    display_width,
    format_bytes,
    format_duration,
    format_score,
    format_signed,
    printable,
    printable_tree,
    shorten,
    shorten_middle,
)


@given(st.floats(0, 1 - 1e-8))
def test_a_score_below_one_is_never_written_as_one(value: float) -> None:
    assert not format_score(value).startswith("1")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.000"),
        (1.0 - 1e-16, "1.000"),
        (0.0, "0.000"),
        (0.99999996, ">0.999999"),
        (math.nan, "undefined"),
    ],
)
def test_the_ends_of_the_range_have_their_own_words(value: float, text: str) -> None:
    assert format_score(value) == text


@pytest.mark.parametrize(
    ("elapsed_s", "text"), [(59.7, "1 min 0 s"), (0.0, "0.00 s"), (3599.9, "1 h 0 min")]
)
def test_a_duration_rounds_before_it_chooses_its_units(elapsed_s: float, text: str) -> None:
    assert format_duration(elapsed_s) == text


def test_a_size_rounds_before_it_chooses_its_unit() -> None:
    assert format_bytes(999_600) == "1 MB"


def test_a_negative_score_has_a_minus_sign_and_no_hyphen() -> None:
    assert format_signed(-1.5) == "\N{MINUS SIGN}1.50"


@given(st.text())
def test_printable_text_can_be_encoded_and_is_stable(text: str) -> None:
    clean = printable(text)

    clean.encode("utf-8")
    assert printable(clean) == clean
    assert len(clean) == len(text)


def test_escape_sequences_surrogates_and_direction_marks_lose_their_power() -> None:
    assert printable("\x1b[31m\udc80\u202egnp.exe") == "\ufffd[31m\ufffd\ufffdgnp.exe"


def test_lines_are_kept_on_request_only() -> None:
    assert printable("a\nb") == "a b"
    assert printable("a\n\x07b", keep_lines=True) == "a\n\ufffdb"


def test_a_tree_becomes_printable_in_keys_values_and_lists_and_stays_unchanged_itself() -> None:
    tree = {"a\x00": ["b\x00", 1, None, {"c": True}]}

    assert printable_tree(tree) == {"a\ufffd": ["b\ufffd", 1, None, {"c": True}]}
    assert tree == {"a\x00": ["b\x00", 1, None, {"c": True}]}


@given(st.text(), st.integers(2, 40))
def test_shortened_text_fits_its_width(text: str, width: int) -> None:
    assert display_width(shorten(text, width)) <= width
    assert display_width(shorten_middle(text, width)) <= width


def test_text_that_fits_is_not_cut() -> None:
    assert shorten("数字", 4) == "数字"
    assert shorten_middle("abcd", 4) == "abcd"
