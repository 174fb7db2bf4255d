"""A name becomes a frozen model with a digest; its layers are found by name."""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
import torchvision
from torch import nn

from assay.errors import ModelError
from assay.features import find_layers, list_layers, load_model, weights_digest
from assay.features.models import layer_outline

SQUEEZENET = "torchvision:squeezenet1_1"
TIMM_TEST_NET = "timm:test_resnet.r160_in1k"


# What every model is


@pytest.mark.parametrize("name", ["efficientnet-lite0", SQUEEZENET, TIMM_TEST_NET])
def test_a_loaded_model_is_frozen(name: str) -> None:
    model = load_model(name, weights="random")
    assert (model.name, model.weights) == (name, "random")
    assert not any(part.training for part in model.module.modules())
    assert not any(parameter.requires_grad for parameter in model.module.parameters())
    assert {p.device.type for p in model.module.parameters()} == {"cpu"}
    assert model.num_parameters == sum(p.numel() for p in model.module.parameters())
    assert model.weights_digest == weights_digest(model.module)


@pytest.mark.parametrize("name", ["efficientnet-lite0", SQUEEZENET, TIMM_TEST_NET])
def test_random_weights_are_the_same_each_time_and_leave_the_generator_alone(name: str) -> None:
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    first = load_model(name, weights="random")
    assert torch.equal(torch.rand(3), expected)
    assert load_model(name, weights="random").weights_digest == first.weights_digest


def test_loading_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    load_model("efficientnet-lite0")
    load_model("torchvision:googlenet", weights="random")
    assert capsys.readouterr() == ("", "")


def test_importing_the_room_brings_in_no_torch() -> None:
    code = "import sys, assay.features, assay.checkpoint; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_name_that_the_room_does_not_have_is_an_attribute_error() -> None:
    import assay.features

    assert set(assay.features.__all__) <= set(dir(assay.features))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = assay.features.nonsense


# Weights from a file


@pytest.mark.parametrize("prefix", ["", "module.", "teacher.backbone."])
def test_weights_from_a_file_replace_the_random_ones(tmp_path: Path, prefix: str) -> None:
    source = torchvision.models.squeezenet1_1(weights=None)
    renamed = {prefix + name: value for name, value in source.state_dict().items()}
    torch.save({"state_dict": renamed, "epoch": 3}, tmp_path / "mine.pth")
    model = load_model(SQUEEZENET, weights=tmp_path / "mine.pth")
    assert model.weights == "mine.pth"
    assert model.weights_digest == weights_digest(source)


def test_a_file_without_the_classifier_says_so_and_gives_one_digest(tmp_path: Path) -> None:
    body = {k: v for k, v in torchvision.models.resnet18(weights=None).state_dict().items()
            if not k.startswith("fc.")}  # fmt: skip
    torch.save({"student": body, "teacher": body}, tmp_path / "ssl.pth")
    first = load_model("torchvision:resnet18", weights=str(tmp_path / "ssl.pth"))
    assert first.weights == "ssl.pth [teacher] (classifier fc random)"
    torch.manual_seed(5)
    again = load_model("torchvision:resnet18", weights=str(tmp_path / "ssl.pth"))
    assert again.weights_digest == first.weights_digest


def test_a_file_of_another_model_names_file_and_tensors(tmp_path: Path) -> None:
    torch.save(nn.Linear(2, 2).state_dict(), tmp_path / "other.pth")
    with pytest.raises(ModelError, match=r"other\.pth: none of its 2 tensors fits"):
        load_model(SQUEEZENET, weights=tmp_path / "other.pth")


def test_a_missing_weights_file_is_named() -> None:
    with pytest.raises(ModelError, match=r"none\.pth: there is no such weights file"):
        load_model(SQUEEZENET, weights="/nowhere/none.pth")


# Layers


class Net(nn.Module):
    """A list of blocks, a shared layer under two names, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 3, 1)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(2, 2), nn.ReLU()) for _ in range(6))
        self.alias = self.blocks[0]
        self.head = nn.Linear(2, 2)


def test_layers_are_found_in_the_order_asked_for() -> None:
    net = Net()
    found = find_layers(net, ["head", "blocks.3.1", "stem"])
    assert list(found) == ["head", "blocks.3.1", "stem"]
    assert found["blocks.3.1"] is net.blocks[3][1]


def test_a_layer_under_two_names_is_found_under_both() -> None:
    net = Net()
    found = find_layers(net, ["alias", "blocks.0"])
    assert found["alias"] is found["blocks.0"]


def test_layers_are_listed_with_their_types_and_without_lists() -> None:
    layers = list_layers(Net())
    assert layers["blocks.0"] == "Sequential"
    assert layers["alias.1"] == "ReLU"
    assert "blocks" not in layers
    assert "" not in layers


def test_unknown_layers_are_all_named_with_neighbours_and_an_outline() -> None:
    with pytest.raises(ModelError) as error:
        find_layers(Net(), ["hed", "stem", "zzz", ""])
    message = str(error.value)
    assert "'hed'. Did you mean 'head'" in message
    assert "'zzz'" in message
    assert "no layer ''" in message
    assert "The layers are stem, blocks.0 to blocks.5, alias, head." in message


def test_a_list_of_layers_is_refused_with_what_it_holds() -> None:
    with pytest.raises(ModelError, match=r"'blocks' has no output.*: blocks\.0, .*blocks\.5\."):
        find_layers(Net(), ["blocks"])
    with pytest.raises(ModelError, match=r"'0' has no output.*: none\."):
        find_layers(nn.Sequential(nn.ModuleList()), ["0"])


class CalledList(nn.ModuleList):
    """A list that runs its layers, as torchvision's and timm's feature extractors do."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self:
            x = layer(x)
        return x


def test_a_list_that_can_be_called_is_a_layer() -> None:
    net = nn.Sequential(CalledList([nn.ReLU()]))
    assert find_layers(net, ["0"]) == {"0": net[0]}


def test_the_outline_looks_into_a_wrapper() -> None:
    with pytest.raises(ModelError, match=r"The layers are model\.stem, model\.blocks"):
        find_layers(Wrapper(), ["zzz"])


class Wrapper(nn.Module):
    """One model inside another."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Net()


# The digest


class Odd(nn.Module):
    """Tensors of every awkward kind."""

    def __init__(self) -> None:
        super().__init__()
        self.bf16 = nn.Parameter(torch.ones(2, 3, dtype=torch.bfloat16).T)
        self.fp16 = nn.Parameter(torch.ones(3, dtype=torch.float16))
        self.scalar = nn.Parameter(torch.tensor(1.5))
        self.empty = nn.Parameter(torch.empty(0, 3))
        self.register_buffer("flag", torch.tensor([True, False]))
        self.register_buffer("hidden", torch.ones(2), persistent=False)
        self.register_buffer("waves", torch.tensor([1 + 2j]).conj())
        self.register_buffer("float8", torch.ones(2).to(torch.float8_e4m3fn))
        self.register_buffer("none", None)


def test_equal_weights_have_one_digest_whatever_their_layout() -> None:
    first, second = Odd(), Odd()
    second.bf16 = nn.Parameter(second.bf16.detach().contiguous())
    assert not first.bf16.is_contiguous()
    assert weights_digest(first) == weights_digest(second)
    assert weights_digest(first).startswith("sha256:")


@pytest.mark.parametrize("name", ["bf16", "fp16", "scalar", "flag", "hidden", "waves", "float8"])
def test_any_flipped_bit_changes_the_digest(name: str) -> None:
    module = Odd()
    before = weights_digest(module)
    tensor = getattr(module, name).detach().resolve_conj().contiguous().clone()
    tensor.reshape(-1).view(torch.uint8)[-1] ^= 1
    setattr(
        module, name, nn.Parameter(tensor) if name in dict(module.named_parameters()) else tensor
    )
    assert weights_digest(module) != before


def test_names_shapes_and_dtypes_are_part_of_the_digest() -> None:
    def digest(name: str, tensor: torch.Tensor) -> str:
        module = nn.Module()
        module.register_buffer(name, tensor)
        return weights_digest(module)

    zeros = torch.zeros(2, 3)
    variants = [
        digest("a", zeros), digest("b", zeros), digest("a", zeros.T), digest("a", zeros.int()),
        digest("a", torch.zeros(6)), digest("a", torch.zeros(0)), digest("a", torch.zeros(0, 2)),
        weights_digest(nn.Module()),
    ]  # fmt: skip
    assert len(set(variants)) == len(variants)


def test_a_tensor_without_values_has_no_digest() -> None:
    with pytest.raises(ModelError, match="weight has no values yet"):
        weights_digest(nn.Linear(2, 2, device="meta"))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_digest_is_the_same_on_a_gpu() -> None:
    module = Odd()
    before = weights_digest(module)
    assert weights_digest(module.cuda()) == before


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_the_layers_of_a_torchscript_model_cannot_be_seen():
    inner = torch.jit.script(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()))
    with pytest.raises(ModelError, match=r"'0' lies within the model, which is TorchScript.*jit"):
        find_layers(inner, ["0"])

    outer = nn.Sequential(OrderedDict(body=inner, head=nn.Flatten()))
    with pytest.raises(ModelError, match=r"'body\.1' lies within 'body', which is TorchScript"):
        find_layers(outer, ["body.1"])
    assert list(find_layers(outer, ["body", "head"])) == ["body", "head"]


def test_a_model_with_sparse_weights_is_refused():
    module = nn.Linear(2, 2)
    module.register_buffer("mask", torch.eye(2).to_sparse())
    with pytest.raises(ModelError, match="mask is sparse"):
        weights_digest(module)


def test_an_outline_of_layers_is_cut_where_it_is_told():
    assert (
        layer_outline(nn.Sequential(*map(nn.Linear, range(1, 6), range(1, 6))), 3) == "0, 1, 2, ..."
    )
    assert layer_outline(nn.Sequential(nn.ReLU()), 3) == "0"
    assert layer_outline(nn.ReLU()) == "none"
