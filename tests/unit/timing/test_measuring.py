from __future__ import annotations

import asyncio
import functools
import inspect
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator

import pytest

from assay.errors import InstrumentError
from assay.timing import Measurement, Stopwatch

Enable = Callable[..., Stopwatch]


def found(name: str) -> Measurement:
    return next(each for each in Stopwatch().summary().measurements if each.name == name)


def totals() -> dict[str, float]:
    return {each.name: each.host.total_ms for each in Stopwatch().summary().measurements}


def test_a_block_is_one_sample(enable: Enable, clock) -> None:
    stopwatch = enable()
    with stopwatch.measure("a"):
        clock.pass_ms(3)
    assert found("a").host.total_ms == 3
    assert found("a").num_failed == 0


def test_an_exception_ends_the_sample_and_marks_it(enable: Enable, clock, printed) -> None:
    stopwatch = enable()

    def fail() -> None:
        with stopwatch.measure("a"):
            clock.pass_ms(3)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert found("a").host.total_ms == 3
    assert found("a").num_failed == 1
    stopwatch.print_eval_times()
    assert "1 of the 1 samples of 'a' ended with an error." in printed[0]


def test_while_off_everything_passes_through() -> None:
    measuring = Stopwatch().measure("a")
    with measuring:
        pass
    assert measuring(abs)(-2) == 2
    assert list(measuring.around([1, 2])) == [1, 2]


def test_a_function_decorated_while_off_is_measured_once_it_is_on(enable: Enable, clock) -> None:
    @Stopwatch().measure("a")
    def work() -> None:
        clock.pass_ms(2)

    work()
    enable()
    work()
    assert found("a").host.count == 1


def test_a_block_entered_while_off_is_ignored_when_it_ends(enable: Enable) -> None:
    with Stopwatch().measure("a"):
        enable()
    assert Stopwatch().summary().measurements == ()


def test_a_block_entered_in_the_warmup_is_not_counted(enable: Enable, clock) -> None:
    stopwatch = enable(num_warmup_iters=1)
    with stopwatch.measure("a"):
        stopwatch.finish_iter()
        clock.pass_ms(1)
    assert found("a").host is None
    with stopwatch.measure("a"):
        clock.pass_ms(2)
    assert found("a").host.total_ms == 2


def test_an_iteration_cannot_finish_within_a_measured_block(enable: Enable) -> None:
    stopwatch = enable()
    with stopwatch.measure("a"), pytest.raises(InstrumentError, match="Running: 'a'"):
        stopwatch.finish_iter()


def test_a_block_that_was_ended_by_hand_is_not_ended_again(enable: Enable, clock) -> None:
    stopwatch = enable()
    with stopwatch.measure("a"):
        clock.pass_ms(1)
        stopwatch.end_meas("a")
        clock.pass_ms(5)
    assert (found("a").host.count, found("a").host.total_ms) == (1, 1)


def test_recursion_is_measured_once_from_outside(enable: Enable, clock) -> None:
    stopwatch = enable()

    @stopwatch.measure("sum")
    def sum_to(number: int) -> int:
        clock.pass_ms(1)
        return number + sum_to(number - 1) if number else 0

    assert sum_to(3) == 6
    assert (found("sum").host.count, found("sum").host.total_ms) == (1, 4)
    with stopwatch.measure("block"):
        with stopwatch.measure("block"):
            clock.pass_ms(2)
        clock.pass_ms(3)
    assert (found("block").host.count, found("block").host.total_ms) == (1, 5)


def test_a_decorated_function_shows_itself_as_before(enable: Enable) -> None:
    def scale(value: float, *, by: float = 2) -> float:
        """The scaled value."""
        return value * by

    decorated = enable().measure("a")(scale)
    assert decorated(3, by=4) == 12
    assert decorated.__name__ == "scale"
    assert decorated.__doc__ == "The scaled value."
    assert inspect.signature(decorated) == inspect.signature(scale)


def test_a_decorated_function_passes_errors_on_and_marks_them(enable: Enable) -> None:
    @enable().measure("a")
    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError, match="x"):
        fail()
    assert found("a").num_failed == 1


def test_one_decorated_function_runs_on_ten_threads(enable: Enable) -> None:
    gate = threading.Barrier(10)

    @enable().measure("a")
    def work() -> None:
        gate.wait()

    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found("a").host.count == 10
    assert found("a").num_failed == 0


def test_methods_of_every_kind_can_be_decorated(enable: Enable, clock) -> None:
    stopwatch = enable()

    class Model:
        @stopwatch.measure("method")
        def forward(self, milliseconds: int) -> Model:
            clock.pass_ms(milliseconds)
            return self

        @stopwatch.measure("class method")
        @classmethod
        def build(cls) -> Model:
            clock.pass_ms(2)
            return cls()

        @staticmethod
        @stopwatch.measure("static method")
        def load() -> int:
            clock.pass_ms(3)
            return 7

        @stopwatch.measure("call")
        def __call__(self) -> None:
            clock.pass_ms(4)

    model = Model.build()
    assert model.forward(1) is model
    assert Model.load() == model.load() == 7
    model()
    assert totals() == {"class method": 2, "method": 1, "static method": 6, "call": 4}


def test_a_decorated_coroutine_takes_as_long_as_it_is_awaited() -> None:
    @Stopwatch(0, None, False).measure("sleep")
    async def sleep() -> str:
        await asyncio.sleep(0.1)
        return "rested"

    assert asyncio.run(sleep()) == "rested"
    assert 95 <= found("sleep").host.total_ms < 5000


def test_coroutines_of_one_name_overlap_and_are_no_gap(enable: Enable, clock) -> None:
    stopwatch = enable()

    @stopwatch.measure("request")
    async def request(before: asyncio.Event, after: asyncio.Event, milliseconds: int) -> None:
        await before.wait()
        clock.pass_ms(milliseconds)
        after.set()

    async def main() -> None:
        first, second, third = asyncio.Event(), asyncio.Event(), asyncio.Event()
        first.set()
        await asyncio.gather(request(second, third, 5), request(first, second, 2))
        clock.pass_ms(1)
        stopwatch.finish_iter()

    asyncio.run(main())
    assert (found("request").host.count, found("request").host.total_ms) == (2, 9)
    assert stopwatch.summary().unaccounted_ms == 1


def test_a_coroutine_may_go_on_into_the_next_iteration(enable: Enable, clock) -> None:
    stopwatch = enable()

    @stopwatch.measure("prefetch")
    async def prefetch() -> None:
        clock.pass_ms(1)
        await asyncio.sleep(0)
        clock.pass_ms(2)

    async def main() -> None:
        task = asyncio.create_task(prefetch())
        await asyncio.sleep(0)
        clock.pass_ms(10)
        stopwatch.finish_iter()
        await task
        stopwatch.finish_iter()

    asyncio.run(main())
    assert found("prefetch").host.total_ms == 13
    assert stopwatch.summary().iteration.total_ms == 13
    assert stopwatch.summary().unaccounted_ms == 0


def test_a_cancelled_coroutine_is_marked(enable: Enable) -> None:
    @enable().measure("wait")
    async def wait() -> None:
        await asyncio.sleep(3600)

    async def main() -> None:
        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert inspect.iscoroutinefunction(wait)
    assert found("wait").num_failed == 1


def test_the_time_between_the_steps_of_a_generator_is_not_counted(enable: Enable, clock) -> None:
    @enable().measure("read")
    def read() -> Iterator[int]:
        for number in range(3):
            clock.pass_ms(1)
            yield number
        clock.pass_ms(5)

    for _ in read():
        clock.pass_ms(100)
    assert inspect.isgeneratorfunction(read)
    assert (found("read").host.count, found("read").host.total_ms) == (1, 8)


def test_what_is_sent_and_thrown_reaches_the_generator_and_its_value_returns(
    enable: Enable, clock
) -> None:
    @enable().measure("talk")
    def talk() -> Generator[object, object, str]:
        heard: list[object] = []
        while len(heard) < 3:
            clock.pass_ms(1)
            try:
                heard.append((yield len(heard)))
            except KeyError as error:
                heard.append(error.args[0])
        return repr(heard)

    talking = talk()
    assert next(talking) == 0
    assert talking.send("a") == 1
    assert talking.throw(KeyError("b")) == 2
    with pytest.raises(StopIteration) as stopped:
        talking.send("c")
    assert stopped.value.value == "['a', 'b', 'c']"
    assert found("talk").host.total_ms == 3
    assert found("talk").num_failed == 0


def test_a_generator_that_is_closed_early_cleans_up_and_is_counted(enable: Enable, clock) -> None:
    cleaned = []

    @enable().measure("read")
    def read() -> Iterator[int]:
        try:
            clock.pass_ms(1)
            yield 1
        finally:
            clock.pass_ms(2)
            cleaned.append(True)

    reading = read()
    next(reading)
    reading.close()
    assert cleaned == [True]
    assert found("read").host.total_ms == 3
    assert found("read").num_failed == 0


def test_a_generator_that_raises_is_marked(enable: Enable) -> None:
    @enable().measure("read")
    def read() -> Iterator[int]:
        yield 1
        raise OSError("gone")

    reading = read()
    next(reading)
    with pytest.raises(OSError, match="gone"):
        next(reading)
    assert found("read").num_failed == 1


def test_an_iteration_may_finish_between_the_steps_of_a_generator(enable: Enable, clock) -> None:
    stopwatch = enable()

    @stopwatch.measure("load")
    def load() -> Iterator[int]:
        for number in range(3):
            clock.pass_ms(1)
            yield number

    for _ in load():
        stopwatch.finish_iter()
    assert stopwatch.get_num_nonwarmup_iters_measured() == 3
    assert stopwatch.summary().unaccounted_ms == 0


def test_an_asynchronous_generator_counts_what_it_awaits_and_not_its_consumer(
    enable: Enable, clock
) -> None:
    @enable().measure("stream")
    async def stream() -> AsyncIterator[int]:
        for number in range(2):
            await asyncio.sleep(0)
            clock.pass_ms(1)
            yield number

    async def main() -> list[int]:
        seen = []
        async for number in stream():
            clock.pass_ms(50)
            seen.append(number)
        return seen

    assert inspect.isasyncgenfunction(stream)
    assert asyncio.run(main()) == [0, 1]
    assert (found("stream").host.count, found("stream").host.total_ms) == (1, 2)


def test_an_asynchronous_generator_hears_what_is_sent_thrown_and_closed(
    enable: Enable, clock
) -> None:
    log: list[object] = []

    @enable().measure("talk")
    async def talk():
        try:
            while True:
                try:
                    log.append((yield len(log)))
                except KeyError as error:
                    log.append(error.args[0])
        finally:
            clock.pass_ms(2)
            log.append("closed")

    async def main() -> None:
        talking = talk()
        assert await talking.__anext__() == 0
        assert await talking.asend("a") == 1
        assert await talking.athrow(KeyError("b")) == 2
        await talking.aclose()

    asyncio.run(main())
    assert log == ["a", "b", "closed"]
    assert found("talk").host.total_ms == 2
    assert found("talk").num_failed == 0


def test_an_asynchronous_generator_that_raises_is_marked(enable: Enable) -> None:
    @enable().measure("stream")
    async def stream() -> AsyncIterator[int]:
        yield 1
        raise OSError("gone")

    async def main() -> None:
        async for _ in stream():
            pass

    with pytest.raises(OSError, match="gone"):
        asyncio.run(main())
    assert found("stream").num_failed == 1


def test_each_item_of_an_iterable_is_one_sample(enable: Enable, clock) -> None:
    class Loader:
        def __len__(self) -> int:
            return 3

        def __iter__(self) -> Iterator[int]:
            for number in range(3):
                clock.pass_ms(number)
                yield number
            clock.pass_ms(1000)

    loader = enable().measure("load").around(Loader())
    assert len(loader) == 3
    for _ in range(2):
        for _ in loader:
            clock.pass_ms(50)
    assert (found("load").host.count, found("load").host.max_ms) == (6, 2)


def test_an_iterable_that_raises_is_marked(enable: Enable) -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        list(enable().measure("load").around(items()))
    assert (found("load").host.count, found("load").num_failed) == (2, 1)


@pytest.mark.parametrize("wrong", [[1, 2], "text", int, Stopwatch])
def test_what_is_no_function_cannot_be_decorated(wrong: object) -> None:
    with pytest.raises(InstrumentError, match=r"decorates functions, not .*\.around\(iterable\)"):
        Stopwatch().measure("a")(wrong)


def test_partial_functions_and_callable_objects_are_seen_for_what_they_are(
    enable: Enable, clock
) -> None:
    stopwatch = enable()

    async def rest(milliseconds: int) -> None:
        clock.pass_ms(milliseconds)

    class Rest:
        async def __call__(self) -> None:
            clock.pass_ms(4)

    asyncio.run(stopwatch.measure("partial")(functools.partial(rest, 3))())
    asyncio.run(stopwatch.measure("object")(Rest())())
    assert totals() == {"partial": 3, "object": 4}


def test_device_time_of_a_block_and_of_coroutines_is_taken(enable: Enable, device) -> None:
    stopwatch = enable(device_events=True, event_clock=device)

    @stopwatch.measure("coroutine")
    async def forward() -> None:
        device.launch_ms(4)

    with stopwatch.measure("block"):
        device.launch_ms(3)
    asyncio.run(forward())
    assert found("block").device.total_ms == 3
    assert found("coroutine").device.total_ms == 4


def test_a_reset_within_a_block_does_not_disturb_its_end(enable: Enable) -> None:
    from assay.testing import reset_instruments

    stopwatch = enable()
    with stopwatch.measure("a"):
        reset_instruments()
    assert not stopwatch.is_enabled


def test_blocks_on_a_real_clock_add_up() -> None:
    stopwatch = Stopwatch(0, None, False)
    with stopwatch.measure("outer"):
        for _ in range(3):
            with stopwatch.measure("inner"):
                time.sleep(0.005)
    assert 15 <= found("inner").host.total_ms <= found("outer").host.total_ms
