from __future__ import annotations

import asyncio
import gc
import inspect
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import AssayWarning, InstrumentError, MissingExtraError
from assay.testing import reset_instruments
from assay.timing.nvtx import MAX_PREPARED_NAMES, NVTXRangeWrapper, annotate
from assay.timing.range_annotation import RangeAnnotation
from assay.timing.stopwatch import Stopwatch


class FakeDomain:
    """Writes down what reaches NVTX, as the package's domain does with a tool attached."""

    handle = object()

    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.prepared: list[str] = []
        self.num_forgotten = 0

    @property
    def get_registered_string(self) -> Any:
        """A method with a cache that holds every string, like that of the package."""

        def forget() -> None:
            self.num_forgotten += 1

        return SimpleNamespace(cache_clear=forget)

    def get_event_attributes(self, message: str) -> str:
        self.prepared.append(message)
        return message

    def push_range(self, attributes: str) -> None:
        self.log.append(f"+{attributes}")

    def pop_range(self) -> None:
        self.log.append("-")


class FakeClock:
    def __init__(self, log: list[str]) -> None:
        self.log = log

    def synchronize(self) -> None:
        self.log.append("wait")


@pytest.fixture
def log() -> list[str]:
    """What happened, in order: +NAME and - for ranges, wait for the accelerator."""
    return []


@pytest.fixture(autouse=True)
def domain(log: list[str], monkeypatch: pytest.MonkeyPatch) -> FakeDomain:
    made = FakeDomain(log)
    package = ModuleType("nvtx")
    package.get_domain = lambda: made  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "nvtx", package)
    return made


def enable(
    *, sync: tuple[bool, bool] = (False, False), track: bool = False, clock: Any = None
) -> NVTXRangeWrapper:
    return NVTXRangeWrapper(*sync, track, event_clock=clock)


# -- off and on ---------------------------------------------------------------------------------


def test_until_enabled_nothing_is_pushed(log: list[str]) -> None:
    ranges = NVTXRangeWrapper()
    ranges.range_push("a")
    ranges.range_pop("b")
    with ranges.annotate("c"):
        pass

    assert not ranges.is_enabled
    assert log == []


def test_it_is_one_object_which_parameters_enable() -> None:
    ranges = NVTXRangeWrapper(
        sync_on_push=False, sync_on_pop=False, keep_track_of_range_order=False
    )

    assert ranges is NVTXRangeWrapper()
    assert ranges.is_enabled
    with pytest.raises(InstrumentError, match="enabled already"):
        ranges.enable(False, False, False)


def test_signature_and_docstring_are_the_same_off_and_on() -> None:
    def faces() -> list[tuple[Any, ...]]:
        ranges = NVTXRangeWrapper()
        methods = (ranges.range_push, ranges.range_pop, ranges.enable)
        return [(inspect.signature(each), each.__doc__, each.__name__) for each in methods]

    off = faces()
    enable()

    assert faces() == off
    assert str(off[0][0]) == "(range_name: 'str') -> 'None'"


def test_pushes_and_pops_reach_the_tool(log: list[str]) -> None:
    ranges = enable()
    ranges.range_push("outer")
    ranges.range_push("inner")
    ranges.range_pop()
    ranges.range_pop("any name at all")

    assert log == ["+outer", "+inner", "-", "-"]


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvtx", None)

    with pytest.raises(MissingExtraError, match=r"assay\[nvtx\]"):
        enable()
    assert not NVTXRangeWrapper().is_enabled


def test_without_a_tool_nothing_is_prepared(domain: FakeDomain, monkeypatch: Any) -> None:
    monkeypatch.delattr(FakeDomain, "handle")
    ranges = enable()
    ranges.range_push("a")
    ranges.range_pop()

    assert domain.prepared == []


def test_the_module_imports_neither_torch_nor_nvtx() -> None:
    code = "import sys, assay.timing.nvtx\nprint({'torch', 'nvtx', 'numba'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"


# -- names --------------------------------------------------------------------------------------


def test_a_name_is_prepared_once(domain: FakeDomain) -> None:
    ranges = enable()
    for _ in range(3):
        ranges.range_push("step")

    assert domain.prepared == ["step"]


def test_names_without_end_do_not_gather(log: list[str], domain: FakeDomain) -> None:
    ranges = enable()
    count = MAX_PREPARED_NAMES + 10
    for number in range(count):
        ranges.range_push(f"step {number}")
        ranges.range_pop()
    domain.prepared.clear()
    ranges.range_push("step 0")
    ranges.range_push(f"step {count - 1}")

    assert domain.prepared == ["step 0"], "the old name had to go, the last one is still there"
    assert domain.num_forgotten == 1
    assert len(log) == 2 * count + 2


@pytest.mark.parametrize(
    ("name", "shown"), [("", ""), ("größer ✓", "größer ✓"), ("\ud800", "\\ud800"), ("a\tb", "a\tb")]
)
def test_odd_names_are_shown(name: str, shown: str, log: list[str]) -> None:
    enable().range_push(name)

    assert log == [f"+{shown}"]


@pytest.mark.parametrize("name", [3, None, b"step", "a\0b"])
def test_what_cannot_name_a_range_is_refused(name: Any, log: list[str]) -> None:
    with pytest.raises(InstrumentError, match="name of a range"):
        enable().range_push(name)
    assert log == []


# -- synchronising ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sync", "expected"),
    [
        ((True, True), ["wait", "+a", "wait", "-"]),
        ((True, False), ["wait", "+a", "-"]),
        ((False, True), ["+a", "wait", "-"]),
        ((False, False), ["+a", "-"]),
    ],
)
def test_it_waits_before_the_push_and_before_the_pop(
    sync: tuple[bool, bool], expected: list[str], log: list[str]
) -> None:
    ranges = enable(sync=sync, clock=FakeClock(log))
    ranges.range_push("a")
    ranges.range_pop()

    assert log == expected


def test_without_an_accelerator_it_warns_once_and_goes_on(
    log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    with pytest.warns(AssayWarning, match="no accelerator") as warned:
        ranges = enable(sync=(True, True))
    ranges.range_push("a")  # a warning would be an error here
    ranges.range_pop()

    assert len(warned) == 1
    assert log == ["+a", "-"]


def test_a_device_error_while_waiting_does_not_leave_the_range_open(log: list[str]) -> None:
    class BreakingClock:
        faults = iter([RuntimeError("device-side assert")])

        def synchronize(self) -> None:
            for fault in self.faults:
                raise fault

    ranges = enable(sync=(False, True), track=True, clock=BreakingClock())
    ranges.range_push("a")
    with pytest.raises(RuntimeError, match="device-side"):
        ranges.range_pop("a")

    assert log == ["+a", "-"]
    with pytest.raises(InstrumentError, match="no range is open"):
        ranges.range_pop()


# -- order --------------------------------------------------------------------------------------


def test_the_right_order_passes(log: list[str]) -> None:
    ranges = enable(track=True)
    ranges.range_push("a")
    ranges.range_push("b")
    ranges.range_pop("b")
    ranges.range_pop()

    assert log == ["+a", "+b", "-", "-"]


def test_a_wrong_name_is_an_error_after_the_pop(log: list[str]) -> None:
    ranges = enable(track=True, sync=(False, True), clock=FakeClock(log))
    for name in ("a", "b", "c"):
        ranges.range_push(name)
    with pytest.raises(AssertionError, match=r"closed the range 'c': expected 'b'.*\['a', 'b'\]"):
        ranges.range_pop("b")

    assert log[-2:] == ["wait", "-"]
    ranges.range_pop("b")
    ranges.range_pop("a")


def test_a_pop_without_a_push_is_an_error_after_the_pop(log: list[str]) -> None:
    ranges = enable(track=True)
    with pytest.raises(AssertionError, match=r"range_pop\('a'\), but no range is open"):
        ranges.range_pop("a")

    assert log == ["-"]


def test_each_thread_has_its_own_stack() -> None:
    ranges = enable(track=True)
    ranges.range_push("main")
    raised: list[str] = []

    def other() -> None:
        try:
            ranges.range_pop("main")
        except InstrumentError as error:
            raised.append(str(error))

    for _ in range(2):  # the second thread may be given the identity of the first
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    assert len(raised) == 2
    assert all("no range is open on this thread" in each for each in raised)
    ranges.range_pop("main")


def test_a_stack_dies_with_its_thread() -> None:
    ranges = enable(track=True)

    name = "left open by a thread"

    def leak() -> None:
        ranges.range_push(name)

    thread = threading.Thread(target=leak)
    thread.start()
    thread.join()
    del thread
    gc.collect()

    lists = [each for each in gc.get_objects() if type(each) is list]
    stacks = [each for each in lists if len(each) == 1 and each[0] is name]
    assert stacks == []


@given(st.lists(st.sampled_from(["+a", "+b", "-a", "-b", "-"]), max_size=12))
def test_any_sequence_is_judged_as_a_list_judges_it(calls: list[str]) -> None:
    reset_instruments()
    ranges = enable(track=True)
    model: list[str] = []
    for call in calls:
        if call.startswith("+"):
            model.append(call[1:])
            ranges.range_push(call[1:])
            continue
        popped = model.pop() if model else None
        if popped is None or call[1:] not in ("", popped):
            with pytest.raises(InstrumentError):
                ranges.range_pop(call[1:] or None)
        else:
            ranges.range_pop(call[1:] or None)


# -- annotate -----------------------------------------------------------------------------------


def test_a_block_is_closed_when_it_raises(log: list[str]) -> None:
    enable()
    with pytest.raises(KeyError), annotate("a"):
        raise KeyError

    assert log == ["+a", "-"]


def test_a_decorated_function_keeps_its_face_and_goes_live(log: list[str]) -> None:
    @annotate("double")
    def double(value: int, *, times: int = 1) -> int:
        """Twice as much."""
        return 2 * value * times

    assert double(1) == 2
    assert log == []
    enable()

    assert double(1, times=3) == 6
    assert log == ["+double", "-"]
    assert double.__doc__ == "Twice as much."
    assert list(inspect.signature(double).parameters) == ["value", "times"]


def test_without_a_name_a_function_gives_its_own(log: list[str]) -> None:
    enable()

    class Model:
        @annotate()
        def forward(self) -> None: ...

        @annotate()
        @staticmethod
        def build() -> None: ...

    Model().forward()
    Model.build()

    assert [each.rpartition(".")[2] for each in log if each != "-"] == ["forward", "build"]


def test_a_block_without_a_name_is_refused() -> None:
    with pytest.raises(InstrumentError, match="needs a name"), annotate():
        pass


def test_a_class_is_refused() -> None:
    with pytest.raises(InstrumentError, match="decorates functions"):
        annotate("a")(int)


def test_a_function_that_raises_closes_its_range(log: list[str]) -> None:
    @annotate("fails")
    def fail() -> None:
        raise ValueError("once")

    enable(track=True)
    with pytest.raises(ValueError, match="once"):
        fail()

    assert log == ["+fails", "-"]


def test_recursion_nests(log: list[str]) -> None:
    @annotate("down")
    def down(count: int) -> None:
        if count:
            down(count - 1)

    enable(track=True)
    down(2)

    assert log == ["+down"] * 3 + ["-"] * 3


def test_enabling_within_a_block_pops_nothing_at_its_end(log: list[str]) -> None:
    with annotate("before"):
        enable(track=True)

    assert log == []


def test_coroutines_on_one_thread_have_a_range_for_each_stretch(log: list[str]) -> None:
    @annotate("a")
    async def first() -> str:
        await asyncio.sleep(0)
        return "done"

    @annotate("b")
    async def second() -> None:
        await asyncio.sleep(0)
        raise ValueError("second")

    async def both() -> list[Any]:
        return await asyncio.gather(first(), second(), return_exceptions=True)

    enable(track=True)
    result, error = asyncio.run(both())

    assert result == "done"
    assert isinstance(error, ValueError)
    assert inspect.iscoroutinefunction(first)
    assert log == ["+a", "-", "+b", "-", "+a", "-", "+b", "-"]


def test_a_cancelled_coroutine_closes_its_range(log: list[str]) -> None:
    @annotate("waits")
    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            NVTXRangeWrapper().range_push("cleanup")
            NVTXRangeWrapper().range_pop("cleanup")

    async def cancel() -> None:
        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    enable(track=True)
    asyncio.run(cancel())

    assert log == ["+waits", "-", "+waits", "+cleanup", "-", "-"]


def test_a_generator_has_no_range_while_it_is_suspended(log: list[str]) -> None:
    @annotate("gen")
    def count(stop: int) -> Iterator[int]:
        total = 0
        for number in range(stop):
            total += yield number
        return total

    enable(track=True)
    generator: Any = count(2)
    assert inspect.isgeneratorfunction(count)
    assert log == []
    assert next(generator) == 0
    log.append("outside")
    assert generator.send(10) == 1
    with pytest.raises(StopIteration) as stop:
        generator.send(5)

    assert stop.value.value == 15
    assert log == ["+gen", "-", "outside", "+gen", "-", "+gen", "-"]


def test_a_generator_that_is_closed_or_thrown_into_cleans_up_in_a_range(log: list[str]) -> None:
    @annotate("gen")
    def values() -> Iterator[int]:
        try:
            yield 1
        except KeyError:
            log.append("caught")
            yield 2
        finally:
            log.append("cleanup")

    enable(track=True)
    generator: Any = values()
    next(generator)
    assert generator.throw(KeyError("x")) == 2
    generator.close()

    assert log == ["+gen", "-", "+gen", "caught", "-", "+gen", "cleanup", "-"]


def test_an_asynchronous_generator_has_a_range_for_each_stretch(log: list[str]) -> None:
    @annotate("agen")
    async def values() -> AsyncIterator[int]:
        try:
            await asyncio.sleep(0)
            yield 1
            yield 2
        finally:
            log.append("cleanup")

    async def run() -> list[int]:
        found = [value async for value in values()]
        left = values()
        await left.__anext__()
        await left.aclose()  # type: ignore[attr-defined]
        return found

    enable(track=True)
    assert asyncio.run(run()) == [1, 2]
    assert inspect.isasyncgenfunction(values)
    stretch = ["+agen", "-"]
    assert log == [
        *stretch, *stretch, *stretch, "+agen", "cleanup", "-",
        *stretch, *stretch, "+agen", "cleanup", "-",
    ]  # fmt: skip


def test_what_a_block_left_open_is_closed_with_it_and_told(log: list[str]) -> None:
    ranges = enable(track=True)
    ranges.range_push("outer")

    @annotate("block")
    def leave_open() -> None:
        ranges.range_push("x")
        ranges.range_push("y")

    with pytest.raises(InstrumentError, match=r"'block' left \['x', 'y'\] open"):
        leave_open()

    assert log == ["+outer", "+block", "+x", "+y", "-", "-", "-"]
    ranges.range_pop("outer")


def test_an_exception_goes_before_what_the_block_left_open(log: list[str]) -> None:
    ranges = enable(track=True)

    @annotate("block")
    def leave_open_and_fail() -> None:
        ranges.range_push("x")
        raise KeyError

    with pytest.raises(KeyError):
        leave_open_and_fail()

    assert log == ["+block", "+x", "-", "-"]


def test_a_block_whose_range_was_popped_within_pops_no_other(log: list[str]) -> None:
    ranges = enable(track=True)
    ranges.range_push("outer")
    with pytest.raises(InstrumentError, match="'block' popped it within"), annotate("block"):
        ranges.range_pop("block")
    assert log == ["+outer", "+block", "-"]

    @annotate("function")
    def exchange() -> None:
        ranges.range_pop("function")
        ranges.range_push("another")

    with pytest.raises(InstrumentError, match="'function' popped it within"):
        exchange()
    assert log[3:] == ["+function", "-", "+another", "-"]
    ranges.range_pop("outer")


def test_one_annotation_serves_many_threads() -> None:
    @annotate("shared")
    def work(depth: int) -> None:
        with block:
            if depth:
                work(depth - 1)

    block = annotate("block")
    enable(track=True)
    errors: list[BaseException] = []

    def run(depth: int) -> None:
        try:
            for _ in range(50):
                work(depth)
        except InstrumentError as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(depth,)) for depth in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []


# -- with the stopwatch -------------------------------------------------------------------------


def test_one_call_feeds_stopwatch_and_range(log: list[str]) -> None:
    @annotate("function", stopwatch=True)
    def work() -> None: ...

    @annotate(stopwatch=True)
    def named_by_itself() -> None: ...

    Stopwatch(0, None, False)
    enable(track=True)
    with annotate("block", stopwatch=True):
        work()
    named_by_itself()
    Stopwatch().finish_iter()

    measured = {each.name: each for each in Stopwatch().summary().measurements}
    own_name = next(name for name in measured if name.endswith("named_by_itself"))
    assert set(measured) == {"function", "block", own_name}
    assert log == ["+block", "+function", "-", "-", f"+{own_name}", "-"]


def test_either_may_be_on_without_the_other(log: list[str]) -> None:
    Stopwatch(0, None, False)
    with annotate("a", stopwatch=True):
        pass
    assert [each.name for each in Stopwatch().summary().measurements] == ["a"]
    reset_instruments()
    enable()
    with annotate("b", stopwatch=True):
        pass

    assert log == ["+b", "-"]


def test_a_block_that_fails_is_closed_for_both(log: list[str]) -> None:
    Stopwatch(0, None, False)
    enable(track=True)
    with pytest.raises(ZeroDivisionError), annotate("a", stopwatch=True):
        raise ZeroDivisionError

    [measured] = Stopwatch().summary().measurements
    assert measured.num_failed == 1
    assert log == ["+a", "-"]


@pytest.mark.parametrize("fails_at", ["start", "end"])
def test_what_the_stopwatch_refuses_leaves_no_range_open(fails_at: str, log: list[str]) -> None:
    class Measuring:
        def __init__(self, name: str) -> None:
            self.name = name

        def __enter__(self) -> None:
            if fails_at == "start":
                raise InstrumentError(f"{self.name} runs already")

        def __exit__(self, *_: object) -> None:
            raise InstrumentError(f"{self.name} does not run")

    ranges = enable(track=True)
    with pytest.raises(InstrumentError, match=r"^a "), RangeAnnotation("a", ranges, Measuring):
        pass

    assert log == ["+a", "-"]


# -- inside torch.compile -----------------------------------------------------------------------


def compiled_step(values: torch.Tensor) -> torch.Tensor:
    NVTXRangeWrapper().range_push("step")
    with annotate("block"):
        doubled = decorated(values)
    with NVTXRangeWrapper().annotate("both", stopwatch=True):
        doubled = doubled + 1
    NVTXRangeWrapper().range_pop("step")
    return doubled


@annotate("decorated")
def decorated(values: torch.Tensor) -> torch.Tensor:
    return values * 2


@pytest.mark.parametrize("state", ["off", "on", "tracking", "waiting"])
def test_compiled_code_has_one_graph_and_leaves_the_order_whole(state: str, log: list[str]) -> None:
    torch._dynamo.reset()
    if state != "off":
        clock = FakeClock([])
        both = state == "waiting"
        enable(track=state == "tracking", sync=(both, both), clock=clock)
    compiled = torch.compile(compiled_step, backend="eager", fullgraph=True)

    NVTXRangeWrapper().range_push("around")
    result = compiled(torch.ones(3))
    NVTXRangeWrapper().range_pop("around")

    assert torch.equal(result, torch.full((3,), 3.0))
    assert log == ([] if state == "off" else ["+around", "-"])
