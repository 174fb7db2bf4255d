"""The load of all cores between two readings."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CpuReading", "read_cpu"]


@dataclass(frozen=True)
class CpuReading:
    """Time that all cores together have spent since the machine started, in seconds."""

    busy_s: float
    total_s: float

    def since(self, earlier: CpuReading) -> tuple[float, float]:
        """(busy, total) seconds between two readings; (0, 0) if the system counted no tick."""
        total_s = self.total_s - earlier.total_s
        if total_s <= 0:
            return 0.0, 0.0
        return min(max(self.busy_s - earlier.busy_s, 0.0), total_s), total_s


def read_cpu() -> CpuReading:
    """The counters of the system, as they stand now.

    From these the load of any window follows, whoever else in the process asks psutil for it;
    ``psutil.cpu_percent()`` has one window for all callers, and none at its first call.
    """
    import psutil

    times = psutil.cpu_times()
    # On Linux a guest's time stands in user and nice, too.
    total_s = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return CpuReading(busy_s=total_s - times.idle - getattr(times, "iowait", 0.0), total_s=total_s)
