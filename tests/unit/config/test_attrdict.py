from __future__ import annotations

import copy
import json
import pickle
from collections import namedtuple
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from assay.config import AttrDict

Point = namedtuple("Point", ["x", "y"])

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
trees = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        | st.tuples(inner, inner)
    ),
    max_leaves=12,
)
dicts = st.dictionaries(st.text(max_size=5), trees, max_size=4)


def every_dict_within(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [value, *(found for item in value.values() for found in every_dict_within(item))]
    if isinstance(value, (list, tuple)):
        return [found for item in value for found in every_dict_within(item)]
    return []


@given(dicts)
def test_every_dict_within_is_an_attrdict_and_equal_to_what_came_in(data: dict[str, Any]) -> None:
    config = AttrDict(data)

    assert config == data
    assert all(type(found) is AttrDict for found in every_dict_within(config))


@given(dicts)
def test_to_dict_gives_plain_dicts_back(data: dict[str, Any]) -> None:
    plain = AttrDict(data).to_dict()

    assert plain == data
    assert all(type(found) is dict for found in every_dict_within(plain))


@given(dicts)
def test_deep_copies_and_pickles_are_equal_and_attrdicts_throughout(data: dict[str, Any]) -> None:
    config = AttrDict(data)
    for twin in (copy.deepcopy(config), pickle.loads(pickle.dumps(config))):
        assert twin == config
        assert all(type(found) is AttrDict for found in every_dict_within(twin))


def test_keys_read_set_and_delete_as_attributes() -> None:
    config = AttrDict({"SVM": {"max_iter": 1}})

    config.SVM.max_iter = 2
    config.SVM.costs = {"base": [{"x": 1}]}
    assert config["SVM"]["max_iter"] == config.SVM.max_iter == 2
    assert config.SVM.costs.base[0].x == 1

    del config.SVM.costs
    assert config == {"SVM": {"max_iter": 2}}


def test_a_missing_key_is_an_attribute_error_that_names_the_nearest() -> None:
    config = AttrDict({"max_iter": 1, 3: 4})

    with pytest.raises(AttributeError, match=r"'max_itr'.*'max_iter'"):
        _ = config.max_itr
    with pytest.raises(AttributeError, match=r"'max_itr'.*'max_iter'"):
        del config.max_itr
    assert not hasattr(config, "nothing")
    assert getattr(config, "nothing", 5) == 5
    with pytest.raises(KeyError):
        _ = config["max_itr"]


def test_keys_that_are_methods_of_dict_are_items_alone() -> None:
    config = AttrDict({"items": [1], "copy": {"a": 1}})

    assert config["items"] == [1]
    assert list(config.items()) == [("items", [1]), ("copy", {"a": 1})]
    assert config["copy"].a == 1
    with pytest.raises(AttributeError, match=r"config\['items'\]"):
        config.items = 2
    with pytest.raises(AttributeError, match=r"config\['items'\]"):
        del config.items


def test_a_key_named_like_a_hook_of_python_is_not_taken_for_it() -> None:
    config = AttrDict({"__deepcopy__": 1, "__getstate__": 2, "__class__": 3})

    assert copy.deepcopy(config) == config
    assert pickle.loads(pickle.dumps(config)) == config


def test_keys_of_any_kind_and_name_are_items() -> None:
    config = AttrDict({1: "one", "two words": 2, "": 3})

    assert config[1] == "one"
    assert config["two words"] == 2
    assert config[""] == 3


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_pickle_protocol_keeps_it(protocol: int) -> None:
    config = AttrDict({"a": [{"b": 1}]})

    twin = pickle.loads(pickle.dumps(config, protocol))

    assert twin.a[0].b == 1


def test_later_assignments_of_every_kind_are_reached_into() -> None:
    config = AttrDict({})

    config["item"] = {"x": 1}
    config.update({"updated": ({"x": 2},)}, keyword={"x": 3})
    config.update([("pair", {"x": 4})])
    config.setdefault("default", {"x": 5})
    config |= {"joined": {"x": 6}}
    left, right = config | {"more": {"x": 7}}, {"more": {"x": 8}} | config

    assert config.item.x == 1
    assert config.updated[0].x == 2
    assert config.keyword.x == 3
    assert config.pair.x == 4
    assert config.default.x == 5
    assert config.joined.x == 6
    assert left.more.x == 7
    assert right.more.x == 8
    assert type(left) is type(right) is AttrDict
    assert "more" not in config


def test_setdefault_keeps_what_is_there() -> None:
    config = AttrDict({"a": 1})

    assert config.setdefault("a", 2) == 1
    assert config.setdefault("b") is None


def test_copy_is_shallow_and_stays_an_attrdict() -> None:
    config = AttrDict({"SVM": {"max_iter": 1}})
    for twin in (config.copy(), copy.copy(config)):
        twin.other = 1
        assert type(twin) is AttrDict
        assert twin.SVM is config.SVM
    assert "other" not in config


def test_what_the_caller_holds_is_not_changed() -> None:
    inner = {"x": 1}
    data = {"list": [inner], "dict": inner}

    config = AttrDict(data)
    config.list.append(2)
    config.dict.x = 2

    assert data == {"list": [{"x": 1}], "dict": {"x": 1}}
    assert type(data["dict"]) is dict


def test_an_attrdict_that_comes_in_is_kept_itself() -> None:
    section = AttrDict({"x": 1})
    config = AttrDict({"section": section})

    section.x = 2

    assert config.section.x == 2


def test_named_tuples_stay_named_tuples() -> None:
    config = AttrDict({"point": Point({"a": 1}, 2)})

    assert config.point.x.a == 1
    assert type(config.to_dict()["point"].x) is dict


def test_omegaconf_containers_come_in_resolved() -> None:
    cfg = OmegaConf.create({"a": 1, "b": [{"c": "${a}"}]})

    assert AttrDict(cfg).b[0].c == 1
    assert AttrDict({"nested": cfg.b}).nested[0].c == 1


def test_fromkeys_dir_and_json_work_as_for_a_dict() -> None:
    config = AttrDict.fromkeys(["a", "b"], {"x": 1})

    assert config.a.x == 1
    assert {"a", "b", "items"} <= set(dir(config))
    assert json.loads(json.dumps(config)) == config
    assert repr(config) == "{'a': {'x': 1}, 'b': {'x': 1}}"
