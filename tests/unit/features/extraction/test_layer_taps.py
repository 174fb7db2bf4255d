"""Layers are tapped by name and pooled to one vector an image, or refused with the way out."""

from __future__ import annotations

import sys
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from assay.errors import ConfigError, ModelError
from assay.features.layer_spec import LayerSpec
from assay.features.layer_taps import LayerTaps, pool_output


class Gives(nn.Module):
    """Gives what ``function`` makes of the input."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, pixels: Tensor) -> Any:
        return self.function(pixels)


class Holder(nn.Module):
    """Calls its layer ``times`` times."""

    def __init__(self, layer: nn.Module, times: int = 1) -> None:
        super().__init__()
        self.layer = layer
        self.times = times

    def forward(self, pixels: Tensor) -> Tensor:
        for _ in range(self.times):
            self.layer(pixels)
        return pixels


def tapped(layer: nn.Module, pool: str = "avg", *, times: int = 1) -> Tensor:
    """The features of a layer over a batch of two images."""
    with LayerTaps(Holder(layer, times), [LayerSpec("layer", pool)]) as taps:
        return taps.features_of(torch.ones(2, 3, 4, 5))["layer"]


def maps() -> Tensor:
    return torch.arange(2 * 3 * 2 * 2, dtype=torch.float32).reshape(2, 3, 2, 2)


def tokens() -> Tensor:
    return torch.arange(2 * 4 * 3, dtype=torch.float32).reshape(2, 4, 3)


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        ("avg", [[1.5, 5.5, 9.5], [13.5, 17.5, 21.5]]),
        ("max", [[3.0, 7.0, 11.0], [15.0, 19.0, 23.0]]),
        ("gem:1", [[1.5, 5.5, 9.5], [13.5, 17.5, 21.5]]),
        ("flatten", np.arange(24.0).reshape(2, 12).tolist()),
    ],
)
def test_feature_maps_are_pooled_over_height_and_width(
    pool: str, expected: list[list[float]]
) -> None:
    np.testing.assert_allclose(pool_output(maps(), LayerSpec("x", pool)), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        ("avg", [[4.5, 5.5, 6.5], [16.5, 17.5, 18.5]]),
        ("max", [[9.0, 10.0, 11.0], [21.0, 22.0, 23.0]]),
        ("cls", [[0.0, 1.0, 2.0], [12.0, 13.0, 14.0]]),
        ("flatten", np.arange(24.0).reshape(2, 12).tolist()),
    ],
)
def test_tokens_are_pooled_over_the_sequence(pool: str, expected: list[list[float]]) -> None:
    assert pool_output(tokens(), LayerSpec("x", pool)).tolist() == expected


@pytest.mark.parametrize("pool", ["avg", "max", "gem:3", "cls", "flatten", "none"])
def test_vectors_stay_as_they_are(pool: str) -> None:
    vectors = torch.tensor([[1.0, -2.0], [3.0, 4.0]])

    assert torch.equal(pool_output(vectors, LayerSpec("x", pool)), vectors)


def test_the_generalised_mean_is_the_root_of_the_mean_power() -> None:
    expected = (maps().double().clamp(min=1e-6) ** 3).mean((2, 3)) ** (1 / 3)

    np.testing.assert_allclose(pool_output(maps(), LayerSpec("x", "gem:3")), expected, rtol=1e-5)


def test_more_than_two_spatial_dimensions_are_pooled_together() -> None:
    video = torch.rand(2, 3, 4, 5, 6)

    np.testing.assert_allclose(
        pool_output(video, LayerSpec("x")), video.flatten(2).mean(2), rtol=1e-5
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64])
def test_features_are_float32_whatever_the_layer_gives(dtype: torch.dtype) -> None:
    pooled = pool_output(maps().to(dtype), LayerSpec("x"))

    assert pooled.dtype == torch.float32
    assert pooled[0].tolist() == [1.5, 5.5, 9.5]


def test_half_precision_maps_are_summed_in_full_precision() -> None:
    large = torch.full((1, 1, 64, 64), 1000.0, dtype=torch.float16)  # their sum overflows float16

    assert pool_output(large, LayerSpec("x")).item() == 1000.0


@pytest.mark.parametrize("pool", ["none", "cls"])
def test_a_pool_that_does_not_fit_feature_maps_is_refused(pool: str) -> None:
    with pytest.raises(ModelError, match=rf"'x'.*\(2, 3, 2, 2\).*'{pool}'.*Pool it by avg"):
        pool_output(maps(), LayerSpec("x", pool))


@pytest.mark.parametrize("pool", ["flatten", "none", "cls", "avg"])
def test_what_a_later_layer_does_in_place_does_not_show(pool: str) -> None:
    output = torch.ones(2, 3) if pool in ("none", "avg") else torch.ones(2, 3, 4)

    pooled = pool_output(output, LayerSpec("x", pool))
    output.zero_()

    assert pooled.min() == 1


@pytest.mark.parametrize(
    "wrap",
    [
        lambda pixels: (pixels, None),
        lambda pixels: [None, pixels],
        lambda pixels: OrderedDict(loss=None, hidden=(pixels, 2 * pixels)),
    ],
    ids=["tuple", "list", "nested dict"],
)
def test_the_first_tensor_of_a_compound_output_counts(wrap: Any) -> None:
    assert tapped(Gives(wrap)).tolist() == [[1.0] * 3] * 2


@pytest.mark.parametrize(
    ("gives", "message"),
    [
        (lambda _pixels: None, "gives no tensor but NoneType"),
        (lambda _pixels: ({}, []), "gives no tensor but tuple"),
        (lambda pixels: pixels.sum(), r"shape \(\)"),
        (lambda pixels: pixels.reshape(8, -1), "8 rows for a batch of 2 images"),
        (lambda pixels: torch.complex(pixels, pixels), "complex"),
    ],
)
def test_an_output_that_is_no_vector_an_image_is_refused(gives: Any, message: str) -> None:
    with pytest.raises(ModelError, match=rf"'layer'.*{message}"):
        tapped(Gives(gives))


def test_a_layer_that_never_runs_is_named() -> None:
    with pytest.raises(ModelError, match="'layer' did not run"):
        tapped(nn.Identity(), times=0)


def test_a_layer_that_runs_twice_is_refused_as_ambiguous() -> None:
    with pytest.raises(ModelError, match="'layer' runs more than once"):
        tapped(nn.Identity(), times=2)


def test_an_unknown_layer_is_refused() -> None:
    with pytest.raises(ModelError, match="'lay'"):
        LayerTaps(Holder(nn.Identity()), [LayerSpec("lay")])


def test_hooks_are_gone_after_the_block_even_if_it_fails() -> None:
    holder = Holder(nn.Identity())

    with pytest.raises(ZeroDivisionError), LayerTaps(holder, [LayerSpec("layer")]):
        raise ZeroDivisionError

    assert not holder.layer._forward_hooks


def test_threads_do_not_see_each_others_features() -> None:
    with (
        LayerTaps(Holder(nn.Identity()), [LayerSpec("layer")]) as taps,
        ThreadPoolExecutor(4) as pool,
    ):
        values = list(
            pool.map(lambda i: taps.features_of(torch.full((1, 1, 2, 2), i))["layer"], range(200))
        )

    assert [value.item() for value in values] == list(range(200))


@pytest.mark.parametrize(
    "pool", ["mean", "gem", "gem:", "gem:0", "gem:-1", "gem:inf", "gem:x", "gem:P", ""]
)
def test_an_unknown_pool_is_refused_with_the_known_ones(pool: str) -> None:
    with pytest.raises(ConfigError, match=r"'layer4'.*gem:3"):
        LayerSpec("layer4", pool)


def leave(_pixels: Tensor) -> Tensor:
    sys.exit(0)


@pytest.mark.parametrize("error", [AttributeError, OSError, MemoryError, StopIteration])
def test_whatever_the_models_own_code_raises_is_told(error: type[Exception]) -> None:
    def fail(_pixels: Tensor) -> Tensor:
        raise error("boom")

    with pytest.raises(ModelError, match=rf"fails on a batch .*{error.__name__}: .*boom"):
        tapped(Gives(fail))


def test_a_model_that_leaves_the_program_has_failed() -> None:
    with pytest.raises(ModelError, match="SystemExit: 0"):
        tapped(Gives(leave))


@pytest.mark.parametrize(
    ("gives", "message"),
    [
        (lambda pixels: pixels.flatten(1).to_sparse(), "a sparse tensor"),
        (lambda pixels: pixels.flatten(1).to_sparse_csr(), "a sparse tensor"),
        (lambda pixels: torch.nested.nested_tensor(list(pixels.flatten(1))), "a ragged tensor"),
        (lambda pixels: pixels.to("meta"), "an? empty tensor"),
    ],
)
def test_a_tensor_that_is_not_dense_is_refused(gives: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        tapped(Gives(gives))
