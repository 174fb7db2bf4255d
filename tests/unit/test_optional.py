from __future__ import annotations

import sys
from pathlib import Path

import pytest

from assay._optional import is_available, require
from assay.errors import MissingExtraError


def test_an_installed_package_is_returned() -> None:
    assert require("json", extra="x", purpose="read") is sys.modules["json"]


def test_a_missing_package_names_the_extra_that_brings_it() -> None:
    with pytest.raises(MissingExtraError, match=r"pip install 'assay\[demo\]'"):
        require("no_such_package_at_all.sub", extra="demo", purpose="run the demo")

    assert not is_available("no_such_package_at_all")


def test_a_package_whose_import_is_broken_says_so_instead_of_asking_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_package.py").write_text("import a_dependency_that_is_missing")
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(MissingExtraError, match="its import fails"):
        require("broken_package", extra="demo", purpose="run the demo")
