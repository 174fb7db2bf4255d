from __future__ import annotations

import contextlib
import copy
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.config import AttrDict, assert_hydra_conf, compose, convert_to_attrdict
from assay.errors import ConfigError, ModelError

EXTRACTOR = [
    "config.MODEL.FEATURE_EVAL_SETTINGS.EVAL_MODE_ON=true",
    "config.MODEL.FEATURE_EVAL_SETTINGS.FREEZE_TRUNK_ONLY=true",
]
LAYERS = "config.MODEL.FEATURE_EVAL_SETTINGS.LINEAR_EVAL_FEAT_POOL_OPS_MAP"
TRUNK_ONLY = "config.MODEL.FEATURE_EVAL_SETTINGS.EXTRACT_TRUNK_FEATURES_ONLY=true"


def inferred(*overrides: str) -> AttrDict:
    _, config = convert_to_attrdict(compose(list(overrides)), infer=False)
    assert assert_hydra_conf(config) is None  # type: ignore[func-returns-value]
    return config


@pytest.mark.parametrize("meter", ["accuracy_list_meter", "mean_ap_list_meter"])
def test_the_meter_of_a_feature_extractor_has_one_meter_a_layer(meter: str) -> None:
    config = inferred(
        *EXTRACTOR,
        f"{LAYERS}=[[res4, [AdaptiveAvgPool2d, [[1, 1]]]], [res5, max], 'flatten:avg']",
        f"config.METERS.name={meter}",
    )

    assert config.METERS[meter] == {"num_meters": 3, "meter_names": ["res4", "res5", "flatten"]}


@pytest.mark.parametrize(
    "overrides",
    [
        [f"{LAYERS}=[[res4, max]]", "config.METERS.name=accuracy_list_meter"],
        [*EXTRACTOR, "config.METERS.name=accuracy_list_meter"],
        [*EXTRACTOR, f"{LAYERS}=[[res4, max]]"],
        [EXTRACTOR[0], f"{LAYERS}=[[res4, max]]", "config.METERS.name=accuracy_list_meter"],
    ],
)
def test_meters_of_anything_else_stay(overrides: list[str]) -> None:
    config = inferred(*overrides)

    assert config.METERS.accuracy_list_meter == {"num_meters": 1, "meter_names": []}


def test_ranks_that_only_extract_get_a_head_to_hold_on_to() -> None:
    config = inferred(*EXTRACTOR, TRUNK_ONLY)

    assert config.MODEL.HEAD.PARAMS == [["mlp", {"dims": [2048, 1000]}]]


@pytest.mark.parametrize(
    ("overrides", "heads"),
    [
        ([TRUNK_ONLY], []),
        ([*EXTRACTOR], []),
        ([*EXTRACTOR, TRUNK_ONLY, "config.DISTRIBUTED.NUM_PROC_PER_NODE=1"], []),
        ([*EXTRACTOR, TRUNK_ONLY, "config.MODEL.HEAD.PARAMS=[[mine, {}]]"], [["mine", {}]]),
    ],
)
def test_any_other_run_keeps_its_heads(overrides: list[str], heads: list[Any]) -> None:
    assert heads == inferred(*overrides).MODEL.HEAD.PARAMS


def test_labels_are_standard_where_there_are_sources() -> None:
    config = inferred("config.DATA.TRAIN.LABEL_SOURCES=[npy]")

    assert config.DATA.TRAIN.LABEL_TYPE == "standard"
    assert config.DATA.TEST.LABEL_TYPE == "sample_index"


def test_losses_and_rates_are_inferred_too() -> None:
    config = inferred(
        "config.LOSS.name=simclr_info_nce_loss",
        "config.OPTIMIZER.param_schedulers.lr.auto_lr_scaling.auto_scale=true",
        "config.DATA.TRAIN.BATCHSIZE_PER_REPLICA=64",
    )

    assert config.LOSS.simclr_info_nce_loss.buffer_params.effective_batch_size == 2 * 64 * 8
    assert config.OPTIMIZER.param_schedulers.lr["values"] == pytest.approx([0.2, 0.02, 0.002])
    assert config.OPTIMIZER.param_schedulers.lr_head == config.OPTIMIZER.param_schedulers.lr


def test_what_is_inferred_is_a_valid_configuration_and_stays_itself() -> None:
    config = inferred("config=demo")
    once = copy.deepcopy(config)

    assert_hydra_conf(config)

    assert config == once
    compose([])  # the shipped settings were not touched


def test_every_fault_comes_in_one_error_and_nothing_is_changed(tmp_path: Path) -> None:
    _, config = convert_to_attrdict(
        compose(
            [
                *EXTRACTOR,
                f"{LAYERS}=[[res4, max]]",
                "config.METERS.name=accuracy_list_metre",
                "config.LOSS.name=swav_loss",
                "config.OPTIMIZER.param_schedulers.lr.auto_lr_scaling.auto_scale=true",
                "config.OPTIMIZER.param_schedulers.lr.values=[]",
                "config.MODEL.WEIGHTS_INIT.PARAMS_FILE='http://127.0.0.1:1/w.pth'",
                f"config.CHECKPOINT.DIR='{tmp_path}'",
            ]
        ),
        infer=False,
    )
    before = copy.deepcopy(config)

    with pytest.raises(ConfigError) as caught:
        assert_hydra_conf(config)

    message = str(caught.value)
    assert message.startswith("4 settings are wrong:")
    assert "no section config.METERS.accuracy_list_metre. Did you mean 'accuracy_list" in message
    assert "config.MODEL.HEAD.PARAMS: swav_loss needs one head" in message
    assert "config.DATA.TRAIN.COLLATE_FUNCTION: swav_loss needs" in message
    assert "config.OPTIMIZER.param_schedulers.lr.values: expected at least one rate" in message
    assert config == before
    assert list(tmp_path.iterdir()) == []


@contextlib.contextmanager
def web_server(body: bytes, promised: int | None = None) -> Iterator[tuple[str, list[str]]]:
    """A server of one file on this machine: its address, and the paths that were asked for."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            if "missing" in self.path:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(body) if promised is None else promised))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def settings_with_weights(url: str, folder: Path) -> AttrDict:
    _, config = convert_to_attrdict(compose([]), infer=False)
    config.MODEL.WEIGHTS_INIT.PARAMS_FILE = url
    config.CHECKPOINT.DIR = str(folder)
    return config


def test_weights_on_the_web_are_fetched_once_and_named_by_their_file(tmp_path: Path) -> None:
    with web_server(b"weights") as (address, asked):
        url = f"{address.replace('http', 'HTTP')}/a/model.torch"
        first, second = (settings_with_weights(url, tmp_path) for _ in range(2))
        assert_hydra_conf(first)
        assert_hydra_conf(second)

    path = Path(first.MODEL.WEIGHTS_INIT.PARAMS_FILE)
    assert path.read_bytes() == b"weights"
    assert path.is_relative_to(tmp_path / "params_file_cache")
    assert path.name == "model.torch"
    assert second == first
    assert asked == ["/a/model.torch"]


def test_weights_of_one_name_from_two_addresses_are_kept_apart(tmp_path: Path) -> None:
    with web_server(b"weights") as (address, _):
        first = settings_with_weights(f"{address}/a/model.torch", tmp_path)
        second = settings_with_weights(f"{address}/b/model.torch", tmp_path)
        assert_hydra_conf(first)
        assert_hydra_conf(second)

    names = [settings.MODEL.WEIGHTS_INIT.PARAMS_FILE for settings in (first, second)]
    assert names[0] != names[1]


@pytest.mark.parametrize("name", ["/", "/..", "/x/..%2f..%2fevil", "/%00", "/" + "n" * 300])
def test_an_address_of_any_form_stays_in_the_cache(name: str, tmp_path: Path) -> None:
    with web_server(b"weights") as (address, _):
        config = settings_with_weights(address + name, tmp_path)
        assert_hydra_conf(config)

    path = Path(config.MODEL.WEIGHTS_INIT.PARAMS_FILE).resolve()
    assert path.is_relative_to((tmp_path / "params_file_cache").resolve())
    assert path.read_bytes() == b"weights"


@pytest.mark.parametrize(("path", "promised"), [("/missing.torch", None), ("/w.torch", 100)])
def test_weights_that_cannot_be_fetched_whole_leave_nothing_behind(
    path: str, promised: int | None, tmp_path: Path
) -> None:
    with web_server(b"weights", promised) as (address, _):
        config = settings_with_weights(address + path, tmp_path)
        before = copy.deepcopy(config)

        with pytest.raises(ModelError, match="cannot be fetched"):
            assert_hydra_conf(config)

    assert config == before
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


@pytest.mark.parametrize("weights", ["", "random", "weights/model.torch", "ftp://x/y"])
def test_weights_that_are_no_address_on_the_web_stay(weights: str, tmp_path: Path) -> None:
    config = settings_with_weights(weights, tmp_path)

    assert_hydra_conf(config)

    assert weights == config.MODEL.WEIGHTS_INIT.PARAMS_FILE
