from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
NAMES = sorted(
    path.stem
    for path in FOLDER.glob("*.py")
    if not path.stem.startswith("_") and path.stem != "run_all"
)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_still_works_and_ends_with_its_claim(name: str) -> None:
    run = subprocess.run(
        [sys.executable, str(FOLDER / f"{name}.py"), "--small"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert run.returncode == 0, run.stderr
    claim = json.loads(run.stdout.splitlines()[-1])
    assert {"claim", "ratio_median", "ratio_min", "ratio_max", "ours", "peer", "unit"} <= set(claim)
