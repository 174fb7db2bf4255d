from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch.distributed as dist

from assay.errors import LaunchError
from assay.runtime.distributed import barrier, process_group
from assay.runtime.environment import Ranks

ALONE = Ranks(rank=0, local_rank=0, world_size=1, source="alone")
FIRST_OF_TWO = Ranks(rank=0, local_rank=0, world_size=2, source="torchrun")


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.fixture
def group_of_one() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_one_rank_waits_for_nobody() -> None:
    with process_group(ALONE):
        barrier(ALONE)
        assert not dist.is_initialized()


def test_one_rank_does_not_even_import_torch() -> None:
    code = (
        "import sys\n"
        "from assay.runtime.distributed import barrier, process_group\n"
        "from assay.runtime.environment import ranks_from_environment\n"
        "ranks = ranks_from_environment({})\n"
        "with process_group(ranks): barrier(ranks)\n"
        "sys.exit('torch' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_barrier_outside_a_group_is_refused() -> None:
    with pytest.raises(LaunchError, match=r"within `with process_group\(ranks\):`"):
        barrier(FIRST_OF_TWO)


@pytest.mark.parametrize(
    ("source", "hint"),
    [("torchrun", "torchrun"), ("slurm", "batch script"), ("local", r"launch\(\) waits")],
)
def test_missing_variables_are_named_with_what_sets_them(
    monkeypatch: pytest.MonkeyPatch, source: str, hint: str
) -> None:
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.delenv("MASTER_PORT", raising=False)
    ranks = Ranks(rank=1, local_rank=1, world_size=2, source=source)
    with (
        pytest.raises(LaunchError, match=f"find the others: MASTER_PORT not set.*{hint}"),
        process_group(ranks),
    ):
        pass


def test_a_rank_that_never_comes_is_an_error_and_not_a_hang(
    monkeypatch: pytest.MonkeyPatch, free_port: int
) -> None:
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(free_port))
    with (
        pytest.raises(LaunchError, match=f"all 2 ranks at 127.0.0.1:{free_port} within 1 s"),
        process_group(FIRST_OF_TWO, timeout_s=1),
    ):
        pass
    assert not dist.is_initialized()


@pytest.mark.usefixtures("group_of_one")
def test_an_open_group_of_another_size_is_refused() -> None:
    with (
        pytest.raises(LaunchError, match="group of 1 ranks is open, but this is rank 0 of 2"),
        process_group(FIRST_OF_TWO),
    ):
        pass
    assert dist.is_initialized()
