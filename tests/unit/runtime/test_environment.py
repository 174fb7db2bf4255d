from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import LaunchError
from assay.runtime.environment import Ranks, ranks_from_environment

TORCHRUN = {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}
SRUN = {
    "SLURM_JOB_ID": "77",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_NTASKS": "4",
}
SBATCH = {"SLURM_JOB_ID": "77", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "4"}
ALONE = Ranks(rank=0, local_rank=0, world_size=1, source="alone")


def without(environ: dict[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name not in names}


def test_torchruns_variables_are_read() -> None:
    assert ranks_from_environment(TORCHRUN) == Ranks(5, 1, 8, "torchrun")


def test_torchruns_variables_do_without_the_local_world_size() -> None:
    environ = without(TORCHRUN, "LOCAL_WORLD_SIZE")
    assert ranks_from_environment(environ) == Ranks(5, 1, 8, "torchrun")


def test_one_process_under_torchrun_is_rank_0_of_1() -> None:
    environ = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    assert ranks_from_environment(environ) == Ranks(0, 0, 1, "torchrun")


def test_slurms_variables_are_read_within_a_step() -> None:
    assert ranks_from_environment(SRUN) == Ranks(3, 1, 4, "slurm")


def test_the_older_name_of_a_step_counts_too() -> None:
    environ = {**without(SRUN, "SLURM_STEP_ID"), "SLURM_STEPID": "2"}
    assert ranks_from_environment(environ).source == "slurm"


def test_the_steps_number_of_tasks_wins_over_the_jobs() -> None:
    environ = {**SRUN, "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}
    assert ranks_from_environment(environ) == Ranks(1, 1, 2, "slurm")


def test_torchrun_within_a_slurm_step_wins() -> None:
    assert ranks_from_environment({**SRUN, **TORCHRUN}).source == "torchrun"


@pytest.mark.parametrize(
    "environ",
    [
        pytest.param({}, id="nothing set"),
        pytest.param({"HOME": "/home/a", "MASTER_PORT": "29500"}, id="other variables"),
        pytest.param(SBATCH, id="batch script"),
        pytest.param({**SBATCH, "SLURM_STEP_ID": "4294967291"}, id="batch step"),
        pytest.param({**SBATCH, "SLURM_STEP_ID": "4294967290"}, id="interactive allocation"),
        pytest.param({"SLURM_JOB_ID": "77"}, id="allocation"),
    ],
)
def test_without_a_launcher_a_process_is_alone(environ: dict[str, str]) -> None:
    assert ranks_from_environment(environ) == ALONE


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        (without(TORCHRUN, "RANK"), "RANK is missing"),
        (without(TORCHRUN, "WORLD_SIZE"), "WORLD_SIZE is missing"),
        (without(TORCHRUN, "LOCAL_RANK"), "LOCAL_RANK is missing"),
        ({"LOCAL_RANK": "0"}, "RANK is missing"),
        (TORCHRUN | {"RANK": "8"}, "RANK has to be less than WORLD_SIZE, but RANK='8'"),
        (TORCHRUN | {"RANK": "-1"}, "RANK='-1' is not an integer of 0 or more"),
        (TORCHRUN | {"RANK": "first"}, "RANK='first' is not an integer of 0 or more"),
        (TORCHRUN | {"RANK": ""}, "RANK='' is not an integer of 0 or more"),
        (TORCHRUN | {"RANK": "1.0"}, "RANK='1.0' is not an integer of 0 or more"),
        (TORCHRUN | {"RANK": "²"}, "is not an integer of 0 or more"),
        (TORCHRUN | {"WORLD_SIZE": "0"}, "WORLD_SIZE has to be 1 or more"),
        (TORCHRUN | {"LOCAL_RANK": "6"}, "LOCAL_RANK cannot be greater than RANK"),
        (TORCHRUN | {"LOCAL_RANK": "4"}, "LOCAL_RANK has to be less than LOCAL_WORLD_SIZE"),
        (
            TORCHRUN | {"LOCAL_WORLD_SIZE": "9"},
            "LOCAL_WORLD_SIZE cannot be greater than WORLD_SIZE",
        ),
        (TORCHRUN | {"LOCAL_WORLD_SIZE": "x"}, "LOCAL_WORLD_SIZE='x' is not an integer"),
        (without(SRUN, "SLURM_NTASKS"), "SLURM_NTASKS is missing"),
        (without(SRUN, "SLURM_LOCALID"), "SLURM_LOCALID is missing"),
        (SRUN | {"SLURM_PROCID": "4"}, "SLURM_PROCID has to be less than SLURM_NTASKS"),
        (without(SRUN, "SLURM_STEP_ID"), "SLURM_PROCID=3 .* SLURM_STEP_ID is not set"),
    ],
)
def test_variables_that_are_missing_or_contradict_each_other_are_named(
    environ: dict[str, str], said: str
) -> None:
    with pytest.raises(LaunchError, match=said):
        ranks_from_environment(environ)


def test_the_message_shows_all_values_and_how_to_mend_them() -> None:
    with pytest.raises(LaunchError) as caught:
        ranks_from_environment({"RANK": "3", "WORLD_SIZE": "2"})
    message = str(caught.value)
    for part in ("RANK='3'", "WORLD_SIZE='2'", "LOCAL_RANK is not set", "torchrun", "unset them"):
        assert part in message
    assert "\n" not in message


@given(
    rank=st.integers(0, 20),
    local_rank=st.integers(0, 20),
    world_size=st.integers(0, 20),
    local_size=st.integers(0, 20),
)
def test_ranks_are_read_whenever_they_fit_together(
    rank: int, local_rank: int, world_size: int, local_size: int
) -> None:
    environ = {
        "RANK": str(rank),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(local_size),
    }
    fits = rank < world_size and local_rank <= rank and local_rank < local_size <= world_size
    if fits:
        assert ranks_from_environment(environ) == Ranks(rank, local_rank, world_size, "torchrun")
    else:
        with pytest.raises(LaunchError):
            ranks_from_environment(environ)
