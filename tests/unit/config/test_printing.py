from __future__ import annotations

import enum
import json
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from assay.config import (
    AttrDict,
    compose,
    convert_to_attrdict,
    masked_text,
    print_cfg,
    to_plain,
)

SECRETS = {
    "password": "hunter1",
    "db": {"dbPassword": "hunter2", "port": 5432},
    "HF_TOKEN": "hunter3",
    "api-keys": ["hunter4", {"deep": "hunter5"}],
    "client_secret": {"value": "hunter6", "number": 7777},
    "credentials": ("hunter8",),
    "url": "https://me:hunter9@example.org/a?token=hunter10&size=3",
    "text": "see s3://hunter11@bucket, api_key='hunter12'",
}


class Kind(enum.IntEnum):
    ONE = 1


@pytest.mark.parametrize("make", [dict, AttrDict, OmegaConf.create], ids=["dict", "attr", "omega"])
def test_no_secret_is_printed_or_stored(
    make: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    data = {**SECRETS, "credentials": list(SECRETS["credentials"])}
    print_cfg(make({"section": data}))
    printed = capsys.readouterr().out
    stored = json.dumps(to_plain(make({"section": data})))

    for text in (printed, stored):
        assert "hunter" not in text
        assert "7777" not in text
        assert "https://***@example.org/a?token=***&size=3" in text
        assert "5432" in text


def test_what_only_looks_like_a_secret_stays() -> None:
    harmless = {
        "tokenizer": "bpe",
        "num_tokens": 196,
        "max_token": 7,
        "password": "",
        "token": None,
        "use_secret": True,
        "url": "https://example.org/a@b?size=3",
        "email": "me@example.org",
        "layer": "a=b",
    }

    assert to_plain(harmless) == harmless


def test_a_command_is_shown_without_its_secrets() -> None:
    command = (
        "assay x config.LOSS.api_key=abc 'config.LOSS.token=\"a b\"' config.RUN.OUTPUT_DIR=out"
    )

    assert masked_text(command) == (
        "assay x config.LOSS.api_key=*** 'config.LOSS.token=***' config.RUN.OUTPUT_DIR=out"
    )


def test_what_is_stored_is_strict_json_and_shares_nothing() -> None:
    data: dict[Any, Any] = {
        "tuple": (1, 2),
        "path": PurePosixPath("a/b"),
        "numpy": [np.float32(0.5), np.int64(3), np.bool_(True), np.float64("nan")],
        "infinite": [float("inf"), float("-inf"), float("nan")],
        "enum": Kind.ONE,
        3: None,
        "object": {1},
    }
    plain = to_plain(data)

    assert json.loads(json.dumps(plain, allow_nan=False)) == {
        "tuple": [1, 2],
        "path": "a/b",
        "numpy": [0.5, 3, True, "nan"],
        "infinite": ["inf", "-inf", "nan"],
        "enum": 1,
        "3": None,
        "object": "{1}",
    }
    assert data["tuple"] == (1, 2)


def test_interpolations_are_resolved_where_they_are_stored_not_where_they_are_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cfg = OmegaConf.create({"a": 1, "b": "${a}"})
    print_cfg(cfg)

    assert capsys.readouterr().out == "a: 1\nb: ${a}\n"
    assert to_plain(cfg) == {"a": 1, "b": 1}


def test_what_is_printed_is_a_file_of_settings(
    capsys: pytest.CaptureFixture[str], write_settings: Callable[..., Path]
) -> None:
    whole, _ = convert_to_attrdict(compose(["config=demo"]))
    print_cfg(whole)
    folder = write_settings(printed=capsys.readouterr().out)

    assert convert_to_attrdict(compose(["config=printed"], config_dir=folder))[0] == whole


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,5}", fullmatch=True),
        st.text(alphabet="01e+-._ntfru~#: '\"\\\n", max_size=6)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.integers()
        | st.booleans()
        | st.none(),
        max_size=4,
    )
)
def test_omegaconf_reads_what_is_printed_as_it_was(data: dict[str, Any]) -> None:
    import contextlib
    import io

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print_cfg({"section": data})

    assert OmegaConf.to_container(OmegaConf.create(out.getvalue())) == {"section": data}
