"""Seeds of the random generators: reproducible, and distinct on every rank of every node."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from typing import Any

from assay.errors import ConfigError
from assay.runtime.environment import Ranks, ranks_from_environment

__all__ = ["rank_seed", "set_seeds"]

# An odd number, so that its multiples modulo 2**32 are all distinct; near 2**32 divided by the
# golden ratio, so that they lie far apart and runs with neighbouring seeds share none
# (Knuth, The Art of Computer Programming, vol. 3, section 6.4: Fibonacci hashing).
_STRIDE = 0x9E3779B9
_RANKS_PER_NODE = 1 << 16


def set_seeds(
    cfg: Mapping[str, Any],
    node_id: int = 0,
    *,
    ranks: Ranks | None = None,
    environ: Mapping[str, str] = os.environ,
) -> int:
    """Seed Python's, NumPy's and torch's generators, those of all accelerators among them.

    Args:
        cfg: settings with ``SEED_VALUE``.
        node_id: the machine's number; needed only where ``ranks`` count within each machine.
        ranks: which rank this is; by default what ``environ`` says.

    Returns:
        The seed of this rank, see :func:`rank_seed`.

    Raises:
        ConfigError: ``SEED_VALUE`` is missing, or no integer in 0 .. 2**32 - 1.
    """
    import numpy as np
    import torch

    if "SEED_VALUE" not in cfg:
        raise ConfigError("SEED_VALUE is missing from the settings. Set it, e.g. to 0.")
    ranks = ranks if ranks is not None else ranks_from_environment(environ)
    seed = rank_seed(cfg["SEED_VALUE"], node_id, ranks.rank)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    return seed


def rank_seed(seed_value: int, node_id: int, rank: int) -> int:
    """The seed of one rank, in 0 .. 2**32 - 1.

    For one ``seed_value`` all pairs of node and rank below 65,536 get distinct seeds; rank 0 of
    node 0 gets ``seed_value`` itself. All 32 bits matter and no more: torch's CPU generator reads
    only the lower half of a wider seed.

    >>> rank_seed(7, node_id=0, rank=0), rank_seed(7, node_id=0, rank=1)
    (7, 2654435776)
    """
    if isinstance(seed_value, bool) or not isinstance(seed_value, int):
        raise ConfigError(f"SEED_VALUE={seed_value!r} is not an integer.")
    if not 0 <= seed_value < 1 << 32:
        raise ConfigError(f"SEED_VALUE={seed_value} is outside 0 .. {(1 << 32) - 1}.")
    for name, value in (("node_id", node_id), ("rank", rank)):
        if not 0 <= value < _RANKS_PER_NODE:
            raise ConfigError(f"{name}={value} is outside 0 .. {_RANKS_PER_NODE - 1}.")
    return (seed_value + (node_id * _RANKS_PER_NODE + rank) * _STRIDE) % (1 << 32)
