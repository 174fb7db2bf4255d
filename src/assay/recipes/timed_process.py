"""Which of the processes of a timed program this one is, and what its files are called."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import Literal

from assay.errors import LaunchError
from assay.runtime.environment import Ranks, ranks_from_environment

__all__ = ["PROCESS_VARIABLE", "VARIABLE", "WORKERS", "TimedProcess"]

VARIABLE = "ASSAY_STOPWATCH"  # the options
PROCESS_VARIABLE = "ASSAY_STOPWATCH_PROCESS"  # which process started those below it; ours alone
WORKERS = "workers"  # the folder of their files

_LAUNCHERS = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID", "SLURM_STEP_ID")


@dataclass(frozen=True)
class TimedProcess:
    """One process of a timed program.

    A *main* process is the whole program, or one rank of it. It may start *workers*: processes that
    are no ranks of their own, such as those that load data. A program that itself starts ranks
    (torchrun) *collects* what they measured.
    """

    kind: Literal["main", "worker"]
    ranks: Ranks
    pid: int
    run: str  # the same in all processes of one run
    is_collected: bool = False  # a process above it merges the files of the ranks

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> TimedProcess:
        """This process, by the variables of launchers and the one that :meth:`announce` sets.

        Where a launcher's variables contradict each other it counts as alone: that is for the
        program itself to complain of.
        """
        try:
            ranks = ranks_from_environment(environ)
        except LaunchError:
            ranks = Ranks(rank=0, local_rank=0, world_size=1, source="alone")
        above = environ.get(PROCESS_VARIABLE, "").split()
        own = [ranks.source, str(ranks.rank), str(ranks.world_size)]
        if len(above) != 5:
            return cls("main", ranks, os.getpid(), run=_run_id(ranks, environ))
        run, pid, *above_ranks = above
        if above_ranks == own and pid != str(os.getpid()):
            return cls("worker", ranks, os.getpid(), run)
        is_collected = above_ranks != own
        return cls("main", ranks, os.getpid(), run, is_collected)

    def announce(self, environ: MutableMapping[str, str] = os.environ) -> None:
        """Let the processes that this one starts know of it."""
        ranks = self.ranks
        words = (self.run, self.pid, ranks.source, ranks.rank, ranks.world_size)
        environ[PROCESS_VARIABLE] = " ".join(map(str, words))

    def forked(self) -> TimedProcess:
        """The child that this process has just become by a fork."""
        return replace(self, kind="worker", pid=os.getpid(), is_collected=False)

    @property
    def is_merged(self) -> bool:
        """Whether what it measures is a part of the run's results, beside that of others."""
        return self.kind == "main" and (self.ranks.world_size > 1 or self.is_collected)

    def file_name(self, name: str) -> str:
        """What this process calls a file of the run, relative to the folder for results.

        ``timing.json`` is ``rank1.json`` for a rank and ``workers/rank1-pid77.json`` for a worker.
        """
        stem, _, suffix = name.partition(".")
        rank = f"rank{self.ranks.rank}" if self.ranks.world_size > 1 else ""
        if self.kind == "worker":
            return f"{WORKERS}/{rank}{'-' if rank else ''}pid{self.pid}.{suffix}"
        if not self.is_merged:
            return name
        rank = f"rank{self.ranks.rank}"
        return f"{rank}.{suffix}" if stem == "timing" else f"{rank}.{name}"


def _run_id(ranks: Ranks, environ: Mapping[str, str]) -> str:
    """Ranks of one launch agree on it without a word; whoever is alone draws one."""
    known = [environ[name] for name in _LAUNCHERS if name in environ]
    if ranks.world_size == 1 or not known:
        return secrets.token_hex(8)
    return "-".join("".join(text.split()) for text in known)
