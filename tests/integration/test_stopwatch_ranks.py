from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    """The function that ranks run, in a module that the spawned processes find, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parent)
        yield importlib.import_module("stopwatch_ranks_script")


@pytest.mark.parametrize("world_size", [2, 4])
def test_every_rank_has_the_reduction_over_all(
    script: ModuleType, tmp_path: Path, world_size: int
) -> None:
    import torch.multiprocessing

    torch.multiprocessing.spawn(
        script.measure_and_reduce,
        args=(world_size, str(tmp_path / "store"), str(tmp_path)),
        nprocs=world_size,
    )
    reduced = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(world_size)]
    assert all(each == reduced[0] for each in reduced)
    last = world_size - 1
    mean = (world_size + 1) / 2
    assert reduced[0]["world_size"] == world_size
    assert reduced[0]["iteration_ms"] == {
        "min": 1,
        "mean": mean,
        "max": world_size,
        "slowest_rank": last,
    }
    found = {each["name"]: each for each in reduced[0]["measurements"]}
    assert found["step"]["total_ms"] == {
        "min": 2,
        "mean": 2 * mean,
        "max": 2 * world_size,
        "slowest_rank": last,
    }
    assert found["step"]["missing_ranks"] == []
    assert found["validate"]["missing_ranks"] == list(range(0, world_size, 2))
    assert found["validate"]["mean_ms"]["max"] == 10 * last
