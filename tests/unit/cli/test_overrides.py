from __future__ import annotations

from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st

from assay.cli.overrides import overrides_from_flags, quote


def parse(override: str) -> object:
    value = OverridesParser.create().parse_override(override).value()
    if isinstance(value, list):
        return [getattr(item, "text", item) for item in value]
    return getattr(value, "text", value)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20))
def test_any_text_survives_hydras_grammar(text: str) -> None:
    assert parse(f"key={quote(text)}") == text


@given(st.text(alphabet="\\'\"$ ,[]{}=:a\n", max_size=8))
def test_backslashes_and_quotes_in_any_order_survive(text: str) -> None:
    assert parse(f"key={quote(text)}") == text


def test_lists_and_numbers_keep_their_types() -> None:
    assert parse(f"key={quote(['a,b', 'c'])}") == ["a,b", "c"]
    assert parse(f"key={quote(3)}") == 3
    assert parse(f"key={quote(True)}") is True


def test_flags_that_were_not_given_make_no_override() -> None:
    keys = {"model": ["m"], "train": ["t"], "force": ["f"], "workers": ["w"]}
    flags = {"model": None, "train": (), "force": False, "workers": 0}

    assert overrides_from_flags(keys, flags) == ["w=0"]


def test_one_flag_may_stand_for_several_settings() -> None:
    assert overrides_from_flags({"batch": ["a", "b"]}, {"batch": 8}) == ["a=8", "b=8"]
