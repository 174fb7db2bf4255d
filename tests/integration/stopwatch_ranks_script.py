"""What the ranks of test_stopwatch_ranks.py run: each measures, then all reduce."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import torch.distributed as dist

from assay.timing import Stopwatch, summarize_over_ranks


def measure_and_reduce(rank: int, world_size: int, store: str, folder: str) -> None:
    """Rank r takes r + 1 ms for each of two steps; only odd ranks validate."""
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world_size)
    now_ns = 0

    def clock_ns() -> int:
        return now_ns

    stopwatch = Stopwatch(0, None, False, clock_ns=clock_ns)
    for _ in range(2):
        with stopwatch.measure("step"):
            now_ns += (rank + 1) * 1_000_000
        stopwatch.finish_iter()
    if rank % 2:
        with stopwatch.measure("validate"):
            now_ns += 10_000_000 * rank

    def gather(own: dict[str, Any]) -> list[dict[str, Any]]:
        everyone: list[Any] = [None] * world_size
        dist.all_gather_object(everyone, own)
        return everyone

    reduced = summarize_over_ranks(stopwatch.summary(), gather)
    (Path(folder) / f"{rank}.json").write_text(json.dumps(dataclasses.asdict(reduced)))
    dist.destroy_process_group()
