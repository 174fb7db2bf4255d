"""``assay evaluate low-shot``: flags and overrides -> settings -> the recipe."""

from __future__ import annotations

from pathlib import Path

from assay.cli.feature_options import FeatureRun, feature_command, show_run

__all__ = ["low_shot"]

EPILOG = """
\b
A first run, with the bundled model and images:
  assay evaluate low-shot config=demo

\b
Your model on your images, five samples of 1 to 16 images a class:
  assay evaluate low-shot --model torchvision:resnet50 --layers layer4 \\
      --train photos/train --test photos/test --out runs/resnet50 \\
      'config.SVM.low_shot.k_values=[1,2,4,8,16]'

\b
More samples, for a narrower band:
  assay evaluate low-shot config=demo 'config.SVM.low_shot.sample_inds=[1,2,3,4,5,6,7,8,9,10]'

Samples are drawn by config.SEED_VALUE. Features that any `assay evaluate` command left in the
output folder are used again.
"""


@feature_command("low-shot", epilog=EPILOG)
def low_shot(run: FeatureRun) -> None:
    """Grade features with linear SVMs on few images a class: mean AP against their number.

    Several samples are drawn of each size; the figure is their mean, the band their deviation.
    Writes results.json and report.html to the folder low-shot in the output folder and prints a
    table.
    """
    from assay.recipes.evaluate_low_shot import LOW_SHOT_FOLDER, evaluate_low_shot
    from assay.report.progress import ProgressView

    view = ProgressView.for_terminal()
    results = evaluate_low_shot(run.config, nproc=run.nproc, command=run.command, view=view)
    if results is not None:  # None: a rank that only extracts
        folder = Path(run.config.RUN.OUTPUT_DIR) / LOW_SHOT_FOLDER
        show_run(results, folder, report=run.config.RUN.REPORT)
