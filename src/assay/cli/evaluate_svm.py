"""``assay evaluate svm``: flags and overrides -> settings -> the recipe."""

from __future__ import annotations

from pathlib import Path

from assay.cli.feature_options import FeatureRun, feature_command, show_run

__all__ = ["svm"]

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


@feature_command("svm", epilog=EPILOG)
def svm(run: FeatureRun) -> None:
    """Grade features with linear SVMs: one per class, cost by cross-validation, scored by AP.

    Writes results.json and report.html to the output folder and prints a table. Features that were
    already extracted from the same model, weights, transform and images are used again.
    """
    from assay.recipes.evaluate_svm import evaluate_svm
    from assay.report.progress import ProgressView

    view = ProgressView.for_terminal()
    results = evaluate_svm(run.config, nproc=run.nproc, command=run.command, view=view)
    if results is not None:  # None: a rank that only extracts
        folder = Path(run.config.RUN.OUTPUT_DIR)
        show_run(results, folder, report=run.config.RUN.REPORT)
