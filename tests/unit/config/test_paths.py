from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest

from assay.config import AttrDict, compose, convert_to_attrdict, resolve_paths

START = Path("/start/here")


def test_relative_paths_lie_where_the_command_was_started() -> None:
    _, config = convert_to_attrdict(
        compose(
            [
                "config.DATA.TRAIN.DATA_PATHS=[photos, /abs/photos, '../up']",
                "config.DATA.TEST.LABEL_PATHS=[labels.npy]",
                "config.MODEL.WEIGHTS_INIT.PARAMS_FILE=weights.pth",
                "config.RUN.OUTPUT_DIR=runs/x",
                "config.LOSS.swav_loss.output_dir=dumps",
            ]
        )
    )
    before = deepcopy(config)
    changed = resolve_paths(config, START)

    assert changed.DATA.TRAIN.DATA_PATHS == [
        "/start/here/photos",
        "/abs/photos",
        "/start/here/../up",
    ]
    assert changed.DATA.TEST.LABEL_PATHS == ["/start/here/labels.npy"]
    assert changed.MODEL.WEIGHTS_INIT.PARAMS_FILE == "/start/here/weights.pth"
    assert changed.RUN.OUTPUT_DIR == "/start/here/runs/x"
    assert changed.LOSS.swav_loss.output_dir == "/start/here/dumps"
    assert changed.CHECKPOINT.DIR == "/start/here"
    assert changed.MODEL.TRUNK.NAME == "resnet"
    assert config == before
    assert type(changed) is AttrDict


def with_weights(path: str) -> str:
    config = resolve_paths({"MODEL": {"WEIGHTS_INIT": {"PARAMS_FILE": path}}}, START)
    return str(config.MODEL.WEIGHTS_INIT.PARAMS_FILE)


@pytest.mark.parametrize("path", ["", "random", "https://example.org/w.pth", "/abs/w.pth"])
def test_urls_words_and_empty_text_are_no_relative_paths(path: str) -> None:
    assert with_weights(path) == path


def test_the_bundled_digits_are_no_path() -> None:
    config = resolve_paths({"DATA": {"TRAIN": {"DATA_PATHS": ["digits"]}}}, START)

    assert config.DATA.TRAIN.DATA_PATHS == ["digits"]


def test_home_is_known() -> None:
    assert with_weights("~/w.pth") == str(Path.home() / "w.pth")


def test_keys_that_are_not_there_stay_away() -> None:
    assert resolve_paths({}, START) == {}
    assert resolve_paths({"DATA": None, "RUN": {}}, START) == {"DATA": None, "RUN": {}}


def test_resolving_twice_changes_nothing_more() -> None:
    _, config = convert_to_attrdict(compose(["config=demo"]))
    once = resolve_paths(config, START)

    assert resolve_paths(once, Path("/elsewhere")) == once
