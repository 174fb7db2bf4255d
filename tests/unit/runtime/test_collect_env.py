from __future__ import annotations

import getpass
import platform
import socket
import sys
from importlib import metadata

import numpy as np
import pytest
import torch

from assay import __version__
from assay.runtime.collect_env import collect_env_info, environment_rows, package_versions


def test_the_rows_say_what_runs_here() -> None:
    rows = environment_rows()
    assert rows["assay"] == __version__
    assert rows["python"] == platform.python_version()
    assert rows["torch"] == torch.__version__
    assert rows["numpy"] == np.__version__
    assert rows["memory"].endswith(" GiB")
    assert int(rows["cores"]) >= 1
    assert all(isinstance(value, str) and value for value in rows.values())


def test_the_text_has_a_line_for_each_row() -> None:
    lines = collect_env_info().splitlines()
    assert [line.split()[0] for line in lines] == list(environment_rows())


def test_a_missing_package_is_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    assert set(package_versions().values()) == {"not installed"}


def test_a_torch_whose_import_fails_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    rows = environment_rows()
    assert rows["torch"].startswith("its import fails: ")
    assert rows["numpy"] == np.__version__


def test_accelerators_are_listed_with_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    class Device:
        name = "Fast GPU"
        total_memory = 80 * 1024**3

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _index: Device)
    rows = environment_rows()
    assert rows["cuda:0"] == rows["cuda:1"] == "Fast GPU, 80.0 GiB"
    assert "accelerators" not in rows


def test_an_accelerator_that_cannot_be_asked_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_index: int) -> None:
        raise RuntimeError("CUDA driver version is insufficient\nmore of that")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", fail)
    assert environment_rows()["cuda"] == "cannot be asked: CUDA driver version is insufficient"


def test_neither_user_nor_host_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "secret-host")
    monkeypatch.setattr(platform, "node", lambda: "secret-host")
    monkeypatch.setattr(getpass, "getuser", lambda: "secret-user")
    monkeypatch.setenv("USER", "secret-user")
    monkeypatch.setenv("API_TOKEN", "secret-token")
    assert "secret" not in collect_env_info()
