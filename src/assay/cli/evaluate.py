"""``assay evaluate``: the commands that grade frozen features."""

from __future__ import annotations

import click

from assay.cli.evaluate_knn import knn
from assay.cli.evaluate_low_shot import low_shot
from assay.cli.evaluate_svm import svm

__all__ = ["evaluate"]

EPILOG = """
\b
Examples:
  assay evaluate svm config=demo
  assay evaluate svm --model torchvision:resnet50 --train data/train --test data/test \\
      --layers layer3,layer4 --out runs/resnet50
  assay evaluate low-shot config=demo
  assay evaluate knn config=demo
  assay evaluate svm --help
"""


@click.group(epilog=EPILOG)
def evaluate() -> None:
    """Grade a model's frozen features: images in, scores and a page out."""


evaluate.add_command(svm)
evaluate.add_command(low_shot)
evaluate.add_command(knn)
