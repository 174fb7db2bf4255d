"""Merging feature shards against a dict that is filled row by row.

    python benchmarks/merge_shards.py [--small]

Eight ranks hold strided shares of 120,000 rows of 2048 float32 (1 GB), each 1 % of its rows twice,
as a padding sampler would. The limit is a plain copy of the shard files to memory.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from _measure import peak_memory, print_claim, read_small_flag, seconds_of, take_turns

from assay.features.shards import merge_shards

RANKS = 8
WIDTH = 2048
SPLIT, LAYER = "train", "res5"


def write_shards(folder: Path, num_rows: int) -> None:
    """Rows like a network's: correlated, not negative, with channels of very different scale."""
    random = np.random.default_rng(0)
    scale = np.exp(random.standard_normal(WIDTH)).astype(np.float32)
    mixing = random.standard_normal((32, WIDTH)).astype(np.float32)
    for rank in range(RANKS):
        inds = np.arange(rank, num_rows, RANKS)
        latent = random.standard_normal((len(inds), 32)).astype(np.float32)
        features = np.maximum(latent @ mixing, 0) * scale
        again = random.choice(len(inds), len(inds) // 100, replace=False)
        order = random.permutation(np.concatenate([np.arange(len(inds)), again]))
        targets = random.integers(0, 20, len(inds))
        name = f"rank{rank}_{SPLIT}_{LAYER}"
        np.save(folder / f"{name}_features.npy", features[order])
        np.save(folder / f"{name}_targets.npy", targets[order])
        np.save(folder / f"{name}_inds.npy", inds[order])


def ours(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    merged = merge_shards(folder, SPLIT, LAYER)
    return merged.features, merged.targets[:, 0]


def straightforward(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Straightforward numpy: the last of repeated rows wins, nothing is checked."""
    features, targets = {}, {}
    for rank in range(RANKS):
        name = f"rank{rank}_{SPLIT}_{LAYER}"
        rows = np.load(folder / f"{name}_features.npy")
        labels = np.load(folder / f"{name}_targets.npy")
        for place, index in enumerate(np.load(folder / f"{name}_inds.npy")):
            features[index] = rows[place]
            targets[index] = labels[place]
    order = sorted(features)
    return np.stack([features[i] for i in order]), np.array([targets[i] for i in order])


def copy(folder: Path) -> list[np.ndarray]:
    return [np.load(path) for path in sorted(folder.glob("*_features.npy"))]


def main() -> None:
    small = read_small_flag(__doc__)
    num_rows = 4_000 if small else 120_000
    pairs = 3 if small else 5
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_shards(folder, num_rows)
        for one, other in zip(ours(folder), straightforward(folder), strict=True):
            if not np.array_equal(one, other):
                sys.exit("the two sides disagree")
        print("both sides give the same bits")
        gigabytes = num_rows * WIDTH * 4 / 1e9
        timings = take_turns(lambda: ours(folder), lambda: straightforward(folder), pairs=pairs)
        limit = gigabytes / seconds_of(lambda: copy(folder), runs=pairs)
        memory = peak_memory(ours, folder), peak_memory(straightforward, folder)
    print(f"ours needs {memory[0].extra_bytes / 1e9 / gigabytes:.3f} of the output's memory")
    print_claim(
        f"merge {gigabytes:.2g} GB of shards beside a dict filled row by row "
        f"(5 times its rate; memory at most 1.2 of the output)",
        timings,
        unit="GB/s",
        amount=gigabytes,
        limit=limit,
        memory=memory,
    )


if __name__ == "__main__":
    main()
