from __future__ import annotations

import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from assay.config import compose, config_names, convert_to_attrdict
from assay.errors import ConfigError

GLOBAL = "# @package _global_\n"
Write = Callable[..., Path]


def test_the_defaults_alone_are_a_whole_configuration(defaults: Any) -> None:
    assert list(defaults) == ["VERSION", "node_id", "engine_name", "config"]
    assert defaults.config.SVM.max_iter == 2000


def test_config_demo_chooses_the_shipped_file_and_overrides_come_after_it() -> None:
    cfg = compose(["config.SVM.cross_val_folds=5", "config=demo"])

    assert cfg.config.MODEL.TRUNK.NAME == "efficientnet-lite0"
    assert cfg.config.DATA.TRAIN.DATA_SOURCES == ["digits"]
    assert cfg.config.SVM.cross_val_folds == 5
    assert cfg.config.SVM.max_iter == 2000


def test_values_are_lists_dicts_text_numbers_and_interpolations() -> None:
    cfg = compose(
        [
            "config.TRANSFORM.RESIZE=[64,32]",
            "config.SVM.costs={base: 2, power_range: [0, 3]}",
            "config.RUN.OUTPUT_DIR='a, b = c'",
            "config.LOG_FREQUENCY=${config.SVM.max_iter}",
            "++config.DATA.TEST_FRACTION=2.5e-1",
            "config.DATA.TRAIN.TRANSFORMS=[{name: Crop, size: 3}]",
            "config.SVM.low_shot.k_values.0=3",
        ]
    )
    _, config = convert_to_attrdict(cfg)

    assert config.TRANSFORM.RESIZE == [64, 32]
    assert config.SVM.costs == {"costs_list": [0.1, 0.01], "base": 2, "power_range": [0, 3]}
    assert config.RUN.OUTPUT_DIR == "a, b = c"
    assert config.LOG_FREQUENCY == 2000
    assert config.DATA.TEST_FRACTION == 0.25
    assert config.DATA.TRAIN.TRANSFORMS[0].size == 3
    assert config.SVM.low_shot.k_values[:2] == [3, 2]


def test_free_form_sections_take_keys_of_ones_own_and_lose_keys() -> None:
    cfg = compose(
        [
            "+config.LOSS.my_loss.alpha=0.5",
            "config.METERS.my_meter={topk: [1, 5]}",
            "~config.LOSS.swav_loss",
            "config.MODEL.HEAD.PARAMS=[[mlp, {dims: [2048, 1000]}]]",
        ]
    )

    assert cfg.config.LOSS.my_loss.alpha == 0.5
    assert cfg.config.METERS.my_meter.topk == [1, 5]
    assert "swav_loss" not in cfg.config.LOSS
    assert cfg.config.MODEL.HEAD.PARAMS[0][1].dims == [2048, 1000]


def test_a_users_folder_adds_files_that_may_build_on_shipped_ones(write_settings: Write) -> None:
    folder = write_settings(
        mine=f"{GLOBAL}defaults: [demo, _self_]\nconfig:\n  SVM: {{max_iter: 7}}\n",
        group__fast="# @package _global_\nconfig:\n  SVM: {max_iter: 8}\n",
        plain="SVM:\n  max_iter: 9\n",
    )

    def chosen(*overrides: str) -> tuple[int, str]:
        config = compose(overrides, config_dir=folder).config
        return config.SVM.max_iter, config.MODEL.TRUNK.NAME

    assert config_names(folder) == ["command/knn", "demo", "group/fast", "mine", "plain"]
    assert chosen("config=mine") == (7, "efficientnet-lite0")
    assert chosen("config=group/fast") == (8, "resnet")
    assert chosen("config=mine", "+config/group=fast") == (8, "efficientnet-lite0")
    assert chosen("+config=mine") == (7, "efficientnet-lite0")
    assert chosen("config=plain") == (9, "resnet")
    assert chosen("config=[mine,group/fast]") == (8, "efficientnet-lite0")
    assert chosen("config=mine", "~config") == (2000, "resnet")


def test_a_folder_of_any_name_will_do(tmp_path: Path) -> None:
    folder = tmp_path / 'it\'s ${mine}, [my] "own"='
    (folder / "config").mkdir(parents=True)
    (folder / "config" / "2024.yaml").write_text(f"{GLOBAL}config: {{SEED_VALUE: 5}}\n")

    assert compose(["config='2024'"], config_dir=folder).config.SEED_VALUE == 5


def test_nothing_around_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_settings: Write
) -> None:
    folder = write_settings(mine=f"{GLOBAL}config: {{SEED_VALUE: 5}}\n")
    monkeypatch.chdir(tmp_path)
    handlers, level = list(logging.root.handlers), logging.root.level
    before = sorted(tmp_path.rglob("*"))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cfg = compose(["config=mine"], config_dir=Path(folder.name))

    assert cfg.config.SEED_VALUE == 5
    assert sorted(tmp_path.rglob("*")) == before
    assert Path.cwd() == tmp_path
    assert (logging.root.handlers, logging.root.level) == (handlers, level)
    assert not GlobalHydra.instance().is_initialized()


@pytest.mark.parametrize("overrides", [[], ["config=nothing"], ["config.SVM.max_iter=0"]])
def test_a_hydra_that_is_running_goes_on_afterwards(tmp_path: Path, overrides: list[str]) -> None:
    (tmp_path / "app.yaml").write_text("a: 1\n")
    with initialize_config_dir(str(tmp_path), version_base="1.2"):
        if overrides:
            with pytest.raises(ConfigError):
                compose(overrides)
        else:
            compose(overrides)

        assert hydra_compose("app", ["a=2"]).a == 2
    assert not GlobalHydra.instance().is_initialized()


def test_threads_may_compose_at_the_same_time() -> None:
    with ThreadPoolExecutor(4) as pool:
        seeds = pool.map(lambda n: compose([f"config.SEED_VALUE={n}"]).config.SEED_VALUE, range(6))

        assert list(seeds) == list(range(6))


def test_unknown_keys_cannot_be_added_to_what_comes_out(defaults: Any) -> None:
    with pytest.raises(AttributeError):
        defaults.config.SVM.new = 1


def test_compose_attrdict_yaml_compose_gives_the_same(write_settings: Write) -> None:
    cfg = compose(
        ["config=demo", "config.LOSS.mine={rate: 1e-5, words: ['1e-5', 'null', ' x', 'ü: #']}"]
    )
    whole, _ = convert_to_attrdict(cfg)
    folder = write_settings(saved=GLOBAL + OmegaConf.to_yaml(OmegaConf.create(whole.to_dict())))

    again, _ = convert_to_attrdict(compose(["config=saved"], config_dir=folder))

    assert again == whole


def faults_of(overrides: list[str], folder: Path | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        compose(overrides, config_dir=folder)
    return str(caught.value)


def test_a_file_that_does_not_exist_lists_those_that_do(write_settings: Write) -> None:
    folder = write_settings(mine="", group__fast="")

    assert "config/dmo.yaml" in faults_of(["config=dmo"])
    assert "Did you mean 'demo'?" in faults_of(["config=dmo"])
    assert "demo, group/fast, mine" in faults_of(["config=nothing"], folder)
    assert "group/fast" in faults_of(["+config/group=fats"], folder)
    assert "demo, group/fast, mine" in faults_of(["config=group/nothing"], folder)


def test_a_fault_of_a_file_names_file_line_and_key(
    write_settings: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_settings(
        mine=f"{GLOBAL}\nconfig:\n  SVM:\n    maxiter: 3\n    costs:\n      costs_list:\n"
        "        - 1\n        - -2\n"
    )
    message = faults_of(["config=mine"], folder)

    assert message.startswith("2 settings are wrong:")
    assert f"config.SVM.maxiter: there is no such setting ({folder}/config/mine.yaml:5)" in message
    assert "Did you mean config.SVM.max_iter?" in message
    assert (
        "config.SVM.costs.costs_list[1]: expected a number from 1e-12 to 1e+12, given -2" in message
    )
    assert "mine.yaml:9)" in message

    monkeypatch.chdir(folder.parent)
    assert f"({folder.name}/config/mine.yaml:5)" in faults_of(["config=mine"], Path(folder.name))


def test_the_last_to_set_a_key_is_named(write_settings: Write) -> None:
    folder = write_settings(
        first=f"{GLOBAL}config:\n  SVM: {{max_iter: 0}}\n",
        second=f"{GLOBAL}defaults: [first, _self_]\nconfig:\n  SVM: {{max_iter: -1}}\n",
    )

    assert "given -1" in faults_of(["config=second"], folder)
    assert "second.yaml:4" in faults_of(["config=second"], folder)
    third = faults_of(["config=second", "config.SVM.max_iter=-2"], folder)
    assert "given -2 (override 'config.SVM.max_iter=-2')" in third


def test_lines_follow_anchors_merge_keys_and_packages(write_settings: Write) -> None:
    folder = write_settings(
        anchors="DATA:\n  TRAIN: &split\n    DATA_LIMIT: 0\n    DROP_LAST: 1\n"
        "  TEST:\n    DROP_LAST: 2\n    <<: [*split]\n",
    )
    message = faults_of(["config=anchors"], folder)

    assert "config.DATA.TRAIN.DATA_LIMIT" in message
    assert "config.DATA.TEST.DATA_LIMIT" in message
    assert message.count("anchors.yaml:3") == 2
    assert "config.DATA.TEST.DROP_LAST" in message
    assert "anchors.yaml:6" in message


def test_faults_of_every_kind_come_in_one_error() -> None:
    message = faults_of(
        [
            "config.SVM.max_iter=0",
            "config.SVM.maxiter=4",
            "config.SVM.dual=true,false",
            "~config.SVM.nothing",
            "+config.SVM.normalize=true",
            "config.SVM.cls_list=${nowhere}",
            "no-value",
        ]
    )

    assert message.startswith("7 settings are wrong:")
    assert message.count("\n  - ") == 7


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("config:\n  SVM: [1,\n", "broken.yaml:3: not sound YAML"),
        ("config:\n\tSVM: 1\n", "broken.yaml:2: not sound YAML"),
        ("SEED_VALUE: 1\nSEED_VALUE: 2\n", "broken.yaml:2: not sound YAML.*SEED_VALUE"),
        ("- a\n- b\n", "config='broken'.*config/broken"),
        ("hello\n", r"config\.hello: there is no such setting"),
        ("SEED_VALUE: ${\n", r"config='broken'.*SEED_VALUE"),
        ("defaults: 5\n", "config/broken.*must be a list"),
        ("defaults: [nothing, _self_]\n", "config/nothing.yaml: there is no such file"),
        (f"{GLOBAL}defaults:\n  - /config: demo\n", "choose each other"),
        ("config:\n  SEED_VALUE: 1\n", "config.config.SEED_VALUE.*# @package _global_"),
        (f"{GLOBAL}config:\n  SVM:\n", r"config\.SVM: expected a section.*null.*broken\.yaml:3"),
        (f"{GLOBAL}SVM:\n  max_iter: 3\n", r"SVM\.max_iter.*Did you mean config\.SVM\.max_iter"),
    ],
)
def test_a_file_that_is_not_settings_is_named(text: str, words: str, write_settings: Write) -> None:
    folder = write_settings(broken=text)

    with pytest.raises(ConfigError, match=words):
        compose(["config='broken'"], config_dir=folder)


def test_a_file_that_is_not_utf8_is_named(write_settings: Write) -> None:
    folder = write_settings(broken="")
    (folder / "config" / "broken.yaml").write_bytes("SEED_VALUE: 1 # ü".encode("latin-1"))

    with pytest.raises(ConfigError, match=r"config=broken.*utf-8"):
        compose(["config=broken"], config_dir=folder)


def test_a_folder_that_is_missing_or_takes_a_shipped_name_is_refused(
    write_settings: Write, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        compose([], config_dir=tmp_path / "nowhere")
    folder = write_settings(demo="SEED_VALUE: 1\n")
    with pytest.raises(ConfigError, match=r"config/demo\.yaml: a shipped file has that name"):
        compose([], config_dir=folder)


@pytest.mark.parametrize("override", ["config=5", "config=null", "++config=demo"])
def test_a_choice_of_file_that_is_no_name_is_quoted(override: str) -> None:
    message = faults_of([override])

    assert message.startswith(f"override '{override}': write config=NAME")


def test_importing_it_brings_in_no_hydra_and_no_torch() -> None:
    code = "import sys, assay.config; print({'torch', 'hydra', 'omegaconf'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"


def test_composing_brings_in_no_torch() -> None:
    code = "import sys, assay.config as c; c.compose([]); print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )

    assert done.stdout.strip() == "False"
