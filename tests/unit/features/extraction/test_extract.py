"""Images and a frozen model in: whole shards out, or one clear error."""

from __future__ import annotations

import errno
import json
import os
import sys
import threading
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from assay.errors import (
    AssayWarning,
    ConfigError,
    DataError,
    ModelError,
    OutputError,
)
from assay.features.datasets import open_images
from assay.features.extract import ExtractOptions, LayerSpec, extract_features
from assay.features.forward_passes import frozen_forward
from assay.features.models import load_model, weights_digest
from assay.runtime.signals import Terminated

LAYERS = [LayerSpec("conv"), LayerSpec("head")]
QUICK = ExtractOptions(batch_size=4, num_workers=0, device="cpu", num_threads=1)


def test_each_row_is_what_the_model_gives_for_the_image_with_its_label_and_index(
    tmp_path: Path, Pictures: Any, tiny_model: Any, extract: Any
) -> None:
    images, model = Pictures(), tiny_model()

    extract(tmp_path, model, images)

    features, targets, inds = (
        np.load(tmp_path / f"rank0_train_head_{kind}.npy")
        for kind in ("features", "targets", "inds")
    )
    pixels = torch.stack([model.transform(images.load(index)) for index in range(len(images))])
    np.testing.assert_allclose(features, model.module(pixels).numpy(), rtol=1e-4, atol=1e-6)
    assert features.dtype == np.float32
    assert targets.dtype == inds.dtype == np.int64
    assert np.array_equal(targets, images.targets)
    assert np.array_equal(inds, np.arange(len(images)))


def test_several_layers_come_from_one_pass_over_the_images(
    tmp_path: Path, Pictures: Any, extract: Any, merged: Any
) -> None:
    images = Pictures()

    extract(tmp_path, images=images)

    assert images.loaded == list(range(len(images)))
    assert merged(tmp_path, "conv").features.shape == (11, 5)
    assert merged(tmp_path, "head").features.shape == (11, 7)


def test_a_layer_shows_its_output_before_a_later_layer_changes_it_in_place(
    tmp_path: Path, extract: Any, merged: Any
) -> None:
    extract(tmp_path, layers=[LayerSpec("conv", "flatten"), LayerSpec("relu", "flatten")])

    before, after = merged(tmp_path, "conv").features, merged(tmp_path, "relu").features
    assert (before < 0).any()
    assert np.array_equal(np.maximum(before, 0), after)


def test_a_rank_takes_every_nth_image(tmp_path: Path, extract: Any) -> None:
    results = extract(tmp_path, world_size=3)

    assert np.load(tmp_path / "rank1_train_head_inds.npy").tolist() == [1, 4, 7, 10]
    assert [result.num_rows for result in results] == [4, 4, 3]


@pytest.mark.parametrize("world_size", [2, 3, 20])
@pytest.mark.parametrize("num_threads", [1, 3])
def test_any_number_of_ranks_and_threads_gives_the_same_bits(
    tmp_path: Path, world_size: int, num_threads: int, extract: Any, merged: Any, same_bits: Any
) -> None:
    extract(tmp_path / "one")
    extract(
        tmp_path / "many", world_size=world_size, options=replace(QUICK, num_threads=num_threads)
    )

    for layer in ("conv", "head"):
        assert same_bits(merged(tmp_path / "one", layer), merged(tmp_path / "many", layer))


@pytest.mark.parametrize("in_features", [5, 17, 65])
@pytest.mark.parametrize("out_features", [2, 7, 11])
def test_a_small_linear_layer_over_odd_rows_gives_the_same_bits_at_each_place_of_a_pass(
    in_features: int, out_features: int
) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(in_features, out_features))
    rows = torch.randn(16, in_features)

    with frozen_forward(
        module,
        [LayerSpec("1")],
        device=torch.device("cpu"),
        amp=None,
        channels_last=False,
    ) as forward:
        once = forward(rows)["1"]
        turned = forward(rows.roll(5, 0))["1"]

    assert np.array_equal(np.roll(turned, -5, axis=0), once)
    np.testing.assert_allclose(once, module(rows).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_worker_processes_give_the_same_bits(
    tmp_path: Path, extract: Any, merged: Any, same_bits: Any
) -> None:
    extract(tmp_path / "none")
    extract(tmp_path / "two", options=replace(QUICK, num_workers=2))

    assert same_bits(merged(tmp_path / "none"), merged(tmp_path / "two"))


@pytest.mark.parametrize("channels_last", [False, True])
def test_a_real_model_on_real_digits_gives_the_same_bits_on_one_and_on_two_ranks(
    tmp_path: Path, channels_last: bool, extract: Any, merged: Any, same_bits: Any
) -> None:
    model = load_model("efficientnet-lite0", resize=(64, 64))
    images = open_images("digits", [], split="train", limit=41)
    layers = [LayerSpec("_blocks.10"), LayerSpec("_avg_pooling")]
    one = ExtractOptions(
        batch_size=16, num_workers=0, device="cpu", num_threads=1, channels_last=channels_last
    )

    extract(tmp_path / "one", model, images, layers, options=one)
    extract(
        tmp_path / "two", model, images, layers, world_size=2, options=replace(one, num_threads=2)
    )

    for layer in layers:
        alone = merged(tmp_path / "one", layer.name)
        assert same_bits(alone, merged(tmp_path / "two", layer.name))
        assert len(alone.inds) == 41


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("amp", [None, "bf16", "fp16"])
def test_a_gpu_gives_the_same_bits_on_one_and_on_two_ranks(
    tmp_path: Path, amp: Any, Pictures: Any, extract: Any, merged: Any, same_bits: Any
) -> None:
    model = load_model("torchvision:resnet18", weights="random", resize=(64, 64))
    options = replace(QUICK, device="cuda", amp=amp, batch_size=16)
    layers = [LayerSpec("layer3"), LayerSpec("fc")]

    extract(tmp_path / "one", model, Pictures(41), layers, options=options)
    extract(tmp_path / "two", model, Pictures(41), layers, world_size=2, options=options)

    assert same_bits(merged(tmp_path / "one", "fc"), merged(tmp_path / "two", "fc"))


def test_half_precision_gives_float32_features_close_to_full_precision(
    tmp_path: Path, extract: Any, merged: Any
) -> None:
    extract(tmp_path / "full")
    extract(tmp_path / "half", options=replace(QUICK, amp="bf16"))

    half = merged(tmp_path / "half").features
    assert half.dtype == np.float32
    assert not np.array_equal(half, merged(tmp_path / "full").features)
    np.testing.assert_allclose(half, merged(tmp_path / "full").features, atol=0.05)


def test_several_labels_an_image_stand_in_several_columns(
    tmp_path: Path, blank_images: Any, extract: Any, merged: Any
) -> None:
    targets = np.array([[1, 0, -1], [0, 1, 1], [0, 0, 0]])

    extract(tmp_path, images=blank_images(targets))

    assert np.array_equal(merged(tmp_path).targets, targets)


def test_a_layer_name_with_a_slash_is_one_file_and_is_found_again(
    tmp_path: Path, tiny_model: Any, extract: Any, merged: Any
) -> None:
    module = nn.Sequential(OrderedDict([("a/b c", nn.Conv2d(3, 2, 3))]))
    model = replace(tiny_model(), module=module)

    extract(tmp_path, model, layers=[LayerSpec("a/b c")])

    assert (tmp_path / "rank0_train_a%2Fb%20c_features.npy").is_file()
    assert merged(tmp_path, "a/b c").features.shape == (11, 2)


def test_progress_counts_each_image_once(tmp_path: Path, Pictures: Any, extract: Any) -> None:
    counts: list[int] = []

    extract(tmp_path, images=Pictures(11, bad=(3,)), progress=counts.append,
            options=replace(QUICK, bad_images="skip"))  # fmt: skip

    assert counts == [4, 4, 3]


def test_the_callers_model_random_numbers_and_threads_stay_as_they_are(
    tmp_path: Path, tiny_model: Any, extract: Any
) -> None:
    model = tiny_model()
    digest, strides = weights_digest(model.module), model.module.conv.weight.stride()
    threads, state = torch.get_num_threads(), torch.get_rng_state()

    extract(tmp_path, model, options=replace(QUICK, channels_last=True, num_workers=1))

    assert weights_digest(model.module) == digest
    assert model.module.conv.weight.stride() == strides
    assert not model.module.conv._forward_hooks
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


def test_nothing_but_shards_and_the_manifest_stays_in_the_folder(
    tmp_path: Path, extract: Any
) -> None:
    extract(tmp_path, layers=[LayerSpec("head")])

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "rank0_train_head_features.npy",
        "rank0_train_head_inds.npy",
        "rank0_train_head_targets.npy",
        "rank0_train_manifest.json",
    ]


def test_the_manifest_says_how_the_shards_were_made(
    tmp_path: Path, tiny_model: Any, extract: Any
) -> None:
    model = tiny_model()

    extract(tmp_path, model)

    manifest = json.loads((tmp_path / "rank0_train_manifest.json").read_text())
    assert manifest["made_with"]["weights"] == model.weights_digest
    assert manifest["made_with"]["torch"] == torch.__version__
    assert (manifest["rank"], manifest["world_size"], manifest["rows"]) == (0, 1, 11)
    assert [layer["spec"]["name"] for layer in manifest["layers"]] == ["conv", "head"]


def test_a_full_disk_is_a_clear_error_and_leaves_no_file_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extract: Any
) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full, raising=False)
        with pytest.raises(OutputError, match="The disk is full"):
            extract(tmp_path)

    assert not list(tmp_path.glob("*.npy*"))
    assert extract(tmp_path)[0].num_rows == 11


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path, extract: Any) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(OutputError, match="choose another folder"):
        extract(tmp_path / "file" / "below")


def test_features_that_are_not_finite_are_warned_of_with_layer_and_count(
    tmp_path: Path, tiny_model: Any, extract: Any
) -> None:
    model = tiny_model()
    model.module.head.bias[0] = float("nan")

    with pytest.warns(AssayWarning, match="'head': 11 of 11 rows .* NaN") as warned:
        extract(tmp_path, model)

    assert len(warned) == 1


def test_an_unknown_layer_is_refused_before_anything_is_written(
    tmp_path: Path, extract: Any
) -> None:
    with pytest.raises(ModelError, match=r"'haed'.* Did you mean 'head'"):
        extract(tmp_path / "out", layers=[LayerSpec("haed")])

    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"layers": []}, "No layer"),
        ({"layers": [LayerSpec("head"), LayerSpec("head", "max")]}, "'head' is named twice"),
        ({"options": replace(QUICK, device="toaster")}, "'toaster' is not known"),
        ({"options": replace(QUICK, device="meta")}, "'meta'"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(
    tmp_path: Path, changed: dict[str, Any], message: str, extract: Any
) -> None:
    with pytest.raises(ConfigError, match=message):
        extract(tmp_path, **changed)


def test_without_an_accelerator_auto_is_the_cpu_and_gpu_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extract: Any, merged: Any, same_bits: Any
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    if hasattr(torch, "accelerator"):
        monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)

    extract(tmp_path / "cpu")
    extract(tmp_path / "auto", options=replace(QUICK, device="auto"))

    assert same_bits(merged(tmp_path / "cpu"), merged(tmp_path / "auto"))
    with pytest.raises(ConfigError, match='"gpu": PyTorch finds no accelerator'):
        extract(tmp_path / "gpu", options=replace(QUICK, device="gpu"))


@pytest.mark.parametrize(("rank", "world_size"), [(2, 2), (-1, 2), (0, 0)])
def test_a_rank_outside_the_world_is_refused(
    tmp_path: Path, rank: int, world_size: int, Pictures: Any, tiny_model: Any
) -> None:
    with pytest.raises(ConfigError, match="ranks count from 0"):
        extract_features(
            tiny_model(), Pictures(), LAYERS, tmp_path, split="train", rank=rank,
            world_size=world_size,
        )  # fmt: skip


def test_all_wrong_options_come_in_one_error() -> None:
    with pytest.raises(ConfigError) as raised:
        ExtractOptions(batch_size=0, num_workers=-1, amp="int8", bad_images="ask")  # type: ignore[arg-type]

    for name in ("batch_size", "num_workers", "amp", "bad_images"):
        assert name in str(raised.value)


def test_an_empty_set_of_images_is_an_error(tmp_path: Path, Pictures: Any, extract: Any) -> None:
    with pytest.raises(DataError, match="no image"):
        extract(tmp_path, images=Pictures(0))


def test_an_error_in_the_model_reaches_the_caller_and_ends_the_threads(
    tmp_path: Path, tiny_model: Any, extract: Any
) -> None:
    module = nn.Sequential(nn.Conv2d(3, 5, 3), nn.Linear(99, 2))

    with pytest.raises(ModelError, match="shapes"):
        extract(
            tmp_path,
            replace(tiny_model(), module=module),
            layers=[LayerSpec("0")],
            options=replace(QUICK, num_threads=3),
        )

    assert not [thread for thread in threading.enumerate() if "assay" in thread.name]


def test_a_model_that_cannot_be_copied_is_said_to_be_one(
    tmp_path: Path, extract: Any, tiny_model: Any
) -> None:
    model = tiny_model()
    model.module.lock = threading.Lock()

    with pytest.raises(ModelError, match=r"cannot be copied by copy\.deepcopy.*cannot pickle"):
        extract(tmp_path, model)


def test_a_model_that_leaves_the_program_in_a_pass_has_failed(
    tmp_path: Path, extract: Any, tiny_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nn.ReLU, "forward", lambda *_: sys.exit(0))

    with pytest.raises(ModelError, match="SystemExit: 0"):
        extract(tmp_path)


class EndsWhenCopied(nn.ReLU):
    def __deepcopy__(self, _memo: Any) -> Any:
        raise Terminated(143)


def test_a_signal_to_end_amid_the_copying_of_a_model_is_no_failure_of_it(
    tmp_path: Path, extract: Any, tiny_model: Any
) -> None:
    model = tiny_model()
    model.module.relu = EndsWhenCopied()

    with pytest.raises(Terminated):
        extract(tmp_path, model)
