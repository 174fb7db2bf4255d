"""Shipped files, a user's files and overrides -> one checked configuration, by Hydra."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from assay._optional import require
from assay.config.checks import find_faults, raise_faults
from assay.config.origins import Origins, origins_of_yaml
from assay.config.overrides import apply_overrides, parse_overrides, where
from assay.errors import ConfigError, nearest_names

if TYPE_CHECKING:
    from omegaconf import DictConfig

__all__ = ["compose", "config_names"]

SHIPPED = Path(__file__).parent / "yaml"
PRIMARY = "defaults"
GROUP = "config"  # the folder whose files `config=NAME` chooses

_VERSION_BASE = "1.3"
# Hydra keeps one state a process.
_LOCK = threading.Lock()


def compose(overrides: Sequence[str], *, config_dir: Path | None = None) -> DictConfig:
    """The configuration that files and overrides give together, checked.

    First come the shipped defaults, then the files that ``config=NAME``, ``config=GROUP/NAME``,
    ``config=[A,B]`` or ``+config/GROUP=NAME`` choose, then the overrides in their order:
    ``key=value`` and ``++key=value`` set a key, ``+key=value`` adds one, ``~key`` takes one out.
    Values are Hydra's: lists ``[a,b]``, sections ``{a:1}``, ``${other.key}``.

    The working directory, the logging and a Hydra that is already running stay as they are, no
    folder is made, and threads may call this at the same time.

    Args:
        overrides: as on the command line.
        config_dir: a folder of the user's own files; ``config/NAME.yaml`` in it is chosen by
            ``config=NAME``.

    Returns:
        All settings, with VERSION, node_id, engine_name and config at the top. Interpolations are
        checked, and still there. Unknown keys cannot be added.

    Raises:
        ConfigError: a file is missing or cannot be read, an override cannot be read, a key is
            unknown or a value not allowed. One error names all faults that were found.
    """
    require("hydra", extra="evaluate", purpose="compose settings")
    folder = None if config_dir is None else _own_folder(config_dir)
    parsed, faults = parse_overrides([str(line) for line in overrides])
    choices, settings, more = _split_choices(parsed, folder)
    if more:
        raise_faults([*faults, *more])
    files = _merged_files(choices, folder)
    cfg, origins, more = apply_overrides(files, settings, Origins())
    if faults or more or find_faults(cfg, origins):
        # Lines of files are looked up only when there is something to say about them.
        cfg, origins, more = apply_overrides(files, settings, _file_origins(choices, folder))
        raise_faults([*faults, *more, *find_faults(cfg, origins)])
    return cfg


def config_names(config_dir: Path | None = None) -> list[str]:
    """The names that ``config=NAME`` may choose, shipped ones and those in ``config_dir``."""
    groups = [root / GROUP for root in _roots(config_dir)]
    return sorted(
        {
            path.relative_to(group).with_suffix("").as_posix()
            for group in groups
            for path in group.rglob("*.yaml")
            if path.is_file()
        }
    )


def _roots(folder: Path | None) -> list[Path]:
    return [SHIPPED] if folder is None else [SHIPPED, folder]


def _own_folder(config_dir: Path) -> Path:
    folder = Path(config_dir).expanduser().absolute()
    if not folder.is_dir():
        raise ConfigError(
            f"{config_dir}: no such folder of settings. Make it, or name another by --config-dir."
        )
    for shipped in SHIPPED.rglob("*.yaml"):
        own = folder / shipped.relative_to(SHIPPED)
        if own.exists() and not own.samefile(shipped):
            # Hydra would take the shipped file and say nothing.
            raise ConfigError(
                f"{_shown(own)}: a shipped file has that name. Rename yours, and choose it by "
                f"config=NAME; it may build on the shipped one: `defaults: [NAME, _self_]`."
            )
    return folder


def _split_choices(
    parsed: Sequence[Any], folder: Path | None
) -> tuple[list[str], list[Any], list[str]]:
    """Overrides that choose files, as lines for Hydra; those that set keys; and faults."""
    choices: list[str] = []
    settings: list[Any] = []
    faults: list[str] = []
    for override in parsed:
        value, group = override.value(), override.key_or_group
        is_group = any((root / group).is_dir() for root in _roots(folder))
        if not is_group or isinstance(value, dict):
            settings.append(override)
        elif override.is_force_add() or not (override.is_delete() or _is_choice(value)):
            faults.append(
                f"{where(override.input_line)}: write {group}=NAME to choose a file of settings; "
                f"a name that is a number stands in quotes."
            )
        else:
            # The one group of the defaults list is there to be chosen from, with + or without.
            line = override.input_line
            choices.append(line.removeprefix("+") if group == GROUP else line)
    return choices, settings, faults


def _is_choice(value: Any) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(name, str) and name for name in names)


@contextmanager
def _fresh_hydra() -> Iterator[None]:
    """Hydra over the shipped files; whatever Hydra the process had before comes back."""
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.version import VersionBase

    with _LOCK:
        running, base = GlobalHydra.instance().hydra, VersionBase.instance().getbase()
        GlobalHydra.instance().clear()
        try:
            with initialize_config_dir(str(SHIPPED), job_name="assay", version_base=_VERSION_BASE):
                yield
        finally:
            VersionBase.instance().version_base = base
            GlobalHydra.instance().clear()
            if running is not None:
                GlobalHydra.instance().initialize(running)


def _merged_files(choices: list[str], folder: Path | None) -> DictConfig:
    """The shipped defaults and the chosen files, merged by Hydra."""
    import hydra
    import yaml
    from hydra.errors import HydraException, MissingConfigException
    from omegaconf.errors import OmegaConfBaseException

    try:
        with _fresh_hydra():
            cfg: DictConfig = hydra.compose(PRIMARY, _lines(choices, folder))
    except MissingConfigException as error:
        _refuse_missing(error, folder)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{_shown(Path(mark.name))}:{mark.line + 1}" if mark else "A file of settings"
        raise ConfigError(f"{place}: not sound YAML: {error.problem}.") from error
    except RecursionError as error:
        raise ConfigError(f"Files of settings ({' '.join(choices)}) choose each other.") from error
    except (HydraException, OmegaConfBaseException, OSError, ValueError, TypeError) as error:
        # A ValueError is also what a file raises that is not UTF-8.
        raise ConfigError(
            f"Files of settings ({' '.join(choices)}) cannot be put together: {_reason(error)}."
        ) from error
    return cfg


def _file_origins(choices: list[str], folder: Path | None) -> Origins:
    """The lines of the files that :func:`_merged_files` merges, in the same order."""
    from hydra.core.global_hydra import GlobalHydra
    from hydra.types import RunMode

    with _fresh_hydra():
        loader = GlobalHydra.instance().config_loader()
        files = loader.compute_defaults_list(PRIMARY, _lines(choices, folder), RunMode.RUN).defaults
    origins = Origins()
    for file in files:
        if file.config_path is None or file.config_path.startswith("hydra/"):
            continue
        name = Path(file.config_path)
        name = name if name.suffix == ".yaml" else name.with_name(f"{name.name}.yaml")
        path = next(root / name for root in _roots(folder) if (root / name).is_file())
        text = path.read_text(encoding="utf-8")
        origins.add_layer(origins_of_yaml(text, _shown(path), file.package or ""))
    return origins


def _lines(choices: list[str], folder: Path | None) -> list[str]:
    from hydra.core.override_parser.types import Quote, QuotedString

    if folder is None:
        return choices
    quoted = QuotedString(f"file://{folder}", Quote.single).with_quotes()
    return [f"hydra.searchpath=[{quoted}]", *choices]


def _refuse_missing(error: Any, folder: Path | None) -> NoReturn:
    missing = error.missing_cfg_file or ""
    group, _, name = missing.rpartition("/")
    known = sorted(error.options or [])
    if f"{group}/".startswith(f"{GROUP}/"):
        known, name = config_names(folder), missing.removeprefix(f"{GROUP}/")
    listed = f" There are: {', '.join(known)}." if known else ""
    own = "" if folder else " A folder of your own is named by --config-dir."
    raise ConfigError(
        f"{missing}.yaml: there is no such file of settings."
        f"{nearest_names(name, known)}{listed}{own}"
    ) from error


def _shown(path: Path) -> str:
    """A path as short as it can be said: from the working directory where it lies within."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _reason(error: BaseException) -> str:
    """What Hydra says, with what it says happened underneath, on one line."""
    said: list[str] = []
    cause: BaseException | None = error
    while cause is not None:
        text = " ".join(str(cause).split())
        if text and text not in said:
            said.append(text)
        cause = cause.__cause__
    return ": ".join(said) or type(error).__name__
