"""``assay evaluate``: the commands that grade frozen features."""

from __future__ import annotations

import click

from assay.cli.evaluate_svm import svm

__all__ = ["evaluate"]

EPILOG = """
\b
Examples:
  assay evaluate svm config=demo
  assay evaluate svm --model torchvision:resnet50 --train data/train --test data/test \\
      --layers layer3,layer4 --out runs/resnet50
  assay evaluate svm --help
"""


@click.group(epilog=EPILOG)
def evaluate() -> None:
    """Grade a model's frozen features: images in, scores and a page out."""


evaluate.add_command(svm)
