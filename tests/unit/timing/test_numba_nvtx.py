from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from assay.errors import AssayWarning, InstrumentError
from assay.timing import numba_nvtx
from assay.timing.range_handles import CAPACITY, MAX_NAMES, RangeHandles


class FakeLibrary:
    """NVTX with a tool attached: gives every name a handle of its own."""

    def __init__(self, first: int = 1 << 40) -> None:
        self.strings: list[bytes] = []
        self.first = first

    def register_string(self, name: bytes) -> int:
        self.strings.append(name)
        return self.first + len(self.strings) - 1


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def table(library: Any = None) -> RangeHandles:
    return RangeHandles(library if library is not None else FakeLibrary())


# -- handles ------------------------------------------------------------------------------------


def test_a_handle_goes_by_the_name_and_not_by_the_order() -> None:
    names = ["forward", "backward", "größer ✓", ""]
    first, second = table(), table()
    handles = [first.register(name) for name in names]

    assert [second.register(name) for name in reversed(names)] == handles[::-1]
    assert len(set(handles)) == len(names)
    assert all(0 < handle < CAPACITY for handle in handles)


def test_handles_fit_32_bits() -> None:
    assert np.iinfo(np.int32).max >= CAPACITY


def test_a_handle_is_the_same_in_the_next_release() -> None:
    assert table().register("forward") == 2381748


def test_a_name_is_registered_once() -> None:
    library = FakeLibrary()
    handles = table(library)

    assert handles.register("a") == handles.register("a")
    assert library.strings == [b"a"]


def test_names_whose_hashes_are_equal_have_handles_of_their_own() -> None:
    handles = table()
    given = [handles.register(f"name {number}") for number in range(20_000)]

    assert len(set(given)) == len(given), "among so many some 50 hashes are equal"
    assert len({handles.string(handle) for handle in given}) == len(given)


def test_a_reserved_name_means_nothing_until_it_is_registered() -> None:
    handles = table()
    handle = handles.reserve("a")

    assert handles.string(handle) == 0
    assert handles.register("a") == handle
    assert handles.string(handle) == 1 << 40


def test_what_is_no_handle_means_nothing() -> None:
    handles = table()
    handles.register("a")

    for number in (0, -1, 1, CAPACITY, 2**40, -(2**63)):
        assert handles.string(number) == 0


def test_without_a_tool_every_handle_is_0() -> None:
    class NoTool:
        def register_string(self, name: bytes) -> int:
            return 0

    assert table(NoTool()).register("a") == 0


def test_too_many_names_are_told_once_and_not_shown() -> None:
    handles = table()
    for number in range(MAX_NAMES):
        assert handles.register(f"step {number}")
    with pytest.warns(AssayWarning, match=f"More than {MAX_NAMES} names"):
        assert handles.register("one more") == 0

    assert handles.register("and another") == 0
    assert handles.register("step 5") != 0


def test_without_the_library_a_warning_names_the_extra_once() -> None:
    handles = RangeHandles(None)
    with pytest.warns(AssayWarning, match=r"assay\[numba\]"):
        assert handles.register("a") == 0

    assert handles.register("b") == 0


@pytest.mark.parametrize("name", [3, None, b"a", "a\0b"])
def test_what_cannot_name_a_range_is_refused(name: Any) -> None:
    with pytest.raises(InstrumentError, match="name of a range"):
        numba_nvtx.register_string(name)


# -- without a profiler -------------------------------------------------------------------------


def test_without_a_profiler_python_calls_do_nothing() -> None:
    assert numba_nvtx.register_string("a") == 0
    assert numba_nvtx.range_push(0) is None  # type: ignore[func-returns-value]
    assert numba_nvtx.range_push(12345) is None  # type: ignore[func-returns-value]
    for _ in range(5):
        assert numba_nvtx.range_pop() is None  # type: ignore[func-returns-value]


@pytest.mark.parametrize("handle", ["a", 1.0, None])
def test_a_handle_that_is_no_integer_is_a_type_error(handle: Any) -> None:
    with pytest.raises(TypeError):
        numba_nvtx.range_push(handle)


def test_without_numba_python_calls_still_work() -> None:
    output = run(
        "import sys\n"
        "sys.modules['numba'] = None\n"
        "from assay.timing import numba_nvtx\n"
        "print(numba_nvtx.register_string('a'))\n"
        "numba_nvtx.range_push(0); numba_nvtx.range_pop(); numba_nvtx.range_pop()\n"
    )
    assert output == "0\n"


def test_without_the_library_a_jitted_call_is_a_typing_error_that_says_so() -> None:
    pytest.importorskip("numba")
    output = run(
        "import assay.timing.nvtx_library as library\n"
        "library.load_nvtx_library = lambda: None\n"
        "import numba\n"
        "from assay.timing.numba_nvtx import range_pop, range_push, register_string\n"
        "calls = (lambda: range_push(0)), (lambda: range_pop()), (lambda: register_string('a'))\n"
        "for jitted in calls:\n"
        "    try:\n"
        "        numba.njit(jitted)()\n"
        "    except numba.TypingError as error:\n"
        "        print('assay[numba]' in str(error))\n"
        "range_push(0); range_pop()\n"
    )
    assert output == "True\n" * 3


# -- in jitted code -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def numba() -> Any:
    module = pytest.importorskip("numba")
    if numba_nvtx.load_nvtx_library() is None:
        pytest.skip("the NVTX library (extra numba) is not installed")
    return module


def test_a_jitted_function_runs_without_a_profiler(numba: Any) -> None:
    @numba.njit(nogil=True)
    def work(handle: int) -> int:
        own = numba_nvtx.register_string("own")
        numba_nvtx.range_push(handle)
        numba_nvtx.range_push(own)
        numba_nvtx.range_pop()
        numba_nvtx.range_pop()
        numba_nvtx.range_pop()
        return own

    integers = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
    for kind in integers:
        for handle in (0, 1, np.iinfo(kind).max, np.iinfo(kind).min):
            assert work(kind(handle)) == 0
    assert work(7) == 0


def test_other_handles_and_names_are_typing_errors(numba: Any) -> None:
    @numba.njit
    def push(handle: Any) -> None:
        numba_nvtx.range_push(handle)

    @numba.njit
    def register(name: str) -> int:
        return numba_nvtx.register_string(name)

    for handle in (1.0, "a", True):
        with pytest.raises(numba.TypingError, match="range_push takes a handle"):
            push(handle)
    with pytest.raises(numba.TypingError, match="text that is written there"):
        register("a")


def test_with_jitting_off_the_same_code_runs_in_python() -> None:
    pytest.importorskip("numba")
    output = run(
        "import os\n"
        "os.environ['NUMBA_DISABLE_JIT'] = '1'\n"
        "import numba\n"
        "from assay.timing.numba_nvtx import range_pop, range_push, register_string\n"
        "@numba.njit\n"
        "def work():\n"
        "    range_push(register_string('a'))\n"
        "    range_pop()\n"
        "    return 5\n"
        "print(work())\n"
    )
    assert output == "5\n"
