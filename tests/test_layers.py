"""The import arrow, held by reading the source: nothing is imported here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "assay"

# From the top down: a room may import those of lower layers.
LAYERS = (
    {"cli"},
    {"recipes"},
    {"config", "report"},
    {"evaluate"},
    {"features"},
    {"checkpoint", "storage", "runtime"},
    {"timing", "dumping"},
    {"errors", "_switchable", "_optional", "_atomic", "_npy_header"},
)
HEIGHT = {room: -depth for depth, layer in enumerate(LAYERS) for room in layer}
GROUND = LAYERS[-1]
ALLOWED_BESIDES = {("checkpoint", "storage")}
# The faces of the package name what stands in any room, and are imported by none.
FACES = {"__init__", "__main__", "compat", "testing"}

# Modules whose contract is the environment or the command line of the process.
READS_THE_ENVIRONMENT = {
    "runtime.distributed",  # torch itself reads the meeting point there
    "runtime.launch",  # whether the user has chosen a number of threads
    "runtime.rank_process",  # sets the threads of the process that it is
}
TALKS_TO_TORCH_DISTRIBUTED = "runtime.distributed"


def violations(module: str, source: str, file: str) -> list[str]:
    """What ``source`` breaks, each as ``file:line: rule``. ``module`` is dotted, without assay."""
    tree = ast.parse(source)
    found = [*_wrong_imports(module, tree), *_outside_readings(module, tree)]
    return [f"{file}:{line}: {rule}" for line, rule in sorted(set(found))]


def _wrong_imports(module: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    room = module.partition(".")[0]
    if room in FACES:
        return
    for line, target in _imports(module, tree):
        name, _, rest = target.partition(".")
        if target.startswith("torch.distributed") and module != TALKS_TO_TORCH_DISTRIBUTED:
            yield line, f"{module} may not talk to torch.distributed: use runtime.distributed"
        if name != "assay" or rest == "__version__":
            continue
        other = rest.partition(".")[0]
        if other not in HEIGHT:
            yield line, f"{module} may not import {target}: name a room, not the public face"
        elif not _may_import(room, other):
            yield line, f"{room} may not import {other} ({target}): the arrow points the other way"


def _may_import(room: str, other: str) -> bool:
    if room == other or HEIGHT[other] < HEIGHT[room] or (room, other) in ALLOWED_BESIDES:
        return True
    if other == "timing":
        return room not in GROUND
    return other == "errors" and room in GROUND


def _imports(module: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, dotted target) of each import, however deep it stands or late it runs."""
    package = ["assay", *module.split(".")[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            # `from assay.x import y`: the room is in the origin, unless the origin is assay itself.
            names = [f"{origin}.{alias.name}" for alias in node.names]
            whole = origin in ("assay", "torch")
            yield from ((node.lineno, name) for name in (names if whole else [origin]))
        elif isinstance(node, ast.Call) and node.args:
            called = getattr(node.func, "attr", getattr(node.func, "id", None))
            first = node.args[0]
            if called in ("import_module", "require", "__import__") and (
                isinstance(first, ast.Constant) and isinstance(first.value, str)
            ):
                yield node.lineno, first.value
        elif isinstance(node, ast.Attribute) and ast.unparse(node) == "torch.distributed":
            yield node.lineno, "torch.distributed"


def _outside_readings(module: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Uses of the environment and the command line below recipes.

    ``os.environ`` as the default of a parameter is how it is passed in.
    """
    room = module.partition(".")[0]
    if room in ("cli", "recipes") or module in READS_THE_ENVIRONMENT:
        return
    defaults = {
        id(default)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for default in [*node.args.defaults, *node.args.kw_defaults]
    }
    for node in ast.walk(tree):
        used = []
        if isinstance(node, ast.Attribute) and id(node) not in defaults:
            used = [ast.unparse(node)]
        elif isinstance(node, ast.ImportFrom):
            used = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in used:
            if name in ("os.environ", "os.getenv", "os.environb", "os.putenv", "sys.argv"):
                yield node.lineno, f"{module} may not use {name}: have it passed in"


def _modules() -> list[tuple[str, Path]]:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found.append((".".join(parts), path))
    return found


def test_imports_point_one_way() -> None:
    broken = [
        line
        for module, path in _modules()
        for line in violations(
            module, path.read_text(encoding="utf-8"), str(path.relative_to(SOURCE.parents[1]))
        )
    ]
    assert not broken, "\n" + "\n".join(broken)


def test_every_room_has_its_place_in_the_arrow() -> None:
    rooms = {module.partition(".")[0] for module, _ in _modules()}
    unknown = rooms - set(HEIGHT) - FACES
    assert not unknown, f"{sorted(unknown)}: a new room needs a record in docs/decisions/"


def test_there_is_something_to_read() -> None:
    assert ("errors", SOURCE / "errors.py") in _modules()


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("features.extract", "from assay.recipes import demo"),
        ("features.extract", "import assay.evaluate.svm"),
        ("features.extract", "from assay import evaluate"),
        ("features.extract", "from ..evaluate import svm"),
        ("features.extract", "from .. import evaluate"),
        ("features.extract", "def late():\n    from assay.cli.main import main"),
        ("features.extract", "if TYPE_CHECKING:\n    from assay.report import tables"),
        ("features.extract", "importlib.import_module('assay.report.tables')"),
        ("features.extract", "from assay import SVMTrainer"),
        ("features.extract", "import assay"),
        ("config.compose", "from assay.report import tables"),
        ("report.html", "from assay.config import AttrDict"),
        ("storage.files", "from assay.checkpoint.load import load"),
        ("runtime.launch", "from assay.storage import files"),
        ("timing.stopwatch", "from assay.dumping import store"),
        ("_atomic", "from assay._optional import require"),
        ("errors", "from assay.timing import stopwatch"),
        ("evaluate.svm", "import torch.distributed as dist"),
        ("evaluate.svm", "from torch import distributed"),
        ("evaluate.svm", "from torch.distributed import all_gather"),
        ("evaluate.svm", "import torch\ntorch.distributed.barrier()"),
        ("features.models", "import os\nos.environ['HOME']"),
        ("features.models", "import os\nos.getenv('HOME')"),
        ("features.models", "from os import environ"),
        ("config.compose", "import sys\nsys.argv[1:]"),
    ],
)
def test_what_breaks_the_arrow_is_found_with_its_place(module: str, source: str) -> None:
    line = len(source.splitlines())
    [found] = violations(module, source, "file.py")
    assert found.startswith(f"file.py:{line}: ")


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("cli.main", "from assay.recipes import demo\nfrom assay.errors import AssayError"),
        ("cli.main", "import sys, os\nsys.argv, os.environ"),
        ("recipes.demo", "from assay.config import compose\nfrom assay.report import html"),
        ("report.html", "from assay.evaluate.svm import SVMResult\nfrom . import figures"),
        ("checkpoint.load", "from assay.storage.files import load_file"),
        ("dumping.store", "from assay.timing.stopwatch import Stopwatch"),
        ("features.extract", "from assay.timing import stopwatch\nfrom .shards import FeatureSet"),
        ("runtime.collect_env", "from assay import __version__"),
        ("_atomic", "from assay.errors import OutputError"),
        ("__init__", "from assay.cli.main import main"),
        ("runtime.distributed", "import torch.distributed as dist"),
        ("features.models", "import os\ndef load(*, environ=os.environ): ..."),
        ("features.models", "import torch, os.path\nfrom collections import abc"),
    ],
)
def test_what_follows_the_arrow_passes(module: str, source: str) -> None:
    assert violations(module, source, "file.py") == []
