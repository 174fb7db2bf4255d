"""``assay evaluate knn``: flags and overrides -> settings -> the recipe."""

from __future__ import annotations

from pathlib import Path

from assay.cli.feature_options import FeatureRun, feature_command, show_run

__all__ = ["knn"]

EPILOG = """
\b
A first run, with the bundled model and images:
  assay evaluate knn config=demo

\b
Your model on your images:
  assay evaluate knn --model timm:vit_small_patch16_224.dino --layers blocks.11:cls \\
      --train photos/train --test photos/test --out runs/dino

\b
Another temperature, another k for the headline:
  assay evaluate knn config=demo config.NEAREST_NEIGHBOR.SIGMA=0.1 config.NEAREST_NEIGHBOR.TOPK=5

The command's own defaults are those of DINO: cosine, temperature 0.07, k = 20 for the headline.
Features that any `assay evaluate` command left in the output folder are used again.
"""


@feature_command("knn", epilog=EPILOG, defaults=("config/command=knn",))
def knn(run: FeatureRun) -> None:
    """Grade features by weighted nearest neighbours, as DINO does: nothing is trained.

    Scored by top-1 and top-5 accuracy, or by mean AP where an image may have several classes.
    Writes results.json and report.html to the folder knn in the output folder and prints a table.
    """
    from assay.recipes.evaluate_knn import KNN_FOLDER, evaluate_nearest_neighbours
    from assay.report.progress import ProgressView

    view = ProgressView.for_terminal()
    results = evaluate_nearest_neighbours(
        run.config, nproc=run.nproc, command=run.command, view=view
    )
    if results is not None:  # None: a rank that only extracts
        folder = Path(run.config.RUN.OUTPUT_DIR) / KNN_FOLDER
        show_run(results, folder, report=run.config.RUN.REPORT)
