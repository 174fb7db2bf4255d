"""The clock of an accelerator: events on its streams, and the intervals between them.

torch is imported when a clock is asked for, never before.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from assay.errors import AssayWarning

__all__ = [
    "AcceleratorClock",
    "EventClock",
    "PendingIntervals",
    "accelerator_clock",
]


class EventClock(Protocol):
    """Marks points in the work of a device and tells the time between two of them."""

    def record(self) -> Any | None:
        """An event on the current stream of the current device; None where that cannot be timed."""

    def is_done(self, event: Any) -> bool:
        """Whether the device has come to the event. Does not wait."""

    def elapsed_ms(self, start: Any, end: Any) -> float | None:
        """Device time between two events, waited for; None if they lie on different devices."""

    def synchronize(self) -> None:
        """Wait until every device that this process uses has done its work."""


@dataclass(frozen=True)
class _DeviceEvent:
    device: int
    event: Any


class AcceleratorClock:
    """Events of ``torch.cuda``, ``torch.xpu`` or whichever accelerator this torch has.

    While the current stream is captured into a graph nothing can be timed or waited for: no event
    is recorded then, and synchronising does nothing.
    """

    def __init__(self, kind: str) -> None:
        import torch

        self._module: Any = getattr(torch, kind)
        self._event_type = getattr(self._module, "Event", None) or torch.Event
        self._is_capturing: Callable[[], bool] = getattr(
            self._module, "is_current_stream_capturing", bool
        )
        self._current: Callable[[], int] = getattr(self._module, "current_device", int)

    def record(self) -> _DeviceEvent | None:
        """An event on the current stream of the current device; None while that is captured."""
        if self._is_capturing():
            return None
        event = self._event_type(enable_timing=True)
        event.record()
        return _DeviceEvent(self._current(), event)

    def is_done(self, event: _DeviceEvent) -> bool:
        """Whether the device has come to the event. Does not wait."""
        return bool(event.event.query())

    def elapsed_ms(self, start: _DeviceEvent, end: _DeviceEvent) -> float | None:
        """Device time between two events, waited for; None if they lie on different devices."""
        if start.device != end.device:
            return None
        end.event.synchronize()
        return float(start.event.elapsed_time(end.event))

    def synchronize(self) -> None:
        """Wait for the current device, and for the others on which this process holds memory."""
        if self._is_capturing():
            return
        reserved = getattr(self._module, "memory_reserved", None)
        count = self._module.device_count()
        if count == 1 or reserved is None:
            self._module.synchronize()
            return
        current = self._current()
        for device in range(count):
            # Asking a device for its memory does not open it; synchronising with it would.
            if device == current or reserved(device) > 0:
                self._module.synchronize(device)


def accelerator_clock(wanted_for: str | None = None) -> AcceleratorClock | None:
    """The clock of this machine's accelerator; None if it has none.

    Then there is a warning, too, if ``wanted_for`` is given; it completes the sentence "There is no
    accelerator to ...".
    """
    kind = _accelerator()
    if kind is not None:
        return AcceleratorClock(kind)
    if wanted_for is not None:
        warnings.warn(
            f"There is no accelerator to {wanted_for}: times are those of the host alone.",
            AssayWarning,
            stacklevel=3,
        )
    return None


def _accelerator() -> str | None:
    import torch

    if hasattr(torch, "accelerator"):  # since torch 2.6
        device = torch.accelerator.current_accelerator()
        return device.type if device is not None and torch.accelerator.is_available() else None
    for kind in ("cuda", "xpu"):
        if hasattr(torch, kind) and getattr(torch, kind).is_available():
            return kind
    return None


class PendingIntervals:
    """Intervals whose end the device may not have reached; handed over in order once it has."""

    def __init__(self, clock: EventClock, limit: int) -> None:
        self._clock = clock
        self._limit = limit
        self._queue: deque[tuple[Callable[[float], None], Any, Any]] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, take_ms: Callable[[float], None], start: Any | None, end: Any | None) -> None:
        """Queue the interval between two events for ``take_ms``; nothing if one is missing.

        Beyond the limit the oldest is waited for: none is lost, and no more are kept.
        """
        if start is None or end is None:
            return
        self._queue.append((take_ms, start, end))
        while len(self._queue) > self._limit:
            self._hand_over()

    def drain(self, *, wait: bool) -> None:
        """Hand over what is done; with ``wait`` all of it."""
        while self._queue and (wait or self._clock.is_done(self._queue[0][2])):
            self._hand_over()

    def _hand_over(self) -> None:
        take_ms, start, end = self._queue.popleft()
        elapsed_ms = self._clock.elapsed_ms(start, end)
        if elapsed_ms is not None:
            take_ms(elapsed_ms)
