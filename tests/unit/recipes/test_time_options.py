from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import ConfigError
from assay.recipes.time_options import (
    EXPORTS,
    TimeOptions,
    format_options,
    parse_exports,
    parse_options,
)

names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)


@pytest.mark.parametrize("text", ["1", "on", "Yes", "true", " 1 "])
def test_a_word_measures_with_the_defaults(text: str) -> None:
    assert parse_options(text) == TimeOptions()


@pytest.mark.parametrize("text", ["", "0", "off", "No", "false", "  "])
def test_a_word_switches_off(text: str) -> None:
    assert parse_options(text) is None


def test_every_option_can_be_given() -> None:
    text = (
        "warmup=10,print_every=100,sync=1,events=on,nvtx=0,cpu_usage=load,export=csv+json,"
        "report=no,quiet=1,out=runs/a"
    )

    assert parse_options(text) == TimeOptions(
        warmup=10,
        print_every=100,
        sync=True,
        events=True,
        cpu_usage="load",
        export=("json", "csv"),
        report=False,
        quiet=True,
        out=Path("runs/a"),
    )


def test_the_spelling_of_the_command_line_is_understood() -> None:
    assert parse_options("print-every=5") == TimeOptions(print_every=5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("warmpu=1", "'warmup'"),
        ("warmup", "lacks its value"),
        ("warmup=-1", "whole number of 0 or more"),
        ("print_every=0", "whole number of 1 or more"),
        ("sync=perhaps", "1 or 0"),
        ("export=xml", "json, csv, trace"),
        ("out=", "a folder"),
        ("out=a,,sync=1", "no option"),
    ],
)
def test_what_is_not_understood_is_answered_with_what_is(text: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=r"Accepted are 1, 0, or a list") as caught:
        parse_options(text)
    assert expected in str(caught.value)


@given(
    st.builds(
        TimeOptions,
        warmup=st.integers(0, 10**6),
        print_every=st.none() | st.integers(1, 10**6),
        sync=st.booleans(),
        events=st.booleans(),
        nvtx=st.booleans(),
        cpu_usage=st.none() | names.filter(lambda name: not name.endswith("\\")),
        export=st.sets(st.sampled_from(EXPORTS)).map(
            lambda some: tuple(name for name in EXPORTS if name in some)
        ),
        report=st.booleans(),
        quiet=st.booleans(),
        out=names.filter(str.strip).map(Path),
    )
)
def test_options_survive_their_text(options: TimeOptions) -> None:
    assert parse_options(format_options(options)) == options


@pytest.mark.parametrize("text", ["none", "NONE"])
def test_no_export_at_all_can_be_asked_for(text: str) -> None:
    assert parse_exports(text) == ()
