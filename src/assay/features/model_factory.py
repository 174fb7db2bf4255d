"""A model from the user's own Python: import a module, call the factory in it."""

from __future__ import annotations

import contextlib
import importlib
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import nn

from assay.errors import ModelError, nearest_names
from assay.features.transforms import ImageTransform
from assay.runtime.signals import Terminated

__all__ = ["call_factory"]


def call_factory(target: str) -> tuple[nn.Module, ImageTransform | None]:
    """What the callable ``package.module:factory`` gives, and its attribute ``transform``.

    The module may also lie in the current folder, and the attribute may be a model already.

    Raises:
        ModelError: module or attribute are missing, either's code fails, or what comes out is no
            ``nn.Module``; the message names the line that failed.
    """
    name = f"python:{target}"
    module_name, _, attribute = target.partition(":")
    if not module_name or not attribute:
        raise ModelError(f"{name}: name a module and a callable in it: python:my.module:factory.")
    with _current_folder_importable():
        factory = _find_attribute(name, _import(name, module_name), attribute)
        module = factory if isinstance(factory, nn.Module) else _call(name, factory)
    if not isinstance(module, nn.Module):
        raise ModelError(f"{name}: gave a {type(module).__name__}, not a torch.nn.Module.")
    transform = getattr(factory, "transform", None)
    if transform is not None and not isinstance(transform, ImageTransform):
        raise ModelError(
            f"{name}: its attribute 'transform' is a {type(transform).__name__}, not an "
            f"assay.features.ImageTransform."
        )
    return module, transform


def _import(name: str, module_name: str) -> Any:
    try:
        return importlib.import_module(module_name)
    except Terminated:
        raise
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{module_name}.".startswith(f"{missing}."):
            raise ModelError(
                f"{name}: there is no module {missing!r}: looked in {Path.cwd()} and among the "
                f"installed packages."
            ) from error
        raise ModelError(f"{name}: importing {module_name} failed: {_told(error)}") from error


def _find_attribute(name: str, found: Any, attribute: str) -> Any:
    for part in attribute.split("."):
        if not hasattr(found, part):
            public = [known for known in dir(found) if not known.startswith("_")]
            owner = getattr(found, "__name__", type(found).__name__)
            raise ModelError(
                f"{name}: {owner} has no attribute {part!r}.{nearest_names(part, public)}"
            )
        found = getattr(found, part)
    return found


def _call(name: str, factory: Any) -> Any:
    if not callable(factory):
        raise ModelError(f"{name}: is a {type(factory).__name__}, not a callable or a module.")
    try:
        return factory()
    except Terminated:
        raise
    except (Exception, SystemExit) as error:
        raise ModelError(f"{name}: the factory failed: {_told(error)}") from error


def _told(error: BaseException) -> str:
    """The error with the line of the user's code that raised it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({last.filename}, line {last.lineno})."


@contextlib.contextmanager
def _current_folder_importable() -> Iterator[None]:
    """As ``python -m`` does; the command line's own start-up does not."""
    here = str(Path.cwd())
    if here in sys.path or "" in sys.path:
        yield
        return
    sys.path.insert(0, here)
    try:
        importlib.invalidate_caches()
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(here)
