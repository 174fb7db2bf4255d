"""Device timing: first on a device that is made up, then, marked ``gpu``, on a real one."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from assay.errors import AssayWarning
from assay.timing import PerfStats, PerfTimer, Stopwatch
from assay.timing.device import AcceleratorClock, PendingIntervals, accelerator_clock


def test_intervals_are_handed_over_in_order_once_the_device_has_come_to_them(device) -> None:
    taken: list[tuple[str, float]] = []
    pending = PendingIntervals(device, limit=10)
    for name, milliseconds in (("a", 1), ("b", 2), ("c", 4)):
        start = device.record()
        device.launch_ms(milliseconds)
        pending.add(lambda ms, name=name: taken.append((name, ms)), start, device.record())
    pending.drain(wait=False)
    assert taken == []
    device.done_ms = 3.5
    pending.drain(wait=False)
    assert taken == [("a", 1), ("b", 2)]
    pending.drain(wait=True)
    assert taken == [("a", 1), ("b", 2), ("c", 4)]
    assert len(pending) == 0


def test_beyond_the_limit_the_oldest_is_waited_for_and_none_is_lost(device) -> None:
    taken: list[float] = []
    pending = PendingIntervals(device, limit=2)
    for milliseconds in range(5):
        start = device.record()
        device.launch_ms(milliseconds)
        pending.add(taken.append, start, device.record())
        assert len(pending) <= 2
    assert taken == [0, 1, 2]
    pending.drain(wait=True)
    assert taken == [0, 1, 2, 3, 4]


def test_an_interval_between_two_devices_has_no_length(device) -> None:
    taken: list[float] = []
    pending = PendingIntervals(device, limit=2)
    start = device.record()
    device.current = 1
    pending.add(taken.append, start, device.record())
    pending.drain(wait=True)
    assert taken == []


def test_an_interval_that_was_captured_into_a_graph_has_no_length(device) -> None:
    pending = PendingIntervals(device, limit=2)
    device.capturing = True
    pending.add(lambda _: None, device.record(), device.record())
    assert len(pending) == 0


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """``torch.cuda`` of a machine with three devices, of which 0 is current and 1 is in use."""
    state = SimpleNamespace(waited_for=[], capturing=False, count=3)

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            pass

    module = SimpleNamespace(
        Event=Event,
        synchronize=lambda device=0: state.waited_for.append(device),
        device_count=lambda: state.count,
        current_device=lambda: 0,
        memory_reserved=lambda device: 1024 * (device == 1),
        is_current_stream_capturing=lambda: state.capturing,
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=module))
    return state


def test_every_device_in_use_is_waited_for_and_no_other_is_opened(made_up) -> None:
    AcceleratorClock("cuda").synchronize()
    assert made_up.waited_for == [0, 1]


def test_a_single_device_is_waited_for_without_asking_for_its_memory(made_up) -> None:
    made_up.count = 1
    AcceleratorClock("cuda").synchronize()
    assert made_up.waited_for == [0]


def test_while_a_graph_is_captured_nothing_is_recorded_or_waited_for(made_up) -> None:
    clock = AcceleratorClock("cuda")
    assert clock.record() is not None
    made_up.capturing = True
    assert clock.record() is None
    clock.synchronize()
    assert made_up.waited_for == []


def test_without_an_accelerator_there_is_no_clock_and_a_warning_only_if_one_was_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("assay.timing.device._accelerator", lambda: None)
    assert accelerator_clock() is None
    with pytest.warns(AssayWarning, match="There is no accelerator to wait for: times are those"):
        assert accelerator_clock("wait for") is None


@pytest.fixture
def torch_on_gpu():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no accelerator")
    return torch


def sleep(torch, milliseconds: float) -> None:
    """Keep the current stream busy: a kernel that counts the device's clock."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    kilohertz = getattr(properties, "clock_rate", 1_500_000)
    torch.cuda._sleep(round(milliseconds * kilohertz))


def device_ms(name: str) -> float | None:
    [found] = [each for each in Stopwatch().summary().measurements if each.name == name]
    return found.device.total_ms if found.device is not None else None


@pytest.mark.gpu
def test_the_devices_time_of_a_kernel_is_its_length_and_the_hosts_is_not(torch_on_gpu) -> None:
    torch = torch_on_gpu
    stopwatch = Stopwatch(0, None, False, device_events=True)
    sleep(torch, 1)
    torch.cuda.synchronize()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    with stopwatch.measure("sleep"):
        sleep(torch, 50)
    end.record()
    end.synchronize()
    assert device_ms("sleep") == pytest.approx(start.elapsed_time(end), rel=0.1)
    [found] = stopwatch.summary().measurements
    assert found.host.total_ms < 0.5 * found.device.total_ms


@pytest.mark.gpu
def test_with_synchronisation_the_hosts_time_covers_the_kernel(torch_on_gpu) -> None:
    torch = torch_on_gpu
    stopwatch = Stopwatch(0, None, True, device_events=True)
    with stopwatch.measure("sleep"):
        sleep(torch, 50)
    [found] = stopwatch.summary().measurements
    assert found.host.total_ms >= 0.95 * found.device.total_ms > 10


@pytest.mark.gpu
def test_events_lie_on_the_stream_that_is_current(torch_on_gpu) -> None:
    torch = torch_on_gpu
    stopwatch = Stopwatch(0, None, False, device_events=True)
    sleep(torch, 1)
    torch.cuda.synchronize()
    busy, idle = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(busy), stopwatch.measure("busy"):
        sleep(torch, 50)
    with torch.cuda.stream(idle), stopwatch.measure("idle"):
        pass
    assert device_ms("busy") > 10
    assert device_ms("idle") < 0.2 * device_ms("busy")


@pytest.mark.gpu
def test_work_on_a_device_that_is_not_current_is_waited_for(torch_on_gpu) -> None:
    torch = torch_on_gpu
    if torch.cuda.device_count() < 2:
        pytest.skip("one device only")
    stopwatch = Stopwatch(0, None, True)
    torch.empty(1, device="cuda:1")
    stopwatch.start_meas("sleep")
    with torch.cuda.device(1):
        sleep(torch, 50)
        end = torch.cuda.Event()
        end.record()
    stopwatch.end_meas("sleep")
    assert end.query()


@pytest.mark.gpu
def test_an_interval_that_changes_the_device_has_the_hosts_time_alone(torch_on_gpu) -> None:
    torch = torch_on_gpu
    if torch.cuda.device_count() < 2:
        pytest.skip("one device only")
    stopwatch = Stopwatch(0, None, False, device_events=True)
    stopwatch.start_meas("a")
    with torch.cuda.device(1):
        stopwatch.end_meas("a")
    assert device_ms("a") is None


@pytest.mark.gpu
@pytest.mark.parametrize("do_cuda_sync", [False, True])
def test_a_graph_can_be_captured_around_measurements(torch_on_gpu, do_cuda_sync: bool) -> None:
    torch = torch_on_gpu
    stopwatch = Stopwatch(0, None, do_cuda_sync, device_events=True)
    stats = PerfStats()
    x = torch.ones(4, device="cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), stopwatch.measure("captured"), PerfTimer("captured", stats):
        y = x * 2
    with stopwatch.measure("replayed"):
        graph.replay()
    torch.cuda.synchronize()
    assert y.tolist() == [2, 2, 2, 2]
    assert device_ms("captured") is None
    assert device_ms("replayed") > 0
    assert stats.device_metric("captured") is None


@pytest.mark.gpu
def test_a_timers_device_column_is_the_length_of_its_kernel(torch_on_gpu) -> None:
    torch = torch_on_gpu
    stats = PerfStats()
    sleep(torch, 1)
    torch.cuda.synchronize()
    for _ in range(3):
        with PerfTimer("sleep", stats):
            sleep(torch, 20)
    assert stats.device_metric("sleep").num_updates == 3
    assert stats.host_metric("sleep").get_avg() < stats.device_metric("sleep").get_avg()
    assert "device mean" in stats.report_str()
