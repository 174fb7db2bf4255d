from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.errors import ConfigError
from assay.recipes.run_as_main import find_module, find_script, run_as_main


@pytest.fixture(autouse=True)
def this_process_stays_as_it_is() -> Iterator[None]:
    main, argv, path = sys.modules["__main__"], sys.argv[:], sys.path[:]
    yield
    sys.modules["__main__"], sys.argv[:], sys.path[:] = main, argv, path


def test_a_script_is_main_and_stays_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys\nseen = (__name__, list(sys.argv))\n")

    run_as_main(find_script(str(tmp_path / "train.py")), ["--lr", "1"])

    main = sys.modules["__main__"]
    assert main.seen == ("__main__", [str(tmp_path / "train.py"), "--lr", "1"])
    assert main.__file__ == str(tmp_path / "train.py")
    assert sys.path[0] == str(tmp_path)


def test_a_script_may_say_its_encoding(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_bytes("# coding: latin-1\nword = 'é'\n".encode("latin-1"))

    run_as_main(find_script(str(tmp_path / "old.py")), [])

    assert sys.modules["__main__"].word == "é"


def test_imports_from_the_future_are_the_scripts_own(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("def f(x: 1 + 1): ...\nkind = f.__annotations__['x']\n")

    run_as_main(find_script(str(tmp_path / "plain.py")), [])

    assert sys.modules["__main__"].kind == 2


def test_a_link_to_a_script_imports_from_where_the_script_lies(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/train.py").write_text("")
    (tmp_path / "link.py").symlink_to(tmp_path / "real/train.py")

    run_as_main(find_script(str(tmp_path / "link.py")), [])

    assert sys.path[0] == str(tmp_path / "real")
    assert sys.modules["__main__"].__file__ == str(tmp_path / "link.py")


@pytest.mark.parametrize("name", ["nowhere.py", "an empty folder"])
def test_what_is_no_script_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "an empty folder").mkdir()

    with pytest.raises(ConfigError, match=name):
        find_script(str(tmp_path / name))


@pytest.mark.parametrize("name", ["no_such_module_here", "json.no_such_part", "..x", "sys"])
def test_what_is_no_module_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="-m"):
        find_module(name)


def test_a_module_that_lacks_one_of_its_imports_says_so_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken_pack").mkdir()
    (tmp_path / "broken_pack/__init__.py").write_text("import not_installed_at_all\n")

    with pytest.raises(ModuleNotFoundError, match="not_installed_at_all"):
        find_module("broken_pack.train")
