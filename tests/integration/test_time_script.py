from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

EXAMPLE = Path(__file__).parents[2] / "examples" / "time_training.py"
ASSAY_TIME = ("-m", "assay", "time", "--no-report")
MEASURES = """
from assay import Stopwatch

for _ in range(3):
    with Stopwatch().measure("load"):
        pass
    with Stopwatch().measure("forward"):
        pass
    Stopwatch().finish_iter()
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs Python with the given arguments in the test's folder."""

    def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100", **environ},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run


def read(folder: Path, name: str = "timing.json") -> dict[str, Any]:
    return json.loads((folder / "runs/time" / name).read_text())


def counts(document: dict[str, Any]) -> dict[str, int]:
    measurements = document["summary"]["measurements"]
    return {each["name"]: each["host"]["count"] for each in measurements if each["host"]}


def test_a_script_runs_as_ever_and_shows_where_its_time_went(run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(MEASURES + "print('trained')\n")

    done = run(*ASSAY_TIME[:3], "train.py")

    assert done.returncode == 0, done.stderr
    assert done.stdout == "trained\n"
    for text in ("3 measured iterations", "load", "forward", "(under no name)", "runs/time"):
        assert text in done.stderr
    assert counts(read(tmp_path)) == {"load": 3, "forward": 3}
    names = sorted(path.name for path in (tmp_path / "runs/time").iterdir())
    assert names == ["report.html", "timing.csv", "timing.json", "trace.json"]
    assert "assay time train.py" in (tmp_path / "runs/time/report.html").read_text()


def test_what_a_script_sees_of_itself_is_what_python_shows_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/beside.py").write_text("")
    (tmp_path / "folder/train.py").write_text(
        "import sys, pickle, inspect, beside\n"
        "class Local: 'in the script'\n"
        "main = sys.modules['__main__']\n"
        "print(sys.argv, __name__, __file__, __package__, __spec__, __doc__, sys.path[:1])\n"
        "print(type(pickle.loads(pickle.dumps(Local()))) is Local, main.Local is Local)\n"
        "print(inspect.getsource(Local).strip(), type(__loader__).__name__, __builtins__)\n"
    )
    arguments = ("folder/train.py", "--lr", "0.1", "-h", "--", "-m", "--out=x")

    plain, timed = run(*arguments), run(*ASSAY_TIME, *arguments)

    assert plain.returncode == timed.returncode == 0, timed.stderr
    assert timed.stdout == plain.stdout
    assert "'-h', '--', '-m'" in plain.stdout


def test_a_module_runs_as_by_dash_m(run: Run, tmp_path: Path) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text("name = 'relative'\n")
    (package / "train.py").write_text(
        "import sys\nfrom . import part\n"
        "print(sys.argv, __name__, __package__, __spec__.name, __file__, sys.path[0], part.name)\n"
    )
    (package / "__main__.py").write_text("from .train import sys\nprint(__spec__.name, sys.argv)\n")

    for name in ("pack.train", "pack"):
        plain, timed = run("-m", name, "--x", "1"), run(*ASSAY_TIME, "-m", name, "--x", "1")
        assert timed.returncode == 0, timed.stderr
        assert timed.stdout == plain.stdout


def test_a_folder_with_a_main_module_runs(run: Run, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app/other.py").write_text("word = 'beside'\n")
    (tmp_path / "app/__main__.py").write_text("import other, sys\nprint(other.word, sys.argv)\n")

    plain, timed = run("app", "x"), run(*ASSAY_TIME, "app", "x")

    assert timed.stdout == plain.stdout == "beside ['app', 'x']\n"


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit()", 0),
        ("import sys; sys.exit('a last word')", 1),
        ("raise SystemExit(7)", 7),
        ("def f():\n    raise ValueError('broken')\nf()", 1),
        ("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e", 1),
        ("from assay.errors import ConfigError\nraise ConfigError('its own')", 1),
        ("import atexit\natexit.register(print, 'at exit')", 0),
        ("import sys; sys.excepthook = lambda *a: print('hook', a[0])\nraise ValueError", 1),
        ("import warnings; warnings.warn('careful', DeprecationWarning)", 0),
    ],
)
def test_a_script_ends_as_ever_and_is_measured_up_to_there(
    run: Run, tmp_path: Path, ending: str, code: int
) -> None:
    (tmp_path / "train.py").write_text(MEASURES + ending + "\n")

    plain = run("train.py")
    timed = run(*ASSAY_TIME, "--quiet", "train.py")

    assert (timed.returncode, timed.stdout, timed.stderr) == (code, plain.stdout, plain.stderr)
    assert plain.returncode == code
    assert counts(read(tmp_path)) == {"load": 3, "forward": 3}


def test_a_script_with_a_syntax_error_is_answered_by_python(run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def f(:\n")

    plain, timed = run("train.py"), run(*ASSAY_TIME, "--quiet", "train.py")

    assert timed.returncode == 1
    assert timed.stderr == plain.stderr


@pytest.mark.parametrize("arguments", [("nowhere.py",), ("-m", "no_such_module"), ()])
def test_what_cannot_be_run_is_wrong_usage_and_leaves_nothing(
    run: Run, arguments: tuple[str, ...]
) -> None:
    done = run(*ASSAY_TIME, *arguments)

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "Nothing was measured" not in done.stderr


def test_measurements_of_late_threads_and_exit_handlers_count(run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import atexit, threading, time\nfrom assay import Stopwatch\n"
        "@Stopwatch().measure('late')\ndef late():\n    time.sleep(0.2)\n"
        "threading.Thread(target=late).start()\natexit.register(late)\n"
    )

    run(*ASSAY_TIME, "train.py")

    assert counts(read(tmp_path)) == {"late": 2}


def test_a_script_that_enables_the_stopwatch_itself_runs_with_our_options(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(
        "from assay import Stopwatch\nStopwatch(2, None, False)\n"
        "Stopwatch().set_cpu_usage_meas_name('forward')\n" + MEASURES
    )

    done = run(*ASSAY_TIME, "--warmup=1", "--cpu-usage=load", "train.py")

    assert done.returncode == 0, done.stderr
    assert "enables the stopwatch itself" in done.stderr
    assert read(tmp_path)["summary"]["num_iterations"] == 2


def test_enabling_twice_is_the_error_that_it_is_without_us(run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "from assay import Stopwatch\nStopwatch(0, None, False)\nStopwatch(0, None, False)\n"
    )

    done = run(*ASSAY_TIME, "train.py")

    assert done.returncode == 1
    assert "enabled already" in done.stderr


def test_without_a_measurement_one_is_told_how_to_make_some(run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('no names')\n")

    done = run(*ASSAY_TIME[:3], "train.py")

    assert done.returncode == 0
    assert 'Stopwatch().measure("forward")' in done.stderr
    assert "no interval was measured" in (tmp_path / "runs/time/report.html").read_text()


PROCESSES = """
import multiprocessing, sys
from assay import Stopwatch


def work():
    for _ in range(2):
        with Stopwatch().measure("work"):
            pass


if __name__ == "__main__":
    with Stopwatch().measure("main"):
        context = multiprocessing.get_context(sys.argv[1])
        processes = [context.Process(target=work) for _ in range(2)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    print([process.exitcode for process in processes])
"""


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
@pytest.mark.parametrize("by", ["command", "environment"])
def test_each_child_process_has_a_file_of_its_own(
    run: Run, tmp_path: Path, method: str, by: str
) -> None:
    (tmp_path / "train.py").write_text(PROCESSES)

    if by == "command":
        done = run(*ASSAY_TIME, "train.py", method)
    else:
        done = run("train.py", method, ASSAY_STOPWATCH="report=0")

    assert done.stdout == "[0, 0]\n", done.stderr
    document = read(tmp_path)
    assert counts(document) == {"main": 1}
    workers = [worker["measurements"] for worker in document["workers"]]
    assert [[(each["name"], each["count"]) for each in one] for one in workers] == [
        [("work", 2)],
        [("work", 2)],
    ]


def test_what_other_processes_measured_is_told_though_this_one_measured_nothing(
    run: Run, tmp_path: Path
) -> None:
    alone = PROCESSES.replace('with Stopwatch().measure("main")', "if True")
    (tmp_path / "train.py").write_text(alone)

    done = run(*ASSAY_TIME[:3], "train.py", "fork")

    assert "2 more processes measured" in done.stderr
    assert "Nothing was measured" not in done.stderr
    assert "process " in (tmp_path / "runs/time/report.html").read_text()


RANKS = """
import os
from assay import Stopwatch

rank = int(os.environ["RANK"])
for _ in range(2 + rank):
    with Stopwatch().measure("step"):
        pass
    Stopwatch().finish_iter()
if rank == 1:
    with Stopwatch().measure("only on 1"):
        pass
"""
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


@pytest.mark.parametrize("by", ["inside torchrun", "around torchrun", "environment"])
def test_ranks_are_merged(run: Run, tmp_path: Path, by: str) -> None:
    (tmp_path / "train.py").write_text(RANKS)

    if by == "inside torchrun":
        done = run(*TORCHRUN, *ASSAY_TIME, "train.py")
    elif by == "around torchrun":
        done = run(*ASSAY_TIME, *TORCHRUN, "train.py")
    else:
        done = run(*TORCHRUN, "train.py", ASSAY_STOPWATCH="report=0")

    assert done.returncode == 0, done.stderr
    assert done.stderr.count("slowest") == 1
    document = read(tmp_path)
    found = {each["name"]: each for each in document["ranks"]["measurements"]}
    assert found["step"]["missing_ranks"] == []
    assert found["only on 1"]["missing_ranks"] == [0]
    assert document["ranks"]["missing"] == []
    assert [counts(read(tmp_path, f"rank{rank}.json"))["step"] for rank in (0, 1)] == [2, 3]
    assert {event["pid"] for event in read(tmp_path, "trace.json")["traceEvents"]} == {0, 1}


def test_ranks_of_which_one_was_killed_are_merged_on_request(run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        RANKS + "while rank == 0:\n    if os.path.exists('runs/time/rank1.json'): os._exit(1)\n"
    )
    run(*TORCHRUN, *ASSAY_TIME, "train.py")
    assert not (tmp_path / "runs/time/timing.json").exists()

    done = run(*ASSAY_TIME, "--merge", "runs/time")

    assert done.returncode == 0, done.stderr
    assert "rank 0" in done.stderr
    assert read(tmp_path)["ranks"]["missing"] == [0]


@pytest.mark.parametrize("by", ["command", "environment"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_script_and_keeps_what_was_measured(
    tmp_path: Path, by: str, number: signal.Signals
) -> None:
    (tmp_path / "train.py").write_text(
        MEASURES + "import time\nprint('ready', flush=True)\ntime.sleep(60)\n"
    )
    command = ASSAY_TIME if by == "command" else ()
    environ = {"ASSAY_STOPWATCH": "report=0"} if by == "environment" else {}
    with subprocess.Popen(
        [sys.executable, *command, "train.py"],
        cwd=tmp_path,
        env={**os.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.1)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=60)

    # As by the shell: 128 and the number of the signal, or the signal itself.
    assert process.returncode in (128 + number, -number)
    if number == signal.SIGINT:
        assert 'train.py", line' in stderr
        assert "KeyboardInterrupt" in stderr
        assert "assay/" not in stderr
        assert by == "environment" or process.returncode == 130
    assert counts(read(tmp_path)) == {"load": 3, "forward": 3}


@pytest.mark.parametrize("face", ["assay", "assay.timing", "assay.timing.stopwatch"])
def test_the_variable_measures_a_plain_run(run: Run, tmp_path: Path, face: str) -> None:
    (tmp_path / "train.py").write_text(MEASURES.replace("from assay ", f"from {face} "))

    done = run("train.py", ASSAY_STOPWATCH="warmup=1,export=json+trace,out=out/a,report=0")

    assert done.returncode == 0, done.stderr
    assert "2 measured iterations" in done.stderr
    assert done.stdout == ""
    assert sorted(path.name for path in (tmp_path / "out/a").iterdir()) == [
        "timing.json",
        "trace.json",
    ]


@pytest.mark.parametrize("value", ["0", "off", ""])
def test_the_variable_switches_off(run: Run, tmp_path: Path, value: str) -> None:
    (tmp_path / "train.py").write_text(MEASURES)

    done = run("train.py", ASSAY_STOPWATCH=value)

    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("value", ["warmpu=3", "warmup=many", "sync=maybe", "out=/dev/null/x", "2"])
def test_a_bad_variable_is_a_warning_and_the_job_goes_on(
    run: Run, tmp_path: Path, value: str
) -> None:
    (tmp_path / "train.py").write_text(MEASURES + "print('trained')\n")

    done = run("train.py", ASSAY_STOPWATCH=value)

    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert "AssayWarning" in done.stderr
    assert value in done.stderr
    assert not (tmp_path / "runs").exists()


def test_the_command_line_wins_over_the_variable(run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(MEASURES)

    done = run(*ASSAY_TIME, "--warmup=1", "train.py", ASSAY_STOPWATCH="warmup=2,out=elsewhere")

    assert done.returncode == 0, done.stderr
    assert read(tmp_path)["summary"]["num_iterations"] == 2
    assert not (tmp_path / "elsewhere/timing.json").exists()


def test_other_commands_of_ours_say_nothing_of_the_variable(run: Run) -> None:
    done = run("-m", "assay", "completion", "bash", ASSAY_STOPWATCH="1")

    assert done.returncode == 0
    assert done.stderr == ""


def test_the_trace_pairs_each_begin_with_its_end(run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(MEASURES)
    run(*ASSAY_TIME, "train.py")

    events = read(tmp_path, "trace.json")["traceEvents"]

    open_: dict[int, list[str]] = {}
    for event in events:
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        stack = open_.setdefault(event["tid"], [])
        if event["ph"] == "B":
            stack.append(event["name"])
        elif event["ph"] == "E":
            assert stack.pop() == event["name"]
    assert not any(open_.values())
    assert [event["name"] for event in events if event["ph"] == "B"].count("load") == 3


def test_the_example_trains_and_shows_its_parts(run: Run, tmp_path: Path) -> None:
    done = run(*ASSAY_TIME, "--warmup=1", str(EXAMPLE), "--epochs=1", "--limit=300")

    assert done.returncode == 0, done.stderr
    assert "epoch 1" in done.stdout
    assert set(counts(read(tmp_path))) == {"load", "forward", "backward", "step", "validate"}


def test_ranges_are_switched_on_and_may_be_enabled_by_the_script_too(
    run: Run, tmp_path: Path
) -> None:
    pytest.importorskip("nvtx")
    (tmp_path / "train.py").write_text(
        "from assay import NVTXRangeWrapper\nranges = NVTXRangeWrapper()\n"
        "print(ranges.is_enabled)\nNVTXRangeWrapper(False, False, True)\n"
        "with ranges.annotate('forward', stopwatch=True):\n    pass\n"
    )

    assert run("train.py").stdout == "False\n"
    done = run(*ASSAY_TIME, "--nvtx", "train.py")

    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert counts(read(tmp_path)) == {"forward": 1}


def test_asking_for_an_accelerator_where_none_is_used_says_so_and_goes_on(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(MEASURES + "import sys; print('torch' in sys.modules)\n")

    done = run(*ASSAY_TIME, "--sync", "--events", "train.py")

    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr
    assert "used no accelerator" in done.stderr
    assert counts(read(tmp_path)) == {"load": 3, "forward": 3}
