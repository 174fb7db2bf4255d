"""What a profiler is told, as a tool that only writes it down sees it. Needs no GPU."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "nvtx_injection" / "recorder.c"


@dataclass(frozen=True)
class Recording:
    lines: tuple[tuple[int, str, str, str], ...]  # thread, event, domain, name
    output: str

    def sequence(self, thread: int = 0) -> list[str]:
        """Pushes as +NAME and pops as - that one thread made, and no other domain's."""
        kinds = {"push": "+", "pop": "-"}
        return [
            f"{kinds[event]}{name}"
            for number, event, domain, name in self.lines
            if number == thread and event in kinds and domain == "default"
        ]

    @property
    def registered(self) -> list[str]:
        return [name for _, event, _, name in self.lines if event == "register"]

    @property
    def threads(self) -> list[int]:
        return sorted({number for number, event, _, _ in self.lines if event == "push"})


Record = Callable[..., Recording]


@pytest.fixture(scope="session")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tool, compiled."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is needed to compile the tool that records NVTX calls")
    library = tmp_path_factory.mktemp("nvtx") / "recorder.so"
    flags = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Werror", "-shared", "-fPIC", "-pthread"]
    subprocess.run([compiler, *flags, "-o", str(library), str(SOURCE)], check=True)
    return library


@pytest.fixture
def record(recorder: Path, tmp_path: Path) -> Record:
    """Runs Python code in a process of its own and returns what reached the tool."""
    numbers = iter(range(100))

    def run(code: str, *, with_tool: bool = True) -> Recording:
        file = tmp_path / f"record{next(numbers)}.tsv"
        tool = {"NVTX_INJECTION64_PATH": str(recorder), "NVTX_RECORD_PATH": str(file)}
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            cwd=tmp_path,
            env={**os.environ, **(tool if with_tool else {}), "OMP_NUM_THREADS": "2"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        rows = [line.split("\t") for line in text.splitlines()]
        lines = tuple((int(thread), event, domain, name) for thread, event, domain, name in rows)
        return Recording(lines, done.stdout)

    return run


# -- from Python --------------------------------------------------------------------------------


@pytest.fixture
def python(record: Record) -> Record:
    pytest.importorskip("nvtx")
    start = (
        "from assay.timing.nvtx import NVTXRangeWrapper, annotate\nranges = NVTXRangeWrapper()\n"
    )
    return lambda code: record(start + textwrap.dedent(code))


def test_disabled_ranges_do_not_reach_the_tool(python: Record) -> None:
    recording = python("""
        ranges.range_push("a")
        ranges.range_pop()
        with annotate("b"):
            pass
    """)
    assert recording.lines == ()


def test_nested_ranges_reach_the_tool_in_order(python: Record) -> None:
    recording = python("""
        ranges.enable(False, False, False)
        for _ in range(2):
            ranges.range_push("outer")
            ranges.range_push("größer ✓")
            ranges.range_pop("ignored")
            ranges.range_pop()
    """)
    assert recording.sequence() == ["+outer", "+größer ✓", "-", "-"] * 2
    assert recording.registered == ["outer", "größer ✓"]


def test_a_failed_check_leaves_the_profile_in_balance(python: Record) -> None:
    recording = python("""
        ranges.enable(False, False, True)
        ranges.range_push("outer")
        ranges.range_push("inner")
        for name in ("outer", "outer", "outer"):
            try:
                ranges.range_pop(name)
            except AssertionError as error:
                print(type(error).__name__)
    """)
    assert recording.sequence() == ["+outer", "+inner", "-", "-", "-"]
    assert recording.output == "InstrumentError\n" * 2


def test_each_thread_pushes_on_its_own_stack(python: Record) -> None:
    recording = python("""
        import threading
        ranges.enable(False, False, True)
        turns = [threading.Event() for _ in range(3)]

        def work(own, following):
            turns[own].wait()
            ranges.range_push(f"thread {own}")
            turns[following].set()
            turns[own].clear()
            turns[own].wait()
            ranges.range_pop(f"thread {own}")
            turns[following].set()

        threads = [threading.Thread(target=work, args=(own, 1 - own)) for own in (0, 1)]
        for thread in threads:
            thread.start()
        turns[0].set()
        for thread in threads:
            thread.join()
    """)
    assert [recording.sequence(thread) for thread in (0, 1)] == [
        ["+thread 0", "-"],
        ["+thread 1", "-"],
    ]
    assert [thread for thread, event, _, _ in recording.lines if event in ("push", "pop")] == [
        0, 1, 0, 1,
    ]  # fmt: skip


def test_annotations_close_their_ranges_however_they_end(python: Record) -> None:
    recording = python("""
        import asyncio

        @annotate("function")
        def fail():
            with annotate("block"):
                raise KeyError

        @annotate("coroutine")
        async def sleep():
            await asyncio.sleep(0)

        @annotate("generator")
        def count():
            yield from range(2)

        async def both():
            await asyncio.gather(sleep(), sleep())

        ranges.enable(False, False, False)
        try:
            fail()
        except KeyError:
            pass
        list(count())
        asyncio.run(both())
    """)
    assert recording.sequence() == [
        *["+function", "+block", "-", "-"],
        *["+generator", "-"] * 3,
        *["+coroutine", "-"] * 4,
    ]


def test_names_without_end_stay_in_balance(python: Record) -> None:
    recording = python("""
        from assay.timing.nvtx import MAX_PREPARED_NAMES
        ranges.enable(False, False, False)
        for number in range(MAX_PREPARED_NAMES + 3):
            ranges.range_push(f"step {number}")
            ranges.range_pop()
        print(MAX_PREPARED_NAMES + 3)
    """)
    expected = [each for n in range(int(recording.output)) for each in (f"+step {n}", "-")]
    assert recording.sequence() == expected


def test_compiled_code_pushes_nothing_between_what_is_around_it(python: Record) -> None:
    recording = python("""
        import torch

        def step(values):
            with annotate("inside"):
                ranges.range_push("inside, too")
                doubled = values * 2
                ranges.range_pop()
            return doubled

        ranges.enable(False, False, True)
        compiled = torch.compile(step, backend="eager", fullgraph=True)
        with annotate("around"):
            compiled(torch.ones(2))
        step(torch.ones(2))
    """)
    assert recording.sequence() == ["+around", "-", "+inside", "+inside, too", "-", "-"]


def test_a_forked_child_goes_on_with_its_ranges(python: Record) -> None:
    recording = python("""
        import os
        ranges.enable(False, False, True)
        ranges.range_push("parent")
        child = os.fork()
        if child == 0:
            ranges.range_push("child")
            ranges.range_pop("child")
            ranges.range_pop("parent")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        ranges.range_pop("parent")
    """)
    assert recording.sequence() == ["+parent", "+child", "-", "-", "-"]


# -- from jitted code ---------------------------------------------------------------------------

JITTED = """
import numba, numpy as np
from assay.timing.numba_nvtx import range_pop, range_push, register_string
"""


@pytest.fixture
def jitted(record: Record) -> Record:
    pytest.importorskip("numba")
    from assay.timing.numba_nvtx import load_nvtx_library

    if load_nvtx_library() is None:
        pytest.skip("the NVTX library (extra numba) is not installed")
    return lambda code, **options: record(JITTED + textwrap.dedent(code), **options)


def test_python_and_jitted_code_push_the_same_ranges(jitted: Record) -> None:
    recording = jitted("""
        outer, inner = register_string("outer"), register_string("inner")

        @numba.njit
        def push(handle):
            range_push(handle)

        @numba.njit
        def push_nested(handle):
            push(outer)
            push(handle)
            range_pop()

        push_nested(inner)
        range_push(inner)   # from Python, on top of what jitted code left open
        range_pop()
        range_pop()
        assert register_string("inner") == inner
    """)
    assert recording.sequence() == ["+outer", "+inner", "-", "+inner", "-", "-"]
    assert recording.registered == ["outer", "inner"]


def test_handles_of_every_width_that_holds_them_work(jitted: Record) -> None:
    recording = jitted("""
        handle = register_string("a")

        @numba.njit
        def work(handle):
            range_push(handle)
            range_pop()

        for kind in (np.int32, np.uint32, np.int64, np.uint64, np.intp, int):
            work(kind(handle))
        work.py_func(np.int32(handle))
        for wrong in (np.int8(-1), np.int16(1), np.uint64(2**64 - 1), 2**22, 2**40):
            work(wrong)
    """)
    assert recording.sequence() == ["+a", "-"] * 7


def test_a_pop_takes_back_its_own_push_alone(jitted: Record) -> None:
    recording = jitted("""
        import ctypes
        from assay.timing.numba_nvtx import load_nvtx_library
        library = ctypes.CDLL(load_nvtx_library().path)
        handle = register_string("own")

        @numba.njit
        def skipped(handle):
            range_push(handle)
            range_push(0)
            range_push(handle)
            range_pop()
            range_pop()     # of the 0
            range_pop()
            range_pop()     # of nothing
            range_push(0)
            range_pop()
            range_pop()

        library.nvtxRangePushA(b"somebody else's")
        skipped(handle)
        skipped.py_func(handle)
        library.nvtxRangePop()
    """)
    own = ["+own", "+own", "-", "-"]
    assert recording.sequence() == ["+somebody else's", *own, *own, "-"]


def test_threads_without_the_interpreter_lock_have_their_own_stacks(jitted: Record) -> None:
    recording = jitted("""
        import threading
        handles = [register_string(f"thread {number}") for number in range(3)]

        @numba.njit(nogil=True)
        def work(handle, count):
            for _ in range(count):
                range_push(handle)
                range_push(0)
                range_push(handle)
                range_pop()
                range_pop()
                range_pop()

        work(0, 1)
        threads = [threading.Thread(target=work, args=(each, 50)) for each in handles]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    """)
    pushers = recording.threads
    assert len(pushers) == 3
    names = {recording.sequence(thread)[0] for thread in pushers}
    assert names == {"+thread 0", "+thread 1", "+thread 2"}
    for thread in pushers:
        own = recording.sequence(thread)[0]
        assert recording.sequence(thread) == [own, own, "-", "-"] * 50


def test_parallel_loops_push_on_the_threads_that_run_them(jitted: Record) -> None:
    recording = jitted("""
        handle = register_string("row")

        @numba.njit(parallel=True)
        def work(rows):
            sums = np.zeros(rows.shape[0])
            for index in numba.prange(rows.shape[0]):
                range_push(handle)
                range_push(register_string("sum"))
                sums[index] = rows[index].sum()
                range_pop()
                range_pop()
            return sums

        rows = np.arange(64.0).reshape(16, 4)
        assert (work(rows) == rows.sum(1)).all()
    """)
    sequences = [recording.sequence(thread) for thread in recording.threads]
    assert sum(map(len, sequences)) == 16 * 4
    for sequence in sequences:
        assert sequence == ["+row", "+sum", "-", "-"] * (len(sequence) // 4)


def test_nesting_beyond_the_bound_stays_in_balance(jitted: Record) -> None:
    recording = jitted("""
        handle = register_string("deep")

        @numba.njit
        def work(handle, depth):
            for _ in range(depth):
                range_push(handle)
            for _ in range(depth):
                range_pop()

        work(handle, 2000)
        work(handle, 1)
    """)
    sequence = recording.sequence()
    shown = sequence.index("-")
    assert 1000 < shown < 2000
    assert sequence == ["+deep"] * shown + ["-"] * shown + ["+deep", "-"]


def test_names_registered_before_a_fork_serve_the_child(jitted: Record) -> None:
    recording = jitted("""
        import os
        handle = register_string("shared")

        @numba.njit
        def work(handle):
            range_push(handle)
            range_pop()

        work(handle)
        child = os.fork()
        if child == 0:
            work(handle)
            own = register_string("child's own")
            work(own)
            os._exit(0 if own else 1)
        assert os.waitpid(child, 0)[1] == 0
        work(handle)
    """)
    pair = ["+shared", "-"]
    assert recording.sequence() == [*pair, *pair, "+child's own", "-", *pair]


CACHED = """
import numba
from assay.timing.numba_nvtx import range_pop, range_push, register_string

def register(names):
    return {name: register_string(name) for name in names}

@numba.njit(cache=True)
def inner():
    range_push(register_string("literal"))
    range_pop()

@numba.njit(cache=True, nogil=True)
def work():
    range_push(FIRST)
    range_push(SECOND)
    inner()
    range_pop()
    range_pop()

def hits():
    return sum(work.stats.cache_hits.values())
"""


@pytest.fixture
def cached(
    record: Record, jitted: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Record:
    """Runs a module whose jitted functions are kept on disk from one run to the next."""
    (tmp_path / "cached.py").write_text(CACHED, encoding="utf-8")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return record


RUN_CACHED = """
import cached
handles = cached.register({names})
cached.FIRST, cached.SECOND = handles.get("first", 0), handles.get("second", 0)
cached.work()
print(cached.hits())
"""
WITHOUT_LIBRARY = """
import warnings
import assay.timing.nvtx_library as library
library.load_nvtx_library = lambda: None
warnings.simplefilter("ignore")
"""
BOTH = ["+first", "+second", "+literal", "-", "-", "-"]


def test_cached_code_names_its_ranges_in_the_next_process(cached: Record) -> None:
    first = cached(RUN_CACHED.format(names=["first", "second"]))
    second = cached(RUN_CACHED.format(names=["another", "second", "first"]))

    assert [first.output, second.output] == ["0\n", "1\n"], "the second run loads from the cache"
    assert first.sequence() == BOTH
    assert second.sequence() == BOTH


def test_cached_code_skips_what_the_next_process_has_not_registered(cached: Record) -> None:
    cached(RUN_CACHED.format(names=["first", "second"]))
    second = cached(RUN_CACHED.format(names=["another", "second"]))

    assert second.output == "1\n"
    assert second.sequence() == ["+second", "+literal", "-", "-"]


def test_cached_code_runs_without_a_tool_and_without_the_library(cached: Record) -> None:
    code = RUN_CACHED.format(names=["first", "second"])
    cached(code)
    without_tool = cached(code, with_tool=False)
    without_library = cached(WITHOUT_LIBRARY + code)

    assert without_tool.output == "1\n"
    assert without_library.output == "1\n"
    assert without_library.lines == ()


def test_code_cached_without_a_tool_shows_what_it_registers_itself(cached: Record) -> None:
    code = RUN_CACHED.format(names=["first", "second"])
    cached(code, with_tool=False)
    second = cached(code)

    assert second.output == "1\n"
    assert second.sequence() == ["+literal", "-"], "the handles 0 of the globals were compiled in"
