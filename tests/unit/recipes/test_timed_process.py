from __future__ import annotations

import os

import pytest

from assay.recipes.timed_process import PROCESS_VARIABLE, TimedProcess

RANK_1_OF_4 = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "MASTER_PORT": "29501"}


def child_of(parent: TimedProcess, pid: int, **more: str) -> TimedProcess:
    """What a process that ``parent`` started makes of its environment."""
    environ: dict[str, str] = {}
    parent.announce(environ)
    words = environ[PROCESS_VARIABLE].split()
    words[1] = str(pid)
    return TimedProcess.from_environment({PROCESS_VARIABLE: " ".join(words), **more})


def test_a_program_alone_uses_the_plain_names() -> None:
    process = TimedProcess.from_environment({})

    assert (process.kind, process.pid, process.is_merged) == ("main", os.getpid(), False)
    assert process.file_name("timing.json") == "timing.json"
    assert process.file_name("trace.json") == "trace.json"


def test_runs_are_told_apart() -> None:
    assert TimedProcess.from_environment({}).run != TimedProcess.from_environment({}).run


def test_ranks_of_one_launch_agree_on_their_run() -> None:
    ranks = [TimedProcess.from_environment({**RANK_1_OF_4, "RANK": r}) for r in ("1", "2")]

    assert ranks[0].run == ranks[1].run
    assert [rank.file_name("timing.json") for rank in ranks] == ["rank1.json", "rank2.json"]
    assert ranks[0].file_name("trace.json") == "rank1.trace.json"


def test_a_process_that_a_program_starts_is_a_worker_with_a_file_of_its_own() -> None:
    parent = TimedProcess.from_environment({})

    worker = child_of(parent, os.getpid() + 1)

    assert (worker.kind, worker.run) == ("worker", parent.run)
    assert worker.file_name("timing.json") == f"workers/pid{os.getpid()}.json"


def test_a_worker_of_a_rank_is_named_after_both() -> None:
    parent = TimedProcess.from_environment(RANK_1_OF_4)

    worker = child_of(parent, os.getpid() + 1, **RANK_1_OF_4)

    assert worker.file_name("timing.json") == f"workers/rank1-pid{os.getpid()}.json"


@pytest.mark.parametrize("world_size", ["1", "4"])
def test_ranks_that_a_timed_program_starts_are_collected_by_it(world_size: str) -> None:
    parent = TimedProcess.from_environment({})
    variables = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": world_size}

    rank = child_of(parent, os.getpid() + 1, **variables)

    assert (rank.kind, rank.is_collected, rank.is_merged) == ("main", True, True)
    assert rank.run == parent.run
    assert rank.file_name("timing.json") == "rank0.json"


def test_a_program_that_replaces_itself_stays_what_it_was() -> None:
    parent = TimedProcess.from_environment({})

    assert child_of(parent, os.getpid()).kind == "main"


def test_a_fork_becomes_a_worker() -> None:
    assert TimedProcess.from_environment(RANK_1_OF_4).forked().kind == "worker"


def test_contradicting_variables_are_left_to_the_program_to_complain_of() -> None:
    assert TimedProcess.from_environment({"RANK": "7"}).ranks.world_size == 1
