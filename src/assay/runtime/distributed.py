"""Ranks that wait for each other. The one place that talks to ``torch.distributed``."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from assay.errors import LaunchError
from assay.runtime.environment import Ranks

__all__ = ["barrier", "process_group"]

_TIMEOUT_S = 1800.0
_stores: dict[Ranks, Any] = {}
_group_numbers = itertools.count()  # all ranks open their groups in the same order


@contextlib.contextmanager
def process_group(ranks: Ranks, timeout_s: float = _TIMEOUT_S) -> Iterator[None]:
    """While the block runs, the ranks can meet (over gloo, so on the CPU).

    They find each other by MASTER_ADDR and MASTER_PORT, which torchrun sets. A group that is open
    already is used and stays open. With one rank nothing happens and torch is not imported.

    Args:
        timeout_s: how long to wait for the other ranks to come.

    Raises:
        LaunchError: the variables are missing, or not all ranks came.
    """
    if ranks.world_size == 1:
        yield
        return
    dist = _torch_distributed()
    if dist.is_initialized():
        _check_same_size(ranks, dist.get_world_size())
        yield
        return
    _check_meeting_point(ranks)
    timeout = timedelta(seconds=timeout_s)
    try:
        store = _meeting_store(ranks, timeout)
        store.set_timeout(timeout)
        dist.init_process_group(
            "gloo",
            # Under one name, a group would find what a rank left there for the group before.
            store=dist.PrefixStore(f"assay/{next(_group_numbers)}", store),
            rank=ranks.rank,
            world_size=ranks.world_size,
            timeout=timeout,
        )
    except (RuntimeError, ValueError) as error:
        raise LaunchError(
            f"Rank {ranks.rank} did not meet all {ranks.world_size} ranks at "
            f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']} within {timeout_s:g} s: "
            f"{_first_line(error)}. Check that all ranks were started, and that this address can "
            f"be reached from each machine."
        ) from error
    try:
        yield
    finally:
        dist.destroy_process_group()


def barrier(ranks: Ranks, timeout_s: float = _TIMEOUT_S) -> None:
    """Return when every rank has called this; call it within :func:`process_group`.

    With one rank it returns at once.

    Raises:
        LaunchError: some ranks did not come within ``timeout_s`` (rank 0 names them), or there is
            no process group.
    """
    if ranks.world_size == 1:
        return
    dist = _torch_distributed()
    if not dist.is_initialized():
        raise LaunchError(
            f"Rank {ranks.rank} of {ranks.world_size} cannot wait for the others: there is no "
            f"process group. Call barrier(ranks) within `with process_group(ranks):`."
        )
    timeout = timedelta(seconds=timeout_s)
    # Only gloo can name the ranks that are missing; another backend's group gets one beside it.
    group = None if dist.get_backend() == "gloo" else dist.new_group(backend="gloo")
    try:
        dist.monitored_barrier(group, timeout=timeout, wait_all_ranks=True)
    except RuntimeError as error:
        raise LaunchError(
            f"Rank {ranks.rank} of {ranks.world_size} waited in vain for the others (at most "
            f"{timeout_s:g} s): {_first_line(error)}. Look at the output of the ranks it names."
        ) from error
    finally:
        if group is not None:
            dist.destroy_process_group(group)


def _torch_distributed() -> Any:
    import torch.distributed as dist

    if not dist.is_available():
        raise LaunchError(
            "This build of torch has no torch.distributed, which several ranks need to wait for "
            "each other. Install a build that has it, or run one process."
        )
    return dist


def _meeting_store(ranks: Ranks, timeout: timedelta) -> Any:
    """The store in which ranks leave their addresses: one for the life of the process.

    Rank 0 may be its host, and could not be so twice.
    """
    if ranks not in _stores:
        dist = _torch_distributed()
        _stores[ranks], _, _ = next(
            dist.rendezvous("env://", ranks.rank, ranks.world_size, timeout=timeout)
        )
    return _stores[ranks]


def _check_same_size(ranks: Ranks, group_size: int) -> None:
    if group_size != ranks.world_size:
        raise LaunchError(
            f"A process group of {group_size} ranks is open, but this is rank {ranks.rank} of "
            f"{ranks.world_size}. Close it, or pass the ranks that it was made for."
        )


def _check_meeting_point(ranks: Ranks) -> None:
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if not missing:
        return
    hints = {
        "local": "launch() waits for all ranks itself; meet after it, in the process that calls it",
        "slurm": "Export them in the batch script: the job's first host, and a free port there",
    }
    hint = hints.get(ranks.source, "Start with torchrun, which sets both")
    raise LaunchError(
        f"Rank {ranks.rank} of {ranks.world_size} cannot find the others: "
        f"{' and '.join(missing)} not set. {hint}."
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
