"""Which rank this process is, read from the variables that a launcher sets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from assay.errors import LaunchError

__all__ = ["Ranks", "ranks_from_environment"]

# Slurm numbers the steps that srun starts from 0; the highest ids stand for what is no srun step:
# the batch script, the shell of an interactive allocation, processes adopted from outside.
_FIRST_RESERVED_STEP = 0xFFFFFFF0


@dataclass(frozen=True)
class Ranks:
    """Where one process stands among those that share the work."""

    rank: int  # 0 <= rank < world_size, over all machines
    local_rank: int  # 0 <= local_rank <= rank, on this machine
    world_size: int  # >= 1
    source: str  # who started it: "torchrun", "slurm", "local" (assay's own launch) or "alone"


def ranks_from_environment(environ: Mapping[str, str] = os.environ) -> Ranks:
    """The ranks of this process: torchrun's variables first, then Slurm's, then alone.

    Slurm's count only within a step that ``srun`` started: a plain batch script runs once, however
    many tasks its allocation has.

    >>> ranks_from_environment({"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8"})
    Ranks(rank=5, local_rank=1, world_size=8, source='torchrun')
    >>> ranks_from_environment({})
    Ranks(rank=0, local_rank=0, world_size=1, source='alone')

    Raises:
        LaunchError: some of the variables are missing, no integers, or contradict each other.
    """
    if any(name in environ for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")):
        return _ranks(
            environ,
            ("RANK", "LOCAL_RANK", "WORLD_SIZE"),
            "LOCAL_WORLD_SIZE",
            source="torchrun",
            mend="Start with torchrun, which sets all of them, or unset them to run alone.",
        )
    if _in_slurm_step(environ):
        size = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in environ else "SLURM_NTASKS"
        return _ranks(
            environ,
            ("SLURM_PROCID", "SLURM_LOCALID", size),
            None,
            source="slurm",
            mend="Start with srun, which sets all of them, or unset them to run alone.",
        )
    return Ranks(rank=0, local_rank=0, world_size=1, source="alone")


def _in_slurm_step(environ: Mapping[str, str]) -> bool:
    step = environ.get("SLURM_STEP_ID", environ.get("SLURM_STEPID"))
    if step is not None:
        return not (step.isdecimal() and int(step) >= _FIRST_RESERVED_STEP)
    task = environ.get("SLURM_PROCID", "0")
    if task != "0":
        raise LaunchError(
            f"SLURM_PROCID={task} says that this is one of several tasks, but SLURM_STEP_ID is not "
            f"set, as it is in each step that srun starts. Start with srun, or unset SLURM_PROCID."
        )
    return False


def _ranks(
    environ: Mapping[str, str],
    names: tuple[str, str, str],
    local_size_name: str | None,
    *,
    source: str,
    mend: str,
) -> Ranks:
    """The ranks that the variables ``names`` (rank, local rank, world size) hold, checked."""
    shown = ", ".join(
        f"{name}={environ[name]!r}" if name in environ else f"{name} is not set" for name in names
    )
    values = [_integer(environ, name, f"({shown}) {mend}") for name in names]
    rank, local_rank, world_size = values
    local_size = world_size
    if local_size_name is not None and local_size_name in environ:
        local_size = _integer(environ, local_size_name, f"({shown}) {mend}")
        shown += f", {local_size_name}={environ[local_size_name]!r}"

    rank_name, local_name, size_name = names
    faults = [
        (world_size < 1, f"{size_name} has to be 1 or more"),
        (rank >= world_size, f"{rank_name} has to be less than {size_name}"),
        (local_rank > rank, f"{local_name} cannot be greater than {rank_name}"),
        (local_rank >= local_size, f"{local_name} has to be less than {local_size_name}"),
        (local_size > world_size, f"{local_size_name} cannot be greater than {size_name}"),
    ]
    for wrong, rule in faults:
        if wrong:
            raise LaunchError(f"{rule}, but {shown}. {mend}")
    return Ranks(rank=rank, local_rank=local_rank, world_size=world_size, source=source)


def _integer(environ: Mapping[str, str], name: str, context: str) -> int:
    text = environ.get(name)
    if text is None:
        raise LaunchError(f"{name} is missing beside the variables that go with it. {context}")
    if not (text.isascii() and text.isdigit()):
        raise LaunchError(f"{name}={text!r} is not an integer of 0 or more. {context}")
    return int(text)
