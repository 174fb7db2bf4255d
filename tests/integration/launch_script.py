"""What the tests of launching run in other processes: functions of ranks, scripts that launch."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from assay.errors import DataError, LaunchError, OutputError
from assay.runtime.environment import Ranks, ranks_from_environment
from assay.runtime.launch import launch


class OddlyMadeError(DataError):
    """An error that cannot be made from its message alone."""

    def __init__(self, row: int, column: int) -> None:
        super().__init__(f"cell {row}, {column} is bad")


def note(ranks: Ranks, folder: Path) -> None:
    """Write down who this process is, whole or not at all."""
    facts = {
        "rank": ranks.rank,
        "local_rank": ranks.local_rank,
        "world_size": ranks.world_size,
        "source": ranks.source,
        "pid": os.getpid(),
        "parent_pid": os.getppid(),
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "stdin": sys.stdin.read(),
    }
    partial = folder / f"{ranks.rank}.partial"
    partial.write_text(json.dumps(facts))
    partial.rename(folder / f"{ranks.rank}.json")


def sleep(ranks: Ranks, folder: Path) -> None:
    """Stay for longer than any test, though not for ever."""
    note(ranks, folder)
    time.sleep(100)


def await_all(ranks: Ranks, folder: Path) -> None:
    """Return when every rank has noted itself."""
    note(ranks, folder)
    deadline_s = time.monotonic() + 60
    while len(list(folder.glob("*.json"))) < ranks.world_size:
        if time.monotonic() > deadline_s:
            raise TimeoutError("the other ranks did not come")
        time.sleep(0.01)


def fail(ranks: Ranks, folder: Path, failing_rank: int, kind: str) -> None:
    """Rank ``failing_rank`` ends badly once all are there; the others would stay."""
    await_all(ranks, folder)
    if ranks.rank != failing_rank:
        time.sleep(100)
    if kind == "raise":
        raise ZeroDivisionError("no rows to divide by")
    if kind == "assay error":
        raise OutputError("/mnt/full: cannot write: the disk is full.")
    if kind == "odd error":
        raise OddlyMadeError(3, 4)
    if kind.startswith("exit "):
        sys.exit(int(kind.removeprefix("exit ")))
    os.kill(os.getpid(), getattr(signal, kind))
    time.sleep(100)


def fail_in_turn(ranks: Ranks, folder: Path, *, progress: Callable[[int], None]) -> None:
    """Rank 1 raises; rank 0 follows when it notices, as when a connection breaks."""
    await_all(ranks, folder)
    if ranks.rank == 1:
        (folder / "1.failed").touch()
        raise ValueError("the cause")
    progress(1)
    while not (folder / "1.failed").exists():
        time.sleep(0.001)
    time.sleep(0.2)
    (folder / "0.failed").touch()
    raise ConnectionError("the echo")


def refuse_to_end(ranks: Ranks, folder: Path) -> None:
    """Rank 0 fails; the others pay no heed to SIGTERM."""
    if ranks.rank == 0:
        await_all(ranks, folder)
        raise RuntimeError("boom")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    await_all(ranks, folder)
    time.sleep(100)


def leave_a_child(ranks: Ranks, folder: Path) -> None:
    """Rank 0 is killed while a child of its own, such as a loader worker, lives on."""
    await_all(ranks, folder)
    if ranks.rank == 0:
        child = os.fork()
        if child == 0:
            time.sleep(100)
            os._exit(0)
        (folder / "child").write_text(str(child))
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(100)


def clean_up(ranks: Ranks, folder: Path) -> None:
    """Rank 0 fails; all leave a mark when they go."""
    try:
        await_all(ranks, folder)
        if ranks.rank == 0:
            raise RuntimeError("boom")
        time.sleep(100)
    finally:
        (folder / f"{ranks.rank}.cleaned").touch()


def interrupt_self(ranks: Ranks, folder: Path) -> None:
    """Get what a terminal sends to all processes at Ctrl-C, and go on."""
    os.kill(os.getpid(), signal.SIGINT)
    note(ranks, folder)


def count(ranks: Ranks, steps: int, *, progress: Callable[[int], None]) -> None:
    """Report ``steps`` times as many units as the rank's number, plus one."""
    for _ in range(steps):
        progress(ranks.rank + 1)


def count_in_threads(_ranks: Ranks, steps: int, *, progress: Callable[[int], None]) -> None:
    """Report ones from eight threads at once."""
    threads = [
        threading.Thread(target=lambda: [progress(1) for _ in range(steps)]) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def talk(ranks: Ranks) -> None:
    """Print by Python and beneath it."""
    print(f"rank {ranks.rank} by print")
    os.write(2, f"rank {ranks.rank} beneath Python\n".encode())


def meet(folder: Path) -> None:
    """Under torchrun: wait for a slow rank, in groups of several kinds, then in vain for one."""
    import torch.distributed as dist

    from assay.runtime.distributed import barrier, process_group

    ranks = ranks_from_environment()
    came = []

    def meet_slow_rank(mark: Path) -> None:
        if ranks.rank == 1:
            time.sleep(0.5)
            mark.touch()
        barrier(ranks, timeout_s=60)
        came.append(mark.exists())

    with process_group(ranks, timeout_s=60):
        meet_slow_rank(folder / "first")
        with process_group(ranks):  # the open one is used
            meet_slow_rank(folder / "nested")
    if ranks.rank == 1:
        time.sleep(0.5)  # rank 0 opens the next group while rank 1 is still in this one's wake
    with process_group(ranks, timeout_s=60):
        meet_slow_rank(folder / "reopened")
    dist.init_process_group("cpu:gloo,cuda:gloo")
    with process_group(ranks):
        meet_slow_rank(folder / "the user's own")
    dist.destroy_process_group()
    with process_group(ranks, timeout_s=60):
        if ranks.rank == 0:
            try:
                barrier(ranks, timeout_s=1)
            except LaunchError as error:
                (folder / "0.json").write_text(json.dumps({"came": came, "said": str(error)}))
        while not (folder / "0.json").exists():
            time.sleep(0.01)
    note(ranks, folder / "ranks")


def main(mode: str, folder: Path) -> None:
    if mode == "meet":
        meet(folder)
        return
    if mode == "sleep with a handler":
        signal.signal(signal.SIGTERM, lambda _signal, _frame: sys.exit(99))
    try:
        launch(sleep, folder, nproc=2)
    finally:
        (folder / "unwound").touch()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
