"""``assay evaluate svm``: flags and overrides -> settings -> the recipe."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from assay.cli.overrides import overrides_from_flags

__all__ = ["svm"]

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

EPILOG = """
\b
A first run, with the bundled model and images:
  assay evaluate svm config=demo

\b
Your model on your images; a folder has one sub-folder a class:
  assay evaluate svm --model torchvision:resnet50 --layers layer3,layer4 \\
      --train photos/train --test photos/test --out runs/resnet50

\b
Your weights, more folds, other costs, two processes:
  assay evaluate svm --model timm:vit_small_patch16_224 --weights vit.pth \\
      --layers blocks.11 --train photos --nproc 2 \\
      config.SVM.cross_val_folds=5 'config.SVM.costs.costs_list=[0.1,1,10]'

\b
Pascal VOC 2007, its own train and test lists:
  assay evaluate svm --model torchvision:resnet50 --layers avgpool --train VOCdevkit/VOC2007

\b
Several machines:
  torchrun --nnodes 2 --nproc-per-node 8 ... -m assay evaluate svm ...

Settings that have no flag are given as KEY=VALUE; --show-settings prints them all, and a wrong
value is answered with the allowed ones.
"""


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


@click.command(epilog=EPILOG)
@click.option(
    "--model",
    metavar="NAME",
    shell_complete=_complete_model,
    help="torchvision:NAME, timm:NAME, python:package.module:factory, or efficientnet-lite0.",
)
@click.option(
    "--weights",
    metavar="FILE",
    help="A state dict (.pth, .pt, .ckpt, .safetensors); 'random' for none at all. "
    "Default: the model's own.",
)
@click.option(
    "--layers", metavar="A,B", help="Sub-modules whose outputs are the features, comma-separated."
)
@click.option(
    "--train",
    multiple=True,
    metavar="PATH",
    help="Images: a folder with a sub-folder a class, a Pascal VOC tree, a .npy array, or a text "
    "list of paths and labels. May be given several times.",
)
@click.option(
    "--test", multiple=True, metavar="PATH", help="Likewise. Default: a share of --train, held out."
)
@click.option("--train-labels", multiple=True, metavar="FILE", help="Targets of the --train array.")
@click.option("--test-labels", multiple=True, metavar="FILE", help="Targets of the --test array.")
@click.option("--out", metavar="DIR", help="Where results go.  [default: runs/svm]")
@click.option(
    "--nproc", type=click.IntRange(min=1), metavar="N", help="Processes that extract features."
)
@click.option("--device", metavar="NAME", help="auto, cpu, cuda, cuda:1, mps, xpu, ...")
@click.option("--batch-size", type=click.IntRange(min=1), metavar="N", help="Images at a time.")
@click.option("--workers", type=click.IntRange(min=0), metavar="N", help="Loader processes.")
@click.option(
    "--bad-images",
    type=click.Choice(["error", "skip"]),
    help="Stop at images that cannot be read, naming all of them, or leave them out.",
)
@click.option("--force", is_flag=True, help="Extract and train anew, whatever is there.")
@click.option(
    "--config-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Your own folder of settings: its config/NAME.yaml is chosen by config=NAME.",
)
@click.option("--show-settings", is_flag=True, help="Print the composed settings and stop.")
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...", shell_complete=_complete_override)
def svm(*, overrides: tuple[str, ...], config_dir: Path | None, **flags: Any) -> None:
    """Grade features with linear SVMs: one per class, cost by cross-validation, scored by AP.

    Writes results.json and report.html to the output folder and prints a table. Features that were
    already extracted from the same model, weights, transform and images are used again.
    """
    from assay.config import compose, convert_to_attrdict, print_cfg

    show_settings, nproc = flags.pop("show_settings"), flags.pop("nproc")
    if flags["layers"]:
        flags["layers"] = [name.strip() for name in flags["layers"].split(",")]
    for split in ("train", "test"):
        flags[f"{split}_sources"] = ["auto"] if flags[split] else None
    chosen = overrides_from_flags(FLAG_KEYS, flags)
    cfg, config = convert_to_attrdict(compose([*chosen, *overrides], config_dir=config_dir))
    if show_settings:
        print_cfg(cfg)
        return

    from assay.recipes.evaluate_svm import evaluate_svm
    from assay.report.progress import ProgressView

    view = ProgressView.for_terminal()
    command = shlex.join(["assay", *sys.argv[1:]])
    results = evaluate_svm(config, nproc=nproc or 1, command=command, view=view)
    if results is None:  # a rank that only extracts
        return

    from rich.console import Console

    from assay.report.tables import results_table

    Console().print(results_table(results))
    folder = Path(config.RUN.OUTPUT_DIR)
    view.say(f"Results: {folder / 'results.json'}")
    if config.RUN.REPORT:
        view.say(f"Page:    {folder / 'report.html'}")
