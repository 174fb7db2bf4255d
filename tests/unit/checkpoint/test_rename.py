"""Keys get new names; no two become one in silence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.checkpoint.rename import (
    RenameRule,
    append_module_prefix,
    rename_by_rules,
    replace_module_prefix,
    strip_wrappers,
)
from assay.errors import ConfigError, ModelError

KEYS = st.dictionaries(st.text("abm_.", min_size=1, max_size=8), st.integers(), max_size=6)


@given(state_dict=KEYS, prefix=st.text("ab.", max_size=4))
def test_a_prefix_put_in_front_comes_off_again(state_dict: dict[str, int], prefix: str) -> None:
    assert replace_module_prefix(append_module_prefix(state_dict, prefix), prefix) == state_dict


@given(state_dict=KEYS, prefix=st.text("ab.", max_size=3), new=st.text("ab.", max_size=3))
def test_no_value_is_lost(state_dict: dict[str, int], prefix: str, new: str) -> None:
    before = dict(state_dict)
    try:
        result = replace_module_prefix(state_dict, prefix, new)
    except ModelError:
        result = before
    assert sorted(result.values()) == sorted(state_dict.values())
    assert state_dict == before


def test_only_the_front_is_replaced() -> None:
    assert replace_module_prefix({"module.module.w": 1, "a.module.w": 2}, "module.", "m.") == {
        "m.module.w": 1,
        "a.module.w": 2,
    }


def test_two_keys_that_would_become_one_are_an_error() -> None:
    with pytest.raises(ModelError, match=r"'w' and 'module\.w' would both become 'w'"):
        replace_module_prefix({"w": 1, "module.w": 2}, "module.")
    with pytest.raises(ModelError, match="would both become"):
        strip_wrappers({"_orig_mod.w": 1, "w": 2})
    with pytest.raises(ModelError, match="would both become"):
        rename_by_rules({"a1": 1, "a2": 2}, [RenameRule(r"\d", "")])


@pytest.mark.parametrize(
    ("key", "stripped"),
    [
        ("module.module.w", "w"),
        ("module._orig_mod.w", "w"),
        ("_orig_mod.module.w", "w"),
        ("layer._orig_mod.w", "layer.w"),
        ("a._fsdp_wrapped_module._checkpoint_wrapped_module.b", "a.b"),
        ("layer.module.w", "layer.module.w"),
        ("my_orig_mod.w", "my_orig_mod.w"),
    ],
)
def test_wrappers_are_stripped_where_wrappers_put_them(key: str, stripped: str) -> None:
    assert strip_wrappers({key: 1}) == {stripped: 1}


def test_rules_are_taken_in_order() -> None:
    rules = [RenameRule.parse(r"^blocks\.(\d+)=layer\1"), RenameRule.parse("layer0=first")]
    assert rename_by_rules({"blocks.0.w": 1, "blocks.1.w": 2}, rules) == {
        "first.w": 1,
        "layer1.w": 2,
    }


def test_an_equals_sign_in_a_pattern() -> None:
    assert RenameRule.parse(r"a\=b=c").pattern == r"a\=b"


@pytest.mark.parametrize("text", ["nothing", "(=a", r"a=\1"])
def test_a_malformed_rule_is_said(text: str) -> None:
    with pytest.raises(ConfigError, match=r"no rule|malformed"):
        RenameRule.parse(text)


def test_a_rule_that_matches_nothing_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="matches none of the 1 names"):
        rename_by_rules({"a": 1}, [RenameRule("b", "c")])
