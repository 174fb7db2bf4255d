from __future__ import annotations

import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable

import pytest

from assay.errors import AssayWarning, InstrumentError
from assay.timing import Measurement, Stopwatch, Summary
from assay.timing.cpu_usage import CpuReading

Enable = Callable[..., Stopwatch]


def measure(stopwatch: Stopwatch, clock, name: str, milliseconds: float) -> None:
    stopwatch.start_meas(name)
    clock.pass_ms(milliseconds)
    stopwatch.end_meas(name)


def found(name: str) -> Measurement:
    return next(each for each in Stopwatch().summary().measurements if each.name == name)


def test_while_off_every_method_does_nothing() -> None:
    stopwatch = Stopwatch()
    stopwatch.end_meas("never started")
    stopwatch.start_meas("a")
    stopwatch.start_meas("a")
    stopwatch.finish_iter()
    stopwatch.end_one_time_measurement("b")
    stopwatch.set_cpu_usage_meas_name("a")
    stopwatch.print_eval_times()
    assert not stopwatch.is_enabled
    assert stopwatch.get_num_nonwarmup_iters_measured() == 0
    assert stopwatch.summary() == Summary()
    assert stopwatch.trace().events == ()


def test_intervals_of_a_name_add_up(enable: Enable, clock) -> None:
    stopwatch = enable()
    for milliseconds in (2, 4, 6):
        measure(stopwatch, clock, "a", milliseconds)
        clock.pass_ms(100)
    host = found("a").host
    assert (host.count, host.total_ms, host.mean_ms) == (3, 12, 4)
    assert (host.min_ms, host.max_ms) == (2, 6)
    assert host.median_ms == pytest.approx(4, rel=0.01)


def test_averages_are_per_interval_and_per_measured_iteration(enable: Enable, clock) -> None:
    stopwatch = enable(num_warmup_iters=1)
    for _ in range(3):
        measure(stopwatch, clock, "a", 2)
        measure(stopwatch, clock, "a", 4)
        stopwatch.finish_iter()
    assert stopwatch.get_num_nonwarmup_iters_measured() == 2
    assert found("a").host.mean_ms == 3
    assert found("a").per_iteration_ms == 6


def test_a_name_of_some_iterations_is_averaged_over_all(enable: Enable, clock) -> None:
    stopwatch = enable()
    for iteration in range(4):
        if iteration == 2:
            measure(stopwatch, clock, "validate", 8)
        stopwatch.finish_iter()
    assert found("validate").per_iteration_ms == 2


def test_the_warmup_is_not_measured(enable: Enable, clock) -> None:
    stopwatch = enable(num_warmup_iters=2)
    for milliseconds in (100, 50, 1):
        measure(stopwatch, clock, "a", milliseconds)
        stopwatch.finish_iter()
    assert found("a").host.total_ms == 1
    assert Stopwatch().summary().iteration.total_ms == 1


def test_what_starts_in_the_warmup_and_ends_after_it_is_not_counted(enable: Enable, clock) -> None:
    stopwatch = enable(num_warmup_iters=1)
    stopwatch.start_meas("a")
    stopwatch.finish_iter()
    clock.pass_ms(5)
    stopwatch.end_meas("a")
    measure(stopwatch, clock, "a", 1)
    assert found("a").host.total_ms == 1


def test_a_name_seen_only_in_the_warmup_has_no_measurement(enable: Enable, clock, printed) -> None:
    stopwatch = enable(num_warmup_iters=1)
    measure(stopwatch, clock, "a", 5)
    stopwatch.finish_iter()
    stopwatch.finish_iter()
    assert found("a").host is None
    stopwatch.print_eval_times()
    assert "no measurement" in printed[0]


def test_starting_what_runs_is_refused_and_leaves_it_running(enable: Enable, clock) -> None:
    stopwatch = enable()
    stopwatch.start_meas("outer")
    stopwatch.start_meas("a")
    with pytest.raises(InstrumentError, match=r"'a' is measured already.*Running: 'outer', 'a'\."):
        stopwatch.start_meas("a")
    clock.pass_ms(3)
    stopwatch.end_meas("a")
    assert found("a").host.total_ms == 3


def test_ending_what_was_never_started_lists_what_runs(enable: Enable) -> None:
    stopwatch = enable()
    with pytest.raises(AssertionError, match=r"'b' is not measured.*Nothing runs\."):
        stopwatch.end_meas("b")
    stopwatch.start_meas("a")
    stopwatch.start_meas("c")
    with pytest.raises(InstrumentError, match=r"'b' is not measured.*Running: 'a', 'c'\."):
        stopwatch.end_meas("b")


def test_finishing_an_iteration_with_one_running_is_refused(enable: Enable, clock) -> None:
    stopwatch = enable()
    stopwatch.start_meas("a")
    with pytest.raises(InstrumentError, match=r"cannot finish yet\. Running: 'a'"):
        stopwatch.finish_iter()
    assert stopwatch.get_num_nonwarmup_iters_measured() == 0
    clock.pass_ms(1)
    stopwatch.end_meas("a")
    stopwatch.finish_iter()
    assert stopwatch.get_num_nonwarmup_iters_measured() == 1


def test_what_was_started_before_enabling_is_ignored_once_when_it_ends(enable: Enable) -> None:
    Stopwatch().start_meas("a")
    stopwatch = enable()
    stopwatch.start_meas("inner")
    stopwatch.end_meas("inner")
    stopwatch.end_meas("a")
    assert [each.name for each in stopwatch.summary().measurements] == ["inner"]
    with pytest.raises(InstrumentError, match="'a' is not measured"):
        stopwatch.end_meas("a")


def test_a_start_before_enabling_excuses_no_end_while_something_runs(enable: Enable) -> None:
    Stopwatch().start_meas("a")
    stopwatch = enable()
    stopwatch.start_meas("b")
    with pytest.raises(InstrumentError, match="'c' is not measured"):
        stopwatch.end_meas("c")


def test_one_time_measurements_know_no_warmup(enable: Enable, clock) -> None:
    stopwatch = enable(num_warmup_iters=5)
    stopwatch.start_one_time_measurement("set up")
    stopwatch.start_one_time_measurement("model")
    clock.pass_ms(2)
    stopwatch.end_one_time_measurement("set up")
    assert [(each.name, each.elapsed_ms) for each in stopwatch.summary().one_time] == [
        ("set up", 2),
        ("model", None),
    ]


@pytest.mark.parametrize("ended", [False, True])
def test_a_one_time_name_used_twice_is_refused(enable: Enable, ended: bool) -> None:
    stopwatch = enable()
    stopwatch.start_one_time_measurement("set up")
    if ended:
        stopwatch.end_one_time_measurement("set up")
    with pytest.raises(InstrumentError, match="'set up' was made before, or runs"):
        stopwatch.start_one_time_measurement("set up")


def test_ending_a_one_time_measurement_that_does_not_run_is_refused(enable: Enable) -> None:
    stopwatch = enable()
    stopwatch.start_one_time_measurement("other")
    with pytest.raises(InstrumentError, match=r"'set up' does not run\. Running: 'other'\."):
        stopwatch.end_one_time_measurement("set up")
    stopwatch.end_one_time_measurement("other")
    with pytest.raises(InstrumentError, match=r"'other' does not run\. Nothing runs\."):
        stopwatch.end_one_time_measurement("other")


def test_a_one_time_measurement_started_before_enabling_is_ignored(enable: Enable) -> None:
    Stopwatch().start_one_time_measurement("set up")
    stopwatch = enable()
    stopwatch.end_one_time_measurement("set up")
    assert stopwatch.summary().one_time == ()


def test_a_one_time_measurement_may_end_on_another_thread(enable: Enable, clock) -> None:
    stopwatch = enable()
    stopwatch.start_one_time_measurement("load")
    clock.pass_ms(7)
    run_in_thread(lambda: stopwatch.end_one_time_measurement("load"))
    assert stopwatch.summary().one_time[0].elapsed_ms == 7


def test_it_prints_each_time_so_many_more_iterations_are_measured(
    enable: Enable, clock, printed
) -> None:
    stopwatch = enable(num_warmup_iters=1, print_every_n_iters=2)
    counts = []
    for _ in range(6):
        measure(stopwatch, clock, "a", 1)
        stopwatch.finish_iter()
        counts.append(len(printed))
    assert counts == [0, 0, 1, 1, 2, 2]
    assert printed[0].startswith("2 measured iterations")


def test_printing_belongs_to_no_iteration(enable: Enable, clock) -> None:
    stopwatch = enable(print_every_n_iters=1, sink=lambda _: clock.pass_ms(1000))
    for _ in range(3):
        clock.pass_ms(1)
        stopwatch.finish_iter()
    assert stopwatch.summary().iteration.max_ms == 1


def test_by_default_it_prints_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    Stopwatch(0, None, False).print_eval_times()
    assert capsys.readouterr().out == "Nothing was measured.\n"


def test_the_report_may_be_printed_while_something_runs(enable: Enable, printed) -> None:
    stopwatch = enable()
    stopwatch.start_meas("a")
    stopwatch.print_eval_times()
    assert "Running now, and not counted: 'a'." in printed[0]
    assert stopwatch.summary().running == ("a",)
    stopwatch.end_meas("a")
    assert stopwatch.summary().running == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, None, False), "num_warmup_iters=-1 has to be 0 or more"),
        ((0, 0, False), "print_every_n_iters=0 has to be 1 or more"),
        ((0.5, None, False), "num_warmup_iters=0.5 has to be a whole number"),
    ],
)
def test_numbers_out_of_range_are_refused_at_once(arguments, message: str) -> None:
    with pytest.raises(InstrumentError, match=message):
        Stopwatch(*arguments)
    assert not Stopwatch().is_enabled


def test_share_and_unaccounted_time_count_nested_time_once(enable: Enable, clock) -> None:
    stopwatch = enable()
    for _ in range(2):
        stopwatch.start_meas("outer")
        clock.pass_ms(1)
        measure(stopwatch, clock, "inner", 3)
        stopwatch.start_meas("overlapping")
        clock.pass_ms(1)
        stopwatch.end_meas("outer")
        clock.pass_ms(2)
        stopwatch.end_meas("overlapping")
        clock.pass_ms(3)
        stopwatch.finish_iter()
    summary = stopwatch.summary()
    assert summary.iteration.total_ms == 20
    assert summary.unaccounted_ms == 6
    assert [(each.name, each.share) for each in summary.measurements] == [
        ("outer", 0.5),
        ("inner", 0.3),
        ("overlapping", 0.3),
    ]


def test_what_is_measured_outside_of_iterations_has_no_share_in_them(enable: Enable, clock) -> None:
    stopwatch = enable()
    measure(stopwatch, clock, "a", 1)
    clock.pass_ms(1)
    stopwatch.finish_iter()
    measure(stopwatch, clock, "a", 100)
    assert found("a").host.total_ms == 101
    assert found("a").share == 0.5


def run_in_thread(*functions: Callable[[], object]) -> None:
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_one_name_may_run_on_ten_threads_at_once(enable: Enable, clock) -> None:
    stopwatch = enable()
    gate = threading.Barrier(10)

    def work() -> None:
        stopwatch.start_meas("a")
        gate.wait()
        if gate.wait() == 0:
            clock.pass_ms(2)
        gate.wait()
        stopwatch.end_meas("a")

    run_in_thread(*[work] * 10)
    host = found("a").host
    assert (host.count, host.total_ms) == (10, 20)


def test_samples_of_threads_that_have_ended_stay(enable: Enable, clock) -> None:
    stopwatch = enable()
    for _ in range(20):
        run_in_thread(lambda: measure(stopwatch, clock, "a", 1))
    assert found("a").host.count == 20
    assert stopwatch._sampler.recorder._states == []


def test_another_threads_measurement_does_not_hold_up_the_iteration(enable: Enable) -> None:
    stopwatch = enable()
    run_in_thread(lambda: stopwatch.start_meas("loader"))
    stopwatch.finish_iter()
    assert stopwatch.get_num_nonwarmup_iters_measured() == 1


def test_summaries_may_be_taken_while_threads_measure() -> None:
    stopwatch = Stopwatch(0, None, False)
    done = threading.Event()

    def work() -> None:
        for _ in range(5000):
            stopwatch.start_meas("a")
            stopwatch.end_meas("a")

    def look() -> None:
        seen = 0
        while not done.is_set():
            for each in stopwatch.summary().measurements:
                count = each.host.count if each.host else 0
                assert count >= seen
                seen = count

    looking = threading.Thread(target=look)
    looking.start()
    run_in_thread(work, work, work)
    done.set()
    looking.join()
    assert found("a").host.count == 15_000


def test_samples_do_not_pile_up_however_many_there_are() -> None:
    stopwatch = Stopwatch(0, None, False)
    for _ in range(100_000):
        stopwatch.start_meas("a")
        stopwatch.end_meas("a")
        stopwatch.start_meas("b")
        stopwatch.end_meas("b")
        assert len(stopwatch._local.entries["a"].waiting) < 1024
    assert found("a").host.count == 100_000


def test_device_synchronisation_brackets_each_interval(enable: Enable, clock, device) -> None:
    stopwatch = enable(do_cuda_sync=True, event_clock=device)
    stopwatch.start_meas("a")
    assert device.num_synchronized == 1
    stopwatch.end_meas("a")
    assert device.num_synchronized == 2
    stopwatch.start_one_time_measurement("b")
    stopwatch.end_one_time_measurement("b")
    assert device.num_synchronized == 4


def test_nothing_waits_for_the_device_in_the_warmup(enable: Enable, device) -> None:
    stopwatch = enable(num_warmup_iters=1, do_cuda_sync=True, event_clock=device)
    stopwatch.start_meas("a")
    stopwatch.end_meas("a")
    assert device.num_synchronized == 0


@pytest.mark.parametrize("options", [{"do_cuda_sync": True}, {"device_events": True}])
def test_without_an_accelerator_it_warns_and_goes_on(
    enable: Enable, clock, monkeypatch: pytest.MonkeyPatch, options
) -> None:
    monkeypatch.setattr("assay.timing.device._accelerator", lambda: None)
    with pytest.warns(AssayWarning, match="There is no accelerator to") as caught:
        stopwatch = enable(**options)
    assert len(caught) == 1
    measure(stopwatch, clock, "a", 1)
    assert found("a").host.total_ms == 1
    assert found("a").device is None


def test_device_events_give_the_devices_time_without_waiting(enable: Enable, clock, device) -> None:
    stopwatch = enable(device_events=True, event_clock=device)
    for milliseconds in (10, 20):
        stopwatch.start_meas("forward")
        device.launch_ms(milliseconds)
        clock.pass_ms(1)
        stopwatch.end_meas("forward")
    stopwatch.finish_iter()
    assert device.num_synchronized == 0
    assert device.done_ms == 0
    assert found("forward").host.total_ms == 2
    assert found("forward").device.total_ms == 30


def test_the_first_reading_of_the_cpu_is_of_the_interval(
    enable: Enable, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = iter([CpuReading(5, 5), CpuReading(100, 1000), CpuReading(103, 1004)])
    monkeypatch.setattr("assay.timing.sampler.read_cpu", lambda: next(readings))
    stopwatch = enable()
    stopwatch.set_cpu_usage_meas_name("a")
    stopwatch.set_cpu_usage_meas_name("a")
    stopwatch.start_meas("a")
    stopwatch.start_meas("b")
    stopwatch.end_meas("b")
    stopwatch.end_meas("a")
    assert found("a").cpu_percent == 75
    assert found("b").cpu_percent is None


def test_the_cpu_usage_of_a_shorter_time_than_a_tick_is_unknown(
    enable: Enable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.timing.sampler.read_cpu", lambda: CpuReading(100, 1000))
    stopwatch = enable()
    stopwatch.set_cpu_usage_meas_name("a")
    stopwatch.start_meas("a")
    stopwatch.end_meas("a")
    assert found("a").cpu_percent is None


def test_the_cpu_usage_of_a_busy_loop_is_above_zero() -> None:
    import time

    stopwatch = Stopwatch(0, None, False)
    stopwatch.set_cpu_usage_meas_name("busy")
    stopwatch.start_meas("busy")
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    stopwatch.end_meas("busy")
    percent = found("busy").cpu_percent
    assert percent is not None
    assert 0 < percent <= 100


def test_the_name_of_the_cpu_usage_cannot_change_or_come_late(enable: Enable) -> None:
    stopwatch = enable()
    stopwatch.start_meas("late")
    with pytest.raises(InstrumentError, match="'late' has been measured without the CPU usage"):
        stopwatch.set_cpu_usage_meas_name("late")
    stopwatch.set_cpu_usage_meas_name("a")
    with pytest.raises(InstrumentError, match="taken for 'a', which cannot be changed to 'b'"):
        stopwatch.set_cpu_usage_meas_name("b")


def test_the_trace_keeps_the_latest_intervals(enable: Enable, clock) -> None:
    stopwatch = enable(trace_events=3)
    for name in "abcd":
        measure(stopwatch, clock, name, 1)
    stopwatch.finish_iter()
    trace = stopwatch.trace()
    assert [each.name for each in trace.events] == ["c", "d", "iteration"]
    assert trace.num_dropped == 2
    assert trace.process_id == os.getpid()
    assert trace.events[0].end_ns - trace.events[0].start_ns == 1_000_000
    assert trace.thread_names[threading.get_native_id()] == threading.current_thread().name


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
def test_a_forked_child_measures_on_its_own(enable: Enable, clock) -> None:
    stopwatch = enable()
    measure(stopwatch, clock, "a", 1)
    release = threading.Event()
    started = threading.Event()

    def hold() -> None:
        stopwatch.start_meas("elsewhere")
        started.set()
        release.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    started.wait()

    def work() -> tuple[int, tuple[str, ...]]:
        measure(stopwatch, clock, "a", 1)
        return found("a").host.count, stopwatch.summary().running

    assert in_forked_child(work) == "(2, ())"
    release.set()
    thread.join()
    assert found("a").host.count == 1


@pytest.mark.parametrize("warmup", [0, 1])
def test_compiled_code_is_not_measured_within_and_breaks_no_graph(warmup: int) -> None:
    import torch

    stopwatch = Stopwatch(warmup, None, False)

    @stopwatch.measure("decorated")
    def halve(x: torch.Tensor) -> torch.Tensor:
        return x / 2

    @torch.compile(fullgraph=True, backend="eager")
    def step(x: torch.Tensor) -> torch.Tensor:
        Stopwatch().start_meas("within")
        with Stopwatch().measure("block"):
            x = halve(x) * 4
        Stopwatch().end_meas("within")
        Stopwatch().finish_iter()
        return x

    for _ in range(3):
        stopwatch.start_meas("around")
        assert step(torch.ones(2)).tolist() == [2, 2]
        stopwatch.end_meas("around")
    torch.compiler.reset()
    assert [each.name for each in stopwatch.summary().measurements] == ["around"]
    assert stopwatch.get_num_nonwarmup_iters_measured() == 0


def test_timing_does_without_torch_until_it_is_needed() -> None:
    code = (
        "import sys, assay.timing as timing\n"
        "stopwatch = timing.Stopwatch(0, None, False)\n"
        "stopwatch.start_meas('a'); stopwatch.end_meas('a'); stopwatch.finish_iter()\n"
        "stopwatch.print_eval_times()\n"
        "assert not {'torch', 'psutil'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, capture_output=True)


def test_the_first_iteration_may_start_with_the_first_use(enable: Enable, clock) -> None:
    stopwatch = enable(from_first_use=True)
    clock.pass_ms(500)
    for _ in range(2):
        with stopwatch.measure("load"):
            clock.pass_ms(3)
        clock.pass_ms(1)
        stopwatch.finish_iter()

    summary = stopwatch.summary()
    assert summary.iteration is not None
    assert (summary.iteration.total_ms, summary.iteration.max_ms) == (8, 4)
    assert summary.unaccounted_ms == 2
