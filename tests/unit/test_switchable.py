from __future__ import annotations

import copy
import inspect
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
import traceback
import typing
from collections.abc import Callable, Iterator

import pytest

from assay._switchable import Instrument, is_being_compiled, switchable
from assay.errors import InstrumentError
from assay.testing import reset_instruments


class Counter(Instrument):
    """Counts, once it is enabled."""

    __slots__ = ("step", "value")

    def enable(self, first: int, step: int | None, *, slow_s: float = 0.0) -> None:
        """Count from ``first``."""
        with self._enabling():
            self.value = first
            time.sleep(slow_s)
            if step is not None and step < 1:
                raise ValueError(f"step={step} has to be 1 or more")
            self.step = step or 1

    @switchable(disabled=-1, notes_use=True)
    def count(self, times: int = 1, /, *names: str, scale: int = 1, **more: str) -> int:
        """The new value."""
        self.value += times * self.step * scale
        return self.value

    @switchable(disabled=-1, skip_in_compiled=True)
    def peek(self, *, by: int = 1) -> int:
        """What the next value will be."""
        time.perf_counter_ns()  # which breaks a graph
        return self.value + by

    @switchable()
    def name(self, name: str) -> str | None:
        """The name, in a sentence of the base class."""
        return super().__repr__() + name


@pytest.fixture(autouse=True)
def disabled() -> Iterator[None]:
    reset_instruments()
    yield
    reset_instruments()


def test_the_class_gives_one_object() -> None:
    assert Counter() is Counter()
    assert isinstance(Counter(), Counter)


def test_threads_that_call_first_get_the_same_object() -> None:
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(Counter())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [Counter()] * 8


def test_methods_return_their_disabled_value_until_enabled() -> None:
    assert not Counter().is_enabled
    assert Counter().count(3) == -1
    assert Counter().name("x") is None
    Counter().enable(10, None)
    assert Counter().is_enabled
    assert Counter().count(3) == 13
    assert Counter().name("x") == "<Counter, enabled>x"


def test_parameters_of_the_class_enable_it() -> None:
    assert Counter(10, step=2) is Counter()
    assert Counter().count() == 12


def test_missing_parameters_are_a_type_error_as_in_any_call() -> None:
    with pytest.raises(TypeError, match=r"enable\(\) missing 1 required .* 'step'"):
        Counter(10)
    with pytest.raises(TypeError, match="unexpected keyword argument 'stop'"):
        Counter(10, stop=3)
    with pytest.raises(TypeError, match="positional arguments"):
        Counter(10, None, 0.5)
    assert not Counter().is_enabled


@pytest.mark.parametrize("enable", [Counter, Counter().enable])
def test_enabling_twice_is_refused_and_changes_nothing(enable: typing.Any) -> None:
    Counter(10, None)
    with pytest.raises(InstrumentError, match="Counter is enabled already") as caught:
        enable(20, None)
    assert isinstance(caught.value, AssertionError)
    assert isinstance(caught.value, RuntimeError)
    assert Counter().count() == 11


def test_a_refused_enabling_leaves_it_disabled_and_without_state() -> None:
    with pytest.raises(ValueError, match="step=0"):
        Counter(10, 0)
    assert not Counter().is_enabled
    assert Counter().count() == -1
    assert not hasattr(Counter(), "value")
    assert not hasattr(Counter(), "step")
    assert Counter(10, 1).count() == 11


def test_of_threads_that_enable_at_once_one_wins_and_the_others_are_told() -> None:
    refused: list[int] = []
    gate = threading.Barrier(8)

    def enable(first: int) -> None:
        gate.wait()
        try:
            Counter(first, None, slow_s=0.01)
        except InstrumentError:
            refused.append(first)

    threads = [threading.Thread(target=enable, args=(100 * number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 7
    [winner] = {100 * number for number in range(8)} - set(refused)
    assert Counter().count() == winner + 1


@pytest.mark.parametrize("enabled", [False, True])
def test_a_method_shows_itself_the_same_in_both_states(enabled: bool) -> None:
    if enabled:
        Counter(1, None)
    assert str(inspect.signature(Counter.count)) == (
        "(self, times: 'int' = 1, /, *names: 'str', scale: 'int' = 1, **more: 'str') -> 'int'"
    )
    assert list(inspect.signature(Counter().count).parameters) == [
        "times",
        "names",
        "scale",
        "more",
    ]
    assert typing.get_type_hints(Counter.count)["return"] is int
    assert Counter.count.__doc__ == "The new value."
    assert Counter.count.__qualname__ == "Counter.count"
    assert Counter.count.__module__ == __name__
    assert inspect.getsource(Counter.name).startswith("    @switchable()\n    def name(")


@pytest.mark.parametrize("enabled", [False, True])
def test_a_wrong_call_is_a_type_error_in_both_states(enabled: bool) -> None:
    if enabled:
        Counter(1, None)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'name'"):
        Counter().name()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'nam'"):
        Counter().name(nam="x")  # type: ignore[call-arg]
    assert Counter().count(1, "a", "b", scale=2, colour="red") == (3 if enabled else -1)


def test_the_class_shows_the_parameters_that_enable_it() -> None:
    assert list(inspect.signature(Counter).parameters) == ["first", "step", "slow_s"]


def test_a_method_stored_while_disabled_stays_without_effect() -> None:
    count = Counter().count
    assert count() == -1
    Counter(10, None)
    assert count() == -1
    assert Counter().count() == 11


def test_a_reset_makes_it_as_new() -> None:
    Counter(10, None).count()
    reset_instruments()
    assert not Counter().is_enabled
    assert Counter().count() == -1
    assert not hasattr(Counter(), "value")
    assert not hasattr(Counter(), "step")
    assert Counter(20, None).count() == 21


def test_an_instrument_without_slots_is_reset_as_well() -> None:
    class Loose(Instrument):
        def enable(self, value: int) -> None:
            with self._enabling():
                self.value = value

    Loose(3)
    reset_instruments()
    assert not hasattr(Loose(), "value")
    assert Loose(4).value == 4


def test_a_use_before_enabling_is_noted_until_the_reset() -> None:
    assert not Counter()._was_used_before_enabling("count")
    assert [Counter().count(), Counter().count()] == [-1, -1]
    assert Counter()._was_used_before_enabling("count")
    Counter(10, None)
    assert Counter()._was_used_before_enabling("count")
    reset_instruments()
    Counter(10, None).count()
    assert not Counter()._was_used_before_enabling("count")


def test_copies_and_pickles_are_the_object_itself() -> None:
    from assay.timing import Stopwatch  # importable by name, as pickling needs it

    counter = Counter()
    assert copy.copy(counter) is counter
    assert copy.deepcopy({"counter": counter})["counter"] is counter
    assert pickle.loads(pickle.dumps(Stopwatch())) is Stopwatch()


def test_an_instrument_has_no_subclasses() -> None:
    with pytest.raises(TypeError, match="an instrument has no subclasses"):
        type(Counter)("Faster", (Counter,), {})


def in_forked_child(function: Callable[[], object]) -> str:
    """What ``function`` returns in a forked child, or the error it raises there, as text."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, repr(function()).encode())
        except BaseException:  # noqa: BLE001  the child may not go on with the parent's tests
            os.write(write, traceback.format_exc().encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        said = file.read()
    os.waitpid(pid, 0)
    return said


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_child_forked_in_the_midst_of_enabling_is_in_one_state_or_the_other() -> None:
    enabling = threading.Thread(target=Counter, args=(10, None), kwargs={"slow_s": 0.3})
    enabling.start()
    while enabling.is_alive() and not hasattr(Counter(), "value"):
        time.sleep(0.001)
    # The fork waits for the lock, and so for the end of the enabling.
    assert in_forked_child(lambda: (Counter().is_enabled, Counter().count())) == "(True, 11)"
    enabling.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_child_may_enable_while_its_parent_stays_disabled() -> None:
    assert in_forked_child(lambda: Counter(5, None).count()) == "6"
    assert Counter().count() == -1


def test_spawned_workers_start_disabled() -> None:
    from assay.timing import Stopwatch

    Stopwatch(0, None, False)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(getattr, (Stopwatch(), "is_enabled")) is False
    assert Stopwatch().is_enabled


def test_without_torch_nothing_is_being_compiled_and_torch_is_not_imported() -> None:
    code = (
        "import sys\nfrom assay._switchable import is_being_compiled\n"
        "assert not is_being_compiled() and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("enabled", [False, True])
def test_what_compiled_code_is_to_skip_stays_as_when_disabled_in_it(enabled: bool) -> None:
    import torch

    if enabled:
        Counter(10, None)
    counter = Counter()

    @torch.compile(fullgraph=True, backend="eager")
    def scale(x: torch.Tensor) -> torch.Tensor:
        return x * (counter.peek() + Counter().peek(by=2))

    assert scale(torch.ones(2)).tolist() == [-2, -2]
    assert counter.peek() == (11 if enabled else -1)
    torch.compiler.reset()


@pytest.mark.parametrize("uses_before", [0, 1, 2])
def test_compiled_code_calls_disabled_methods_without_a_graph_break(uses_before: int) -> None:
    import torch

    for _ in range(uses_before):
        Counter().count()

    @torch.compile(fullgraph=True, backend="eager")
    def double(x: torch.Tensor) -> torch.Tensor:
        Counter().count()
        Counter().name("double")
        return x * (3 if is_being_compiled() else 2)

    assert double(torch.ones(2)).tolist() == [3, 3]
    assert not is_being_compiled()
    torch.compiler.reset()


def test_one_call_can_be_ignored_for_who_enables_from_outside() -> None:
    counter = Counter(5, None)
    notes: list[str] = []
    counter._ignore_once("enable", lambda: notes.append("ignored"))

    assert inspect.signature(Counter.enable).parameters.keys() >= {"first", "step"}
    with pytest.raises(TypeError):
        counter.enable("too", "many", "values")  # type: ignore[call-arg]
    assert Counter(7, None) is counter
    assert (counter.count(), notes) == (6, ["ignored"])
    with pytest.raises(InstrumentError, match="enabled already"):
        counter.enable(7, None)


def test_a_reset_forgets_that_a_call_was_to_be_ignored() -> None:
    Counter(5, None)._ignore_once("enable", lambda: None)

    reset_instruments()

    assert Counter(7, None).count() == 8
