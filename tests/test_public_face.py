from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

import assay
from assay.errors import MissingExtraError

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(assay.__path__, "assay.")
    if not module.name.endswith("__main__")
)
HEAVY = ("torch", "numpy", "sklearn", "scipy", "hydra", "matplotlib", "rich", "PIL", "torchvision")


def imported_by(code: str) -> set[str]:
    """The top-level packages in ``sys.modules`` of a fresh interpreter after ``code``."""
    report = "\nimport sys\nprint('\\0', *{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", code + report],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=True,
    )
    return set(done.stdout.rpartition("\0")[2].split())


@pytest.mark.parametrize("name", ["assay", *MODULES])
def test_each_module_says_what_is_public_and_has_it(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except MissingExtraError as error:
        pytest.skip(str(error))
    missing = [public for public in module.__all__ if not hasattr(module, public)]
    assert not missing, f"{name}.__all__ names {missing}, which it has not"
    assert len(set(module.__all__)) == len(module.__all__)


@pytest.mark.parametrize("name", sorted(set(assay.__all__) - {"__version__"}))
def test_each_name_of_the_face_is_public_where_it_lives(name: str) -> None:
    try:
        value = getattr(assay, name)
    except MissingExtraError as error:
        pytest.skip(str(error))
    home = importlib.import_module(value.__module__)
    assert name in home.__all__
    assert getattr(home, name) is value


def test_the_face_lists_its_names() -> None:
    assert set(assay.__all__) <= set(dir(assay))


def test_an_unknown_name_of_the_face_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        assay.nothing  # noqa: B018


def test_importing_assay_brings_in_nothing_heavy() -> None:
    assert not imported_by("import assay") & set(HEAVY)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["evaluate", "--help"],
        ["evaluate", "svm", "--help"],
        ["time", "--help"],
    ],
)
def test_help_brings_in_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "from click.testing import CliRunner\n"
        "from assay.cli.main import cli\n"
        f"result = CliRunner().invoke(cli, {arguments!r})\n"
        "assert result.exit_code == 0, result.output\n"
    )
    assert not imported_by(code) & set(HEAVY)


@pytest.mark.parametrize("module", ["assay.config", "assay.report.tables", "assay.runtime.launch"])
def test_light_modules_do_without_torch(module: str) -> None:
    assert not imported_by(f"import {module}") & {"torch", "sklearn", "matplotlib", "torchvision"}
