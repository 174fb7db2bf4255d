"""Run a program in this process as ``python SCRIPT`` or ``python -m MODULE`` would."""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import sys
from collections.abc import Container, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader, SourcelessFileLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

from assay.errors import ConfigError

__all__ = ["Program", "find_module", "find_script", "run_as_main", "without_frames_of"]

_KEPT: list[ModuleType] = []  # the __main__ that was: its functions still need their globals


class Program:
    """Code with what its module and the interpreter are to say of it."""

    def __init__(
        self, code: CodeType | None, path: str, argument: str, first_path: str, **attributes: Any
    ) -> None:
        self.code = code  # None: it is compiled when it is run, so that its errors are its own
        self.path = path  # of its file
        self.argument = argument  # sys.argv[0]
        self.first_path = first_path  # sys.path[0]
        self.attributes = attributes  # of its module


def find_script(name: str) -> Program:
    """A file of Python, or a folder or zip archive with a ``__main__.py``.

    Raises:
        ConfigError: there is none.
    """
    path = Path(name)
    if not path.exists():
        raise ConfigError(
            f"{name}: there is no such script. Give its path, or `-m` before the name of a module."
        )
    full = os.path.abspath(name)  # noqa: PTH100  as the interpreter does, links are kept
    importer = None if path.is_file() and path.suffix in (".py", ".pyw") else _importer(full)
    if importer is not None:
        spec = importer.find_spec("__main__")
        if spec is None or spec.loader is None:
            raise ConfigError(f"{name}: there is no __main__.py in it, so it cannot be run.")
        code = spec.loader.get_code("__main__")
        origin = str(spec.origin or full)
        return Program(code, origin, name, full, spec=spec, package="", loader=spec.loader)
    folder = str(Path(full).resolve().parent)
    if path.suffix == ".pyc":
        compiled = SourcelessFileLoader("__main__", full)
        code = compiled.get_code("__main__")
        return Program(code, full, name, folder, spec=None, package=None, loader=compiled)
    loader = SourceFileLoader("__main__", full)
    return Program(None, full, name, folder, spec=None, package=None, loader=loader)


def find_module(name: str) -> Program:
    """A module, or the ``__main__`` of a package, which is searched from the working directory.

    Raises:
        ConfigError: there is none, or it has no code in Python.
    """
    folder = str(Path.cwd())
    _set_first_path(folder)
    spec = _spec(name)
    if spec.submodule_search_locations is not None:
        spec = _spec(f"{name}.__main__")
    code = spec.loader.get_code(spec.name) if hasattr(spec.loader, "get_code") else None  # type: ignore[union-attr]
    if code is None or spec.origin is None:
        raise ConfigError(f"-m {name}: the module has no code in Python, so it cannot be run.")
    return Program(
        code, spec.origin, spec.origin, folder, spec=spec, package=spec.parent, loader=spec.loader
    )


def run_as_main(program: Program, arguments: Sequence[str]) -> None:
    """Run it as ``__main__``.

    ``sys.argv``, ``sys.path[0]`` and ``sys.modules["__main__"]`` stay as the program needs them:
    its threads and exit handlers have yet to run.
    """
    module = ModuleType("__main__")
    values = {
        "__file__": program.path,
        "__cached__": getattr(program.attributes["spec"], "cached", None),
        "__builtins__": sys.modules["builtins"],
        **{f"__{name}__": value for name, value in program.attributes.items()},
    }
    module.__dict__.update(values)
    _KEPT.append(sys.modules["__main__"])
    sys.modules["__main__"] = module
    sys.argv[:] = [program.argument, *arguments]
    _set_first_path(program.first_path)
    exec(_code(program), module.__dict__)  # noqa: S102  the program that is to be run


def _set_first_path(folder: str) -> None:
    """Put ``folder`` where the interpreter puts the folder of a script, in place of ours."""
    if getattr(sys.flags, "safe_path", False):
        return
    own = {"", str(Path.cwd()), str(Path(sys.argv[0]).resolve().parent), *_first_paths}
    if sys.path and sys.path[0] in own:
        sys.path[0] = folder
    else:
        sys.path.insert(0, folder)
    _first_paths.append(folder)


_first_paths: list[str] = []


def _importer(path: str) -> Any | None:
    """What imports from a folder or archive; None for any other file."""
    importer = pkgutil.get_importer(path)
    return importer if hasattr(importer, "find_spec") else None


def _spec(name: str) -> ModuleSpec:
    if name.startswith("."):
        raise ConfigError(f"-m {name}: a module is named in full, from its outermost package on.")
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if not (name == missing or name.startswith(f"{missing}.")):
            raise  # a parent is there, and its own import fails
        spec = None
    except ValueError as error:
        raise ConfigError(f"-m {name}: {error}.") from error
    if spec is None:
        hint = f" For the file leave out -m: {name}" if name.endswith(".py") else ""
        raise ConfigError(
            f"-m {name}: there is no such module. It is searched from the working directory on."
            f"{hint}"
        )
    return spec


def _code(program: Program) -> CodeType:
    if program.code is not None:
        return program.code
    return compile(Path(program.path).read_bytes(), program.path, "exec", dont_inherit=True)


def without_frames_of(
    files: Container[str], traceback: TracebackType | None
) -> TracebackType | None:
    """The traceback from the first frame on that is in none of ``files``."""
    while traceback is not None and traceback.tb_frame.f_code.co_filename in files:
        traceback = traceback.tb_next
    return traceback
