from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.config import compose


@pytest.fixture(scope="session")
def defaults() -> Any:
    """The shipped defaults, composed once; nobody changes them."""
    return compose([])


@pytest.fixture
def write_settings(tmp_path: Path) -> Callable[..., Path]:
    """Write ``config/NAME.yaml`` files into a folder of a user's own; returns the folder."""

    def write(**files: str) -> Path:
        folder = tmp_path / "own settings"
        for name, text in files.items():
            path = folder / "config" / f"{name.replace('__', '/')}.yaml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return folder

    return write
