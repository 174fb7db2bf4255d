"""The flags that all commands share which grade features, and the settings they stand for."""

from __future__ import annotations

import functools
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from assay.cli.overrides import overrides_from_flags

if TYPE_CHECKING:
    from assay.config import AttrDict

__all__ = ["FeatureRun", "feature_command", "show_run"]

# A flag and the settings that it stands for. The paths' sources go back to "find out by looking",
# so that a flag beside config=NAME brings its own images, whatever that file said.
FLAG_KEYS = {
    "model": ["config.MODEL.TRUNK.NAME"],
    "weights": ["config.MODEL.WEIGHTS_INIT.PARAMS_FILE"],
    "layers": ["config.MODEL.FEATURE_EVAL_SETTINGS.LINEAR_EVAL_FEAT_POOL_OPS_MAP"],
    "train": ["config.DATA.TRAIN.DATA_PATHS"],
    "test": ["config.DATA.TEST.DATA_PATHS"],
    "train_sources": ["config.DATA.TRAIN.DATA_SOURCES"],
    "test_sources": ["config.DATA.TEST.DATA_SOURCES"],
    "train_labels": ["config.DATA.TRAIN.LABEL_PATHS"],
    "test_labels": ["config.DATA.TEST.LABEL_PATHS"],
    "out": ["config.RUN.OUTPUT_DIR"],
    "device": ["config.MACHINE.DEVICE"],
    "batch_size": [
        "config.DATA.TRAIN.BATCHSIZE_PER_REPLICA",
        "config.DATA.TEST.BATCHSIZE_PER_REPLICA",
    ],
    "workers": ["config.DATA.NUM_DATALOADER_WORKERS"],
    "bad_images": ["config.DATA.BAD_IMAGES"],
    "force": ["config.RUN.FORCE"],
}


@dataclass(frozen=True)
class FeatureRun:
    """What the arguments of a command come to."""

    config: AttrDict  # the section of that name
    nproc: int
    command: str  # how the run was started


def _complete_model(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[str]:
    from assay.features.models import model_names

    return [name for name in model_names() if name.startswith(typed)]


def _complete_override(
    _ctx: click.Context, _param: click.Parameter, typed: str
) -> list[CompletionItem]:
    from assay.config import config_names, setting_keys

    offers = [f"config={name}" for name in config_names()]
    offers += [f"{key}=" for key in setting_keys()]
    return [CompletionItem(offer) for offer in offers if offer.startswith(typed)]


OPTIONS = (
    click.option(
        "--model",
        metavar="NAME",
        shell_complete=_complete_model,
        help="torchvision:NAME, timm:NAME, python:package.module:factory, or efficientnet-lite0.",
    ),
    click.option(
        "--weights",
        metavar="FILE",
        help="A state dict (.pth, .pt, .ckpt, .safetensors); 'random' for none at all. "
        "Default: the model's own.",
    ),
    click.option(
        "--layers",
        metavar="A,B",
        help="Sub-modules whose outputs are the features, comma-separated.",
    ),
    click.option(
        "--train",
        multiple=True,
        metavar="PATH",
        help="Images: a folder with a sub-folder a class, a Pascal VOC tree, a .npy array, or a "
        "text list of paths and labels. May be given several times.",
    ),
    click.option(
        "--test",
        multiple=True,
        metavar="PATH",
        help="Likewise. Default: a share of --train, held out.",
    ),
    click.option(
        "--train-labels", multiple=True, metavar="FILE", help="Targets of the --train array."
    ),
    click.option(
        "--test-labels", multiple=True, metavar="FILE", help="Targets of the --test array."
    ),
    click.option("--out", metavar="DIR", help="Where results go.  [default: runs/svm]"),
    click.option(
        "--nproc",
        type=click.IntRange(min=1),
        metavar="N",
        help="Processes that extract features.",
    ),
    click.option("--device", metavar="NAME", help="auto, cpu, cuda, cuda:1, mps, xpu, ..."),
    click.option("--batch-size", type=click.IntRange(min=1), metavar="N", help="Images at a time."),
    click.option("--workers", type=click.IntRange(min=0), metavar="N", help="Loader processes."),
    click.option(
        "--bad-images",
        type=click.Choice(["error", "skip"]),
        help="Stop at images that cannot be read, naming all of them, or leave them out.",
    ),
    click.option("--force", is_flag=True, help="Extract and train anew, whatever is there."),
    click.option(
        "--config-dir",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Your own folder of settings: its config/NAME.yaml is chosen by config=NAME.",
    ),
    click.option("--show-settings", is_flag=True, help="Print the composed settings and stop."),
    click.argument(
        "overrides", nargs=-1, metavar="[KEY=VALUE]...", shell_complete=_complete_override
    ),
)


def feature_command(
    name: str, *, epilog: str, defaults: tuple[str, ...] = ()
) -> Callable[[Callable[[FeatureRun], None]], click.Command]:
    """Make a function that runs a recipe into a command with all the shared flags.

    The function is called with what the arguments come to, unless they only ask for the settings.

    Args:
        name: of the command.
        epilog: what stands below its flags.
        defaults: overrides that choose settings of the command's own; whatever the user says wins.
    """

    def decorate(run: Callable[[FeatureRun], None]) -> click.Command:
        @functools.wraps(run)
        def invoke(**arguments: Any) -> None:
            composed = _compose(defaults, arguments)
            if composed is not None:
                run(composed)

        decorated: Callable[..., Any] = invoke
        for option in reversed(OPTIONS):
            decorated = option(decorated)
        return click.command(name, epilog=epilog)(decorated)

    return decorate


def show_run(results: Mapping[str, Any], folder: Path, *, report: bool) -> None:
    """Print the table of a run, and where its files are."""
    from rich.console import Console

    from assay.report.progress import ProgressView
    from assay.report.tables import results_table

    Console().print(results_table(results))
    view = ProgressView.for_terminal()
    view.say(f"Results: {folder / 'results.json'}")
    if report:
        view.say(f"Page:    {folder / 'report.html'}")


def _compose(defaults: tuple[str, ...], arguments: Mapping[str, Any]) -> FeatureRun | None:
    """Flags and overrides as settings; None once they have been shown."""
    from assay.config import compose, convert_to_attrdict, print_cfg

    flags = dict(arguments)
    overrides, config_dir = flags.pop("overrides"), flags.pop("config_dir")
    show_settings, nproc = flags.pop("show_settings"), flags.pop("nproc")
    if flags["layers"]:
        flags["layers"] = [name.strip() for name in flags["layers"].split(",")]
    for split in ("train", "test"):
        flags[f"{split}_sources"] = ["auto"] if flags[split] else None
    chosen = [*defaults, *overrides_from_flags(FLAG_KEYS, flags), *overrides]
    cfg, config = convert_to_attrdict(compose(chosen, config_dir=config_dir), infer=False)
    if show_settings:
        print_cfg(cfg)
        return None
    return FeatureRun(config, nproc or 1, shlex.join(["assay", *sys.argv[1:]]))
