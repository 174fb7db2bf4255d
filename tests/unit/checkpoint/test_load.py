"""Weights are fitted into a model under whatever prefix, and what did not fit is told."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchvision
from torch import Tensor, nn

from assay.checkpoint import LoadReport, load_weights
from assay.errors import AssayWarning, ModelError

WEIGHTS = {"conv.weight": torch.arange(6.0).reshape(2, 3), "conv.bias": torch.ones(2)}


class SmallNet(nn.Module):
    """Two convolutions with batch norm, then a classifier."""

    def __init__(self, num_classes: int = 4, width: int = 3) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3)
        self.bn = nn.BatchNorm2d(width)
        self.layer1 = nn.Sequential(nn.Conv2d(width, width, 3), nn.BatchNorm2d(width))
        self.fc = nn.Linear(width, num_classes)


def seeded(build: Callable[[], nn.Module], seed: int = 1) -> nn.Module:
    """A module with weights and statistics that are its seed's own."""
    generator = torch.Generator().manual_seed(seed)
    module = build()
    for tensor in module.state_dict().values():
        if tensor.is_floating_point():
            tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)
    return module


def prefixed(state_dict: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {prefix + name: value for name, value in state_dict.items()}


def equal(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> bool:
    return ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)


PREFIXES = [
    "", "module.", "model.", "backbone.", "encoder.", "module.backbone.", "trunk._feature_blocks.",
    "_orig_mod.", "module.encoder_q.", "odd name/é.0.",
]  # fmt: skip


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_prefix_in_the_file_is_cut_off(prefix: str) -> None:
    source, module = seeded(SmallNet), seeded(SmallNet, 2)
    report = load_weights(module, prefixed(source.state_dict(), prefix))
    assert equal(module.state_dict(), source.state_dict())
    assert (report.prefix_removed, report.prefix_added) == (prefix, "")


def test_a_prefix_of_the_model_is_put_on() -> None:
    source = seeded(SmallNet)
    module = nn.Sequential(OrderedDict(trunk=seeded(SmallNet, 2)))
    report = load_weights(module, prefixed(source.state_dict(), "module."))
    assert equal(module.state_dict(), prefixed(source.state_dict(), "trunk."))
    assert (report.prefix_removed, report.prefix_added) == ("module.", "trunk.")


def test_a_part_of_the_file_that_needs_no_change_is_loaded_too() -> None:
    source, module = seeded(SmallNet).state_dict(), seeded(SmallNet, 2)
    mixed = {k if k.startswith("fc") else f"backbone.{k}": v for k, v in source.items()}
    assert load_weights(module, mixed).head_loaded
    assert equal(module.state_dict(), source)


@pytest.mark.parametrize(
    ("first", "second", "taken"),
    [("student.backbone.", "teacher.backbone.", "teacher.backbone."),
     ("module.encoder_q.", "module.encoder_k.", "module.encoder_q."),
     ("model_ema.", "model.", "model."),
     ("target_network.", "online_network.", "online_network.")],
)  # fmt: skip
def test_of_two_networks_in_one_state_dict_the_copy_is_left(
    first: str, second: str, taken: str
) -> None:
    both = {first: seeded(SmallNet).state_dict(), second: seeded(SmallNet, 2).state_dict()}
    module = seeded(SmallNet, 3)
    report = load_weights(module, prefixed(both[first], first) | prefixed(both[second], second))
    assert report.prefix_removed == taken
    assert equal(module.state_dict(), both[taken])
    assert len(report.unexpected) == len(both[taken])


def test_a_missing_classifier_is_left_as_it_was_and_listed() -> None:
    source, module = seeded(SmallNet).state_dict(), seeded(SmallNet, 2)
    own_bias = module.state_dict()["fc.bias"].clone()
    report = load_weights(module, {k: v for k, v in source.items() if not k.startswith("fc.")})
    assert report.missing == ("fc.weight", "fc.bias")
    assert (report.head, report.head_loaded) == ("fc", False)
    assert torch.equal(module.state_dict()["fc.bias"], own_bias)


def test_a_classifier_of_other_classes_is_left_as_it_was_and_listed() -> None:
    source, module = seeded(lambda: SmallNet(num_classes=9)), seeded(SmallNet, 2)
    report = load_weights(module, source.state_dict())
    assert report.shape_mismatch == ("fc.weight", "fc.bias")
    assert not report.head_loaded
    assert torch.equal(module.state_dict()["stem.weight"], source.state_dict()["stem.weight"])


def test_a_projection_head_in_place_of_the_classifier_is_listed_as_unexpected() -> None:
    source = seeded(SmallNet).state_dict()
    body = {k: v for k, v in source.items() if not k.startswith("fc.")}
    report = load_weights(
        SmallNet(), body | {"fc.0.weight": torch.ones(3, 3), "queue": torch.ones(2)}
    )
    assert report.unexpected == ("fc.0.weight", "queue")


def test_missing_counters_are_fine() -> None:
    source, module = seeded(SmallNet).state_dict(), SmallNet()
    counters = tuple(k for k in source if k.endswith("num_batches_tracked"))
    report = load_weights(module, {k: v for k, v in source.items() if k not in counters})
    assert report.missing == counters
    assert report.head_loaded


def test_a_full_match_reports_every_name() -> None:
    source = seeded(SmallNet).state_dict()
    report = load_weights(SmallNet(), source, source="w.pth")
    assert report == LoadReport(
        source="w.pth", loaded=tuple(source), missing=(), shape_mismatch=(), unexpected=(),
        prefix_removed="", prefix_added="", head="fc",
    )  # fmt: skip
    assert report.head_loaded


def test_a_last_layer_that_is_not_linear_is_no_classifier() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
    with pytest.raises(ModelError, match=r"2 are missing from the file: 0\.weight, 0\.bias"):
        load_weights(module, {"1.weight": torch.ones(2), "1.bias": torch.ones(2)})


def test_half_precision_weights_are_widened() -> None:
    source, module = seeded(SmallNet).half(), SmallNet()
    load_weights(module, source.state_dict())
    assert module.stem.weight.dtype == torch.float32
    assert torch.equal(module.stem.weight, source.state_dict()["stem.weight"].float())


@pytest.mark.parametrize("fault", ["missing", "shape", "dtype"])
def test_a_gap_in_the_body_is_an_error_and_leaves_the_model_as_it_was(fault: str) -> None:
    state_dict, module = dict(seeded(SmallNet).state_dict()), seeded(SmallNet, 2)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    weight = state_dict.pop("layer1.0.weight")
    if fault == "shape":
        state_dict["layer1.0.weight"] = weight[:, :2]
    elif fault == "dtype":
        state_dict["layer1.0.weight"] = weight.to(torch.int8)
    with pytest.raises(ModelError, match=r"half\.pth: only \d+ of .* layer1\.0\.weight"):
        load_weights(module, state_dict, source="half.pth")
    assert equal(module.state_dict(), before)


def test_weights_of_another_network_name_both_sides() -> None:
    message = r"w\.pth: none of its 2 tensors fits.*conv\.weight.*stem\.weight"
    with pytest.raises(ModelError, match=message):
        load_weights(SmallNet(), WEIGHTS, source="w.pth")


@pytest.mark.parametrize("state_dict", [
    {}, {"fc.weight": torch.ones(4, 3), "fc.bias": torch.ones(4)},
    {"bn.num_batches_tracked": torch.tensor(3)},
], ids=["nothing", "classifier", "counter"])  # fmt: skip
def test_a_file_that_fits_only_the_classifier_or_a_counter_is_refused(state_dict: Any) -> None:
    with pytest.raises(ModelError, match="fits the model"):
        load_weights(SmallNet(), state_dict)


def test_many_faults_are_counted_and_the_first_are_named() -> None:
    source = torchvision.models.resnet50(weights=None).state_dict()
    with pytest.raises(
        ModelError, match=r"do not fit: layer1\.0\.conv1\.weight .* more\."
    ) as error:
        load_weights(torchvision.models.resnet18(weights=None), source)
    assert len(str(error.value)) < 1200


def test_weights_of_a_deeper_network_that_leave_no_gap_are_warned_of() -> None:
    source = torchvision.models.resnet34(weights=None).state_dict()
    with pytest.warns(AssayWarning, match=r"layer1\.2\.conv1\.weight.*larger model"):
        load_weights(torchvision.models.resnet18(weights=None), source)


def test_the_state_dict_given_stays_as_it_was() -> None:
    state_dict = prefixed(seeded(SmallNet).state_dict(), "module.")
    before = {name: value.clone() for name, value in state_dict.items()}
    module = SmallNet()
    load_weights(module, state_dict)
    module.stem.weight.data.add_(1)
    assert equal(state_dict, before)
