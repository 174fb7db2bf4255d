"""Import an optional package, or name the extra that brings it."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from assay.errors import MissingExtraError

__all__ = ["is_available", "require"]


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """The imported module.

    ``purpose`` completes the sentence "X is needed to ...".

    Raises:
        MissingExtraError: the package is missing, or is there and its import fails.
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise _broken(module, purpose, error) from error
        raise MissingExtraError(
            f"{package} is needed to {purpose} and is not installed. "
            f"Install it with: pip install 'assay[{extra}]'",
            name=package,
        ) from error
    except (ImportError, OSError) as error:
        raise _broken(module, purpose, error) from error


def is_available(module: str) -> bool:
    """Whether ``module`` is there and its import works."""
    try:
        require(module, extra="", purpose="")
    except MissingExtraError:
        return False
    return True


def _broken(module: str, purpose: str, error: Exception) -> MissingExtraError:
    return MissingExtraError(
        f"{module} is needed to {purpose}; it is installed, but its import fails: {error}. "
        f"Reinstall it in a version that fits this environment.",
        name=module,
    )
