"""A callable of the user's gives the model; what goes wrong in it is told."""

from __future__ import annotations

import hashlib
import signal
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from assay.errors import ModelError
from assay.features import ImageTransform, list_layers, load_model
from assay.runtime.signals import Terminated


@pytest.fixture
def write_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Callable[[str], str]:
    """Write a module of the user's into the current folder; gives its unique name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    name = "user_module_" + hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:12]

    def write(code: str) -> str:
        Path(f"{name}.py").write_text("from torch import nn\n" + textwrap.dedent(code))
        return name

    return write


def test_a_factory_in_the_current_folder_is_found(write_module: Callable[[str], str]) -> None:
    name = write_module("""
        def net():
            return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).half()
    """)
    path_before = list(sys.path)
    model = load_model(f"python:{name}:net")
    assert list(list_layers(model.module)) == ["0", "1"]
    assert model.weights == "made by the factory"
    assert model.transform.input_size == (224, 224)
    assert {p.dtype for p in model.module.parameters()} == {torch.float32}
    assert sys.path == path_before


def test_a_factory_is_seeded(write_module: Callable[[str], str]) -> None:
    target = f"python:{write_module('def net(): return nn.Linear(3, 3)')}:net"
    first = load_model(target).weights_digest
    torch.manual_seed(99)
    assert load_model(target).weights_digest == first


def test_a_class_a_nested_attribute_and_a_ready_model_do_as_factories(
    write_module: Callable[[str], str],
) -> None:
    name = write_module("""
        class Net(nn.Module):
            @classmethod
            def small(cls):
                return cls()
        ready = nn.Linear(2, 2)
    """)
    for attribute in ("Net", "Net.small", "ready"):
        assert isinstance(load_model(f"python:{name}:{attribute}").module, nn.Module)


def test_a_factory_may_carry_its_transform(write_module: Callable[[str], str]) -> None:
    name = write_module("""
        from assay.features import ImageTransform
        def net():
            return nn.Identity()
        net.transform = ImageTransform(resize=(32, 32))
        def bare():
            return nn.Identity()
        bare.transform = "32"
    """)
    assert load_model(f"python:{name}:net").transform == ImageTransform(resize=(32, 32))
    with pytest.raises(ModelError, match="'transform' is a str"):
        load_model(f"python:{name}:bare")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("", "has no attribute 'net'"),
        ("nets = 3", "no attribute 'net'. Did you mean 'nets'"),
        ("net = 3", "is a int, not a callable"),
        ("def net(): return 3", "gave a int, not a torch.nn.Module"),
        ("def net(): return None", "gave a NoneType"),
        ("def net(width): return nn.Linear(width, 1)", "the factory failed: TypeError: .*width"),
        ("def net(): raise RuntimeError('no luck')", r"RuntimeError: no luck \(.*py, line 2\)"),
        ("import sys; sys.exit('usage')", r"importing user_module_.* SystemExit: usage"),
        ("import a_package_nobody_has", "failed: ModuleNotFoundError.*a_package_nobody_has"),
        ("1 / 0", "ZeroDivisionError"),
        ("def net(:", "SyntaxError"),
        ("def net(): return nn.LazyLinear(3)", "weight has no values yet"),
        ("def net(): return nn.Linear(2, 2, device='meta')", "weight has no values yet"),
    ],
)
def test_what_goes_wrong_in_the_users_module_is_told(
    write_module: Callable[[str], str], code: str, message: str
) -> None:
    name = write_module(code)
    with pytest.raises(ModelError, match=message):
        load_model(f"python:{name}:net")


@pytest.mark.parametrize("module", ["module_nobody_has", "torch.nobody_has_it", "os.path.join"])
def test_a_missing_module_says_where_it_was_looked_for(tmp_path: Path, module: str) -> None:
    with pytest.raises(ModelError, match=f"no module '{module}': looked in {Path.cwd()}"):
        load_model(f"python:{module}:net")


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_factory_that_gives_torchscript_is_refused(write_module: Callable[[str], str]) -> None:
    name = write_module("""
        import torch

        def net():
            return torch.jit.script(nn.Sequential(nn.Conv2d(3, 4, 3)))
    """)
    with pytest.raises(ModelError, match=r"is TorchScript.*as it was before torch\.jit"):
        load_model(f"python:{name}:net")


def test_a_model_that_cannot_be_frozen_is_told(write_module: Callable[[str], str]) -> None:
    name = write_module("""
        class Net(nn.Module):
            def eval(self):
                raise SystemExit(0)
    """)
    with pytest.raises(ModelError, match=r"cannot be frozen .*SystemExit: 0"):
        load_model(f"python:{name}:Net")


@pytest.mark.parametrize(
    "place", ["", "def net(): ", "class net(nn.Module):\n    eval = lambda _: "]
)
def test_a_signal_to_end_is_no_failure_of_the_users_code(
    write_module: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def end() -> None:
        raise Terminated(143)

    monkeypatch.setattr(signal, "end_for_this_test", end, raising=False)
    name = write_module(f"import signal\n{place}signal.end_for_this_test()")
    with pytest.raises(Terminated):
        load_model(f"python:{name}:net")
