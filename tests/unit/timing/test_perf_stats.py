from __future__ import annotations

import threading

import pytest

from assay.timing import PerfMetric, PerfStats, PerfTimer


def test_a_metric_smooths_from_its_first_value_on() -> None:
    metric = PerfMetric()
    assert (metric.last_value, metric.smoothed_value, metric.get_avg()) == (None, None, 0)
    for value in (10, 20, 0):
        metric.update(value)
    assert metric.last_value == 0
    assert metric.smoothed_value == pytest.approx(0.9 * (0.9 * 10 + 0.1 * 20))
    assert (metric.sum_values, metric.num_updates, metric.get_avg()) == (30, 3, 10)


def test_timers_of_one_name_add_up(clock) -> None:
    stats = PerfStats(use_cuda_events=False)
    for milliseconds in (2, 4):
        with PerfTimer("forward", stats, clock_ns=clock):
            clock.pass_ms(milliseconds)
    [found] = stats.summary().measurements
    assert (found.name, found.host.count, found.host.total_ms) == ("forward", 2, 6)
    assert stats.host_metric("forward").last_value == 4
    assert found.device is None


def test_recording_adds_the_last_interval_and_not_the_sum(clock) -> None:
    stats = PerfStats(use_cuda_events=False)
    timer = PerfTimer("a", stats, clock_ns=clock)
    for milliseconds in (2, 3):
        timer.start()
        clock.pass_ms(milliseconds)
        timer.stop()
    timer.record()
    assert stats.host_metric("a").sum_values == 3
    assert timer.elapsed == 0.005


def test_an_interval_is_recorded_once(clock, device) -> None:
    stats = PerfStats(event_clock=device)
    timer = PerfTimer("a", stats, clock_ns=clock)
    for milliseconds in (1, 2):
        with timer:
            device.launch_ms(milliseconds)
        timer.record()
    stats.update_with_timer(timer)
    assert stats.host_metric("a").num_updates == 2
    assert stats.device_metric("a").sum_values == 3


def test_starting_twice_and_stopping_twice_do_nothing_more(clock) -> None:
    stats = PerfStats(use_cuda_events=False)
    timer = PerfTimer("a", stats, clock_ns=clock)
    timer.stop()
    timer.record()
    timer.start()
    clock.pass_ms(1)
    timer.start()
    assert timer.is_running
    clock.pass_ms(1)
    timer.stop()
    timer.stop()
    assert not timer.is_running
    timer.record()
    assert stats.host_metric("a").sum_values == 2


def test_an_exception_stops_the_timer_and_records_nothing(clock) -> None:
    stats = PerfStats(use_cuda_events=False)
    timer = PerfTimer("a", stats, clock_ns=clock)

    def fail() -> None:
        with timer:
            clock.pass_ms(2)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not timer.is_running
    assert timer.elapsed == 0.002
    assert stats.host_metric("a") is None


def test_a_timer_without_statistics_has_its_elapsed_time(clock) -> None:
    timer = PerfTimer("a", None, clock_ns=clock)
    with timer as itself:
        clock.pass_ms(1500)
    assert itself is timer
    assert timer.elapsed == 1.5
    timer.record()


def test_host_and_device_have_their_own_columns(clock, device) -> None:
    stats = PerfStats(event_clock=device)
    for _ in range(2):
        with PerfTimer("forward", stats, clock_ns=clock):
            device.launch_ms(10)
            clock.pass_ms(1)
    [found] = stats.summary().measurements
    assert (found.host.total_ms, found.device.total_ms) == (2, 20)
    assert "device mean" in stats.report_str()
    assert device.num_synchronized == 0


def test_without_events_there_is_no_device_column(clock, device) -> None:
    stats = PerfStats(False, event_clock=device)
    with PerfTimer("forward", stats, clock_ns=clock):
        device.launch_ms(10)
    assert "device" not in stats.report_str()
    assert device.handed_out == []


def test_pending_intervals_beyond_the_bound_are_drained_and_not_lost(clock, device) -> None:
    stats = PerfStats(event_clock=device)
    for _ in range(PerfStats.MAX_PENDING_TIMERS + 500):
        with PerfTimer("a", stats, clock_ns=clock):
            device.launch_ms(1)
    assert device.done_ms == 500
    assert stats.device_metric("a").num_updates == 1500
    assert stats.device_metric("a").sum_values == 1500


def test_a_report_without_timers_is_a_sentence() -> None:
    assert PerfStats(use_cuda_events=False).report_str() == "No timer has recorded an interval."


def test_the_default_goes_without_an_accelerator_and_without_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("assay.timing.device._accelerator", lambda: None)
    stats = PerfStats()
    with PerfTimer("a", stats):
        pass
    assert stats.host_metric("a").num_updates == 1
    assert stats.device_metric("a") is None


def test_timers_of_several_threads_may_record_at_once() -> None:
    stats = PerfStats(use_cuda_events=False)

    def work() -> None:
        for _ in range(500):
            with PerfTimer("a", stats):
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stats.host_metric("a").num_updates == 2000
    assert stats.summary().measurements[0].host.count == 2000
