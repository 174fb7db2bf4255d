"""``assay compare``: which of several runs or layers is better."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

__all__ = ["compare"]

EPILOG = """
\b
Two models on the same test images:
  assay evaluate svm --model torchvision:resnet50 --layers layer4 --train photos --out runs/a
  assay evaluate svm --model timm:vit_small_patch16_224 --layers norm --train photos --out runs/b
  assay compare runs/a runs/b

\b
The layers of one run, and nearest neighbours:
  assay compare runs/demo
  assay compare runs/a/knn runs/b/knn
"""


@click.command(epilog=EPILOG)
@click.argument(
    "runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN [RUN]..."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("runs/compare"),
    show_default=True,
    metavar="DIR",
    help="Where compare.json and compare.html go.",
)
@click.option("--all-layers", is_flag=True, help="All layers of every run, not the best of each.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Seed of the resamples.",
)
def compare(*, runs: tuple[Path, ...], out: Path, all_layers: bool, seed: int) -> None:
    """Compare runs, or the layers of one run, and say which differences are real.

    RUN is a folder with the results.json of `assay evaluate svm` or `assay evaluate knn`. All have
    to be scored on the same test images and classes: each pair is compared image by image, by a
    paired bootstrap.
    """
    from rich.console import Console

    from assay.recipes.compare_runs import compare_runs
    from assay.report.comparison import comparison_table
    from assay.report.progress import ProgressView

    view = ProgressView.for_terminal()
    command = shlex.join(["assay", *sys.argv[1:]])
    document = compare_runs(
        runs, out=out, all_layers=all_layers, seed=seed, command=command, view=view
    )
    Console().print(comparison_table(document))
    view.say(f"Results: {out / 'compare.json'}")
    view.say(f"Page:    {out / 'compare.html'}")
