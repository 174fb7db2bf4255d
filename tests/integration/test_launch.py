from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from assay.errors import DataError, LaunchError, OutputError
from assay.runtime.launch import launch

SCRIPT = Path(__file__).with_name("launch_script.py")


@pytest.fixture(scope="module")
def ranks_module() -> Iterator[ModuleType]:
    """The functions that ranks run, in a module that the spawned processes find, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPT.parent)
        yield importlib.import_module(SCRIPT.stem)


def notes(folder: Path, count: int) -> list[dict]:
    """What ``count`` ranks wrote down, waited for."""
    wait_until(lambda: len(list(folder.glob("[0-9]*.json"))) == count)
    return [json.loads(path.read_text()) for path in sorted(folder.glob("[0-9]*.json"))]


def wait_until(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, "it did not come to pass"
        time.sleep(0.02)


def runs(pid: int) -> bool:
    """Whether a process is there and more than a zombie that nobody has collected yet."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return not Path("/proc/self").exists()
    return state not in "ZX"


def start_script(mode: str, folder: Path) -> subprocess.Popen[str]:
    """The script in a process group of its own, as a shell starts it."""
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), mode, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize("nproc", [2, 4])
def test_each_rank_runs_in_a_process_of_its_own(
    ranks_module: ModuleType, tmp_path: Path, nproc: int
) -> None:
    launch(ranks_module.await_all, tmp_path, nproc=nproc)
    ranks = notes(tmp_path, nproc)
    assert [rank["rank"] for rank in ranks] == list(range(nproc))
    assert [rank["local_rank"] for rank in ranks] == list(range(nproc))
    assert {rank["world_size"] for rank in ranks} == {nproc}
    assert {rank["source"] for rank in ranks} == {"local"}
    assert {rank["parent_pid"] for rank in ranks} == {os.getpid()}
    assert len({rank["pid"] for rank in ranks} | {os.getpid()}) == nproc + 1


def test_one_rank_runs_in_this_process(ranks_module: ModuleType, tmp_path: Path) -> None:
    noted: list = []
    launch(lambda ranks: noted.append((ranks, os.getpid())), nproc=1)
    [(ranks, pid)] = noted
    assert (ranks.rank, ranks.local_rank, ranks.world_size, ranks.source) == (0, 0, 1, "alone")
    assert pid == os.getpid()


def test_an_error_of_one_rank_in_this_process_passes_as_it_is() -> None:
    def fail(_ranks: object) -> None:
        raise ZeroDivisionError("no rows")

    with pytest.raises(ZeroDivisionError, match="no rows"):
        launch(fail, nproc=1)


def test_ranks_read_nothing_from_the_terminal(ranks_module: ModuleType, tmp_path: Path) -> None:
    launch(ranks_module.note, tmp_path, nproc=2)
    assert [rank["stdin"] for rank in notes(tmp_path, 2)] == ["", ""]


def test_ranks_share_the_cores_out(
    ranks_module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    launch(ranks_module.note, tmp_path, nproc=2)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    for rank in notes(tmp_path, 2):
        assert 1 <= int(rank["threads"]) <= max(1, cores // 2)
    assert "OMP_NUM_THREADS" not in os.environ


def test_the_users_number_of_threads_wins_over_shared_out_cores(
    ranks_module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    launch(ranks_module.note, tmp_path, nproc=2)
    assert [rank["threads"] for rank in notes(tmp_path, 2)] == ["7", "7"]


def test_a_given_number_of_threads_wins_over_the_environment(
    ranks_module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    launch(ranks_module.note, tmp_path, nproc=2, threads_per_process=3)
    assert [rank["threads"] for rank in notes(tmp_path, 2)] == ["3", "3"]


def test_output_goes_to_a_file_for_each_rank(
    ranks_module: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    launch(ranks_module.talk, nproc=2, log_dir=tmp_path / "logs")
    for rank in range(2):
        said = (tmp_path / "logs" / f"rank{rank}.log").read_text().splitlines()
        assert sorted(said) == [f"rank {rank} beneath Python", f"rank {rank} by print"]
    assert capfd.readouterr() == ("", "")


def test_ranks_can_be_launched_from_a_thread(ranks_module: ModuleType, tmp_path: Path) -> None:
    thread = threading.Thread(
        target=launch, args=(ranks_module.note, tmp_path), kwargs={"nproc": 2}
    )
    thread.start()
    thread.join()
    assert len(notes(tmp_path, 2)) == 2


@pytest.mark.parametrize(("nproc", "total"), [(1, 500), (2, 1500)])
def test_progress_of_all_ranks_arrives_here(
    ranks_module: ModuleType, nproc: int, total: int
) -> None:
    counts: list[int] = []
    launch(ranks_module.count, 500, nproc=nproc, on_progress=counts.append)
    assert len(counts) == 500 * nproc
    assert sum(counts) == total


def test_progress_may_be_reported_by_several_threads(ranks_module: ModuleType) -> None:
    counts: list[int] = []
    launch(ranks_module.count_in_threads, 100, nproc=2, on_progress=counts.append)
    assert sum(counts) == 2 * 8 * 100


def test_an_error_in_showing_progress_ends_the_ranks(
    ranks_module: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    def show(_count: int) -> None:
        raise BrokenPipeError("the terminal is gone")

    with pytest.raises(BrokenPipeError, match="terminal is gone"):
        launch(ranks_module.count, 10**7, nproc=2, on_progress=show)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(("nproc", "failing_rank"), [(2, 0), (4, 3)])
def test_the_failing_ranks_traceback_is_shown_and_the_others_end(
    ranks_module: ModuleType,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    nproc: int,
    failing_rank: int,
) -> None:
    with pytest.raises(LaunchError) as caught:
        launch(ranks_module.fail, tmp_path, failing_rank, "raise", nproc=nproc)
    message = str(caught.value)
    assert message.startswith(
        f"Rank {failing_rank} of {nproc} failed with ZeroDivisionError: no rows to divide by\n"
    )
    assert 'raise ZeroDivisionError("no rows to divide by")' in message
    assert "run_rank" not in message
    assert not any(runs(rank["pid"]) for rank in notes(tmp_path, nproc))
    assert capfd.readouterr().err == ""


def test_the_first_failure_is_shown_and_not_its_echo(
    ranks_module: ModuleType, tmp_path: Path
) -> None:
    def be_busy(_count: int) -> None:
        """Look away until both have failed."""
        wait_until(lambda: len(list(tmp_path.glob("*.failed"))) == 2)
        time.sleep(0.5)

    with pytest.raises(LaunchError, match="Rank 1 of 2 failed with ValueError: the cause"):
        launch(ranks_module.fail_in_turn, tmp_path, nproc=2, on_progress=be_busy)


def test_an_assay_error_of_a_rank_is_raised_here_as_the_same(
    ranks_module: ModuleType, tmp_path: Path
) -> None:
    with pytest.raises(OutputError) as caught:
        launch(ranks_module.fail, tmp_path, 1, "assay error", nproc=2)
    assert str(caught.value) == "/mnt/full: cannot write: the disk is full."
    assert "Rank 1 of 2" in str(caught.value.__cause__)
    assert "in fail\n" in str(caught.value.__cause__)


def test_an_assay_error_of_the_users_own_becomes_the_nearest_of_ours(
    ranks_module: ModuleType, tmp_path: Path
) -> None:
    with pytest.raises(DataError) as caught:
        launch(ranks_module.fail, tmp_path, 1, "odd error", nproc=2)
    assert type(caught.value) is DataError
    assert str(caught.value) == "cell 3, 4 is bad"


def test_a_killed_rank_is_reported_as_killed(ranks_module: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"Rank 1 of 4 was killed by SIGKILL.*memory"):
        launch(ranks_module.fail, tmp_path, 1, "SIGKILL", nproc=4)
    assert not any(runs(rank["pid"]) for rank in notes(tmp_path, 4))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("SIGABRT", "Rank 1 of 2 was ended by SIGABRT"),
        ("SIGTERM", "Rank 1 of 2 was ended by SIGTERM from outside"),
        ("exit 3", "Rank 1 of 2 ended with exit code 3 before its function returned"),
        ("exit 0", "Rank 1 of 2 ended with exit code 0 before its function returned"),
    ],
)
def test_a_rank_that_ends_without_a_word_is_named_with_the_way_it_ended(
    ranks_module: ModuleType, tmp_path: Path, kind: str, said: str
) -> None:
    with pytest.raises(LaunchError, match=said):
        launch(ranks_module.fail, tmp_path, 1, kind, nproc=2, log_dir=tmp_path)


def test_the_message_about_a_crash_names_the_log(ranks_module: ModuleType, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    with pytest.raises(LaunchError, match=str(logs / "rank1.log")):
        launch(ranks_module.fail, tmp_path, 1, "SIGABRT", nproc=2, log_dir=logs)
    assert "Fatal Python error" in (logs / "rank1.log").read_text()


def test_a_killed_rank_is_noticed_while_its_own_children_live(
    ranks_module: ModuleType, tmp_path: Path
) -> None:
    with pytest.raises(LaunchError, match="Rank 0 of 2 was killed by SIGKILL"):
        launch(ranks_module.leave_a_child, tmp_path, nproc=2)
    child = int((tmp_path / "child").read_text())
    assert runs(child), "the child ended first: this shows nothing"
    os.kill(child, signal.SIGKILL)


def test_ranks_clean_up_when_they_are_ended(ranks_module: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="boom"):
        launch(ranks_module.clean_up, tmp_path, nproc=4)
    assert sorted(path.stem for path in tmp_path.glob("*.cleaned")) == ["0", "1", "2", "3"]


def test_a_rank_that_refuses_to_end_is_killed(ranks_module: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="boom"):
        launch(ranks_module.refuse_to_end, tmp_path, nproc=2, grace_s=0.2)
    assert not any(runs(rank["pid"]) for rank in notes(tmp_path, 2))


@pytest.mark.parametrize("counts", [{"nproc": 0}, {"nproc": 2, "threads_per_process": 0}])
def test_counts_below_one_are_refused(ranks_module: ModuleType, counts: dict[str, int]) -> None:
    with pytest.raises(LaunchError, match="has to be 1 or more"):
        launch(ranks_module.talk, **counts)


def test_a_function_that_cannot_be_sent_is_refused() -> None:
    with pytest.raises(LaunchError, match=r"lambda.*top level of a module"):
        launch(lambda _ranks: None, nproc=2)


def test_an_argument_that_cannot_be_sent_is_refused(ranks_module: ModuleType) -> None:
    with pytest.raises(LaunchError, match=r"cannot be sent to other processes.*lock"):
        launch(ranks_module.note, threading.Lock(), nproc=2)


def test_a_log_folder_that_cannot_be_made_is_an_output_error(
    ranks_module: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "logs").write_text("in the way")
    with pytest.raises(OutputError, match="logs"):
        launch(ranks_module.talk, nproc=2, log_dir=tmp_path / "logs")


def test_a_function_of_an_interactive_session_is_refused() -> None:
    code = "from assay.runtime.launch import launch\ndef work(ranks): pass\nlaunch(work, nproc=2)\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "LaunchError: work was defined in an interactive session" in done.stderr


def test_a_script_without_the_main_guard_is_told_about_it(tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text(
        "from assay.runtime.launch import launch\ndef work(ranks): pass\nlaunch(work, nproc=2)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert 'does so under `if __name__ == "__main__":`' in done.stderr.splitlines()[-1]


def test_ranks_leave_ctrl_c_to_their_parent(ranks_module: ModuleType, tmp_path: Path) -> None:
    launch(ranks_module.interrupt_self, tmp_path, nproc=2)
    assert len(notes(tmp_path, 2)) == 2


def test_ctrl_c_ends_the_ranks_with_one_traceback(tmp_path: Path) -> None:
    script = start_script("sleep", tmp_path)
    ranks = notes(tmp_path, 2)
    os.killpg(script.pid, signal.SIGINT)  # the terminal sends it to all of them
    output, _ = script.communicate(timeout=60)
    assert script.returncode == -signal.SIGINT
    assert output.count("Traceback") == 1
    assert "KeyboardInterrupt" in output
    assert not any(runs(rank["pid"]) for rank in ranks)


def test_ctrl_c_while_the_ranks_start_ends_them_too(tmp_path: Path) -> None:
    script = start_script("sleep", tmp_path)
    wait_until(lambda: len(children(script.pid)) >= 3)  # two ranks, and a tracker of resources
    started = children(script.pid)
    os.killpg(script.pid, signal.SIGINT)
    output, _ = script.communicate(timeout=60)
    assert script.returncode == -signal.SIGINT
    assert output.count("Traceback") == 1
    wait_until(lambda: not any(runs(pid) for pid in started))


def children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    if not path.exists():
        pytest.skip("only Linux lists a process's children in /proc")
    return [int(child) for child in path.read_text().split()]


def test_sigterm_ends_the_ranks_and_then_this_process(tmp_path: Path) -> None:
    script = start_script("sleep", tmp_path)
    ranks = notes(tmp_path, 2)
    script.terminate()
    output, _ = script.communicate(timeout=60)
    assert script.returncode == -signal.SIGTERM
    assert output == ""
    assert not any(runs(rank["pid"]) for rank in ranks)


def test_a_handler_of_sigterm_that_was_there_stays_in_charge(tmp_path: Path) -> None:
    script = start_script("sleep with a handler", tmp_path)
    ranks = notes(tmp_path, 2)
    script.terminate()
    output, _ = script.communicate(timeout=60)
    assert script.returncode == 99
    assert output == ""
    assert (tmp_path / "unwound").exists()
    assert not any(runs(rank["pid"]) for rank in ranks)


def test_ranks_do_not_outlive_a_parent_that_was_killed(tmp_path: Path) -> None:
    script = start_script("sleep", tmp_path)
    ranks = notes(tmp_path, 2)
    script.kill()
    script.communicate(timeout=60)
    wait_until(lambda: not any(runs(rank["pid"]) for rank in ranks))


@pytest.mark.slow
def test_under_torchrun_ranks_wait_for_each_other_but_not_for_ever(tmp_path: Path) -> None:
    (tmp_path / "ranks").mkdir()
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*torchrun, "--nproc-per-node", "2", str(SCRIPT), "meet", str(tmp_path)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "0.json").read_text())
    assert told["came"] == [True] * 4, "rank 0 passed a barrier before rank 1 came to it"
    assert told["said"].startswith("Rank 0 of 2 waited in vain for the others (at most 1 s):")
    assert "1" in told["said"].partition("):")[2]
    ranks = notes(tmp_path / "ranks", 2)
    assert [rank["rank"] for rank in ranks] == [0, 1]
    assert {rank["source"] for rank in ranks} == {"torchrun"}
