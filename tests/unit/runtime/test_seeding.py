from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import ConfigError
from assay.runtime.environment import Ranks
from assay.runtime.seeding import rank_seed, set_seeds

seeds = st.integers(0, 2**32 - 1)
places = st.tuples(st.integers(0, 2**16 - 1), st.integers(0, 2**16 - 1))  # (node, rank)


@pytest.fixture(autouse=True)
def generators_as_they_were() -> Iterator[None]:
    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield
    random.setstate(python)
    np.random.set_state(numpy)
    torch.set_rng_state(cpu)


def draws() -> tuple[float, float, float]:
    return random.random(), float(np.random.random()), float(torch.rand(()))


def rank_of(number: int, world_size: int = 8) -> Ranks:
    return Ranks(rank=number, local_rank=number, world_size=world_size, source="local")


def test_the_same_seed_gives_the_same_numbers() -> None:
    set_seeds({"SEED_VALUE": 3})
    first = draws()
    set_seeds({"SEED_VALUE": 3})
    assert draws() == first


def test_rank_0_of_node_0_is_seeded_with_the_value_itself() -> None:
    assert set_seeds({"SEED_VALUE": 3}, environ={}) == 3
    ours = draws()
    random.seed(3)
    np.random.seed(3)
    torch.manual_seed(3)
    assert draws() == ours


def test_every_rank_of_every_node_draws_numbers_of_its_own() -> None:
    seen = set()
    for node_id in range(3):
        for rank in range(8):
            set_seeds({"SEED_VALUE": 1}, node_id, ranks=rank_of(rank))
            seen.update(draws())
    assert len(seen) == 3 * 8 * 3


def test_node_0_of_several_depends_on_the_seed_value() -> None:
    cfg = {"DISTRIBUTED": {"NUM_NODES": 2}}
    set_seeds({**cfg, "SEED_VALUE": 1}, node_id=0)
    first = draws()
    set_seeds({**cfg, "SEED_VALUE": 2}, node_id=0)
    assert not set(first) & set(draws())


def test_the_rank_is_read_from_the_environment() -> None:
    environ = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}
    assert set_seeds({"SEED_VALUE": 3}, environ=environ) == rank_seed(3, 0, 1)


@given(seed_value=seeds, places=st.lists(places, unique=True, max_size=50))
def test_distinct_places_have_distinct_seeds(
    seed_value: int, places: list[tuple[int, int]]
) -> None:
    found = [rank_seed(seed_value, node_id, rank) for node_id, rank in places]
    assert len(set(found)) == len(places)
    assert all(0 <= seed < 2**32 for seed in found)


def test_runs_with_neighbouring_seeds_share_none() -> None:
    found = [
        rank_seed(seed, node, rank) for seed in range(20) for node in (0, 1) for rank in range(64)
    ]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("value", [-1, 2**32, 1.5, "7", None, True])
def test_a_seed_value_that_generators_cannot_take_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="SEED_VALUE="):
        set_seeds({"SEED_VALUE": value}, environ={})


def test_missing_seed_value_is_named() -> None:
    with pytest.raises(ConfigError, match="SEED_VALUE is missing"):
        set_seeds({})


@pytest.mark.parametrize(("node_id", "rank"), [(-1, 0), (0, 2**16), (2**16, 0)])
def test_places_beyond_the_distinct_ones_are_refused(node_id: int, rank: int) -> None:
    with pytest.raises(ConfigError, match="outside 0"):
        rank_seed(0, node_id, rank)
