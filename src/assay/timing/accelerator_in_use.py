"""The clock of whichever accelerator a program turns out to use."""

from __future__ import annotations

import sys
from typing import Any

from assay.timing.device import AcceleratorClock, EventClock

__all__ = ["AcceleratorInUse"]


class AcceleratorInUse:
    """An :class:`~assay.timing.device.EventClock` for who starts before the program does.

    It neither imports torch nor opens a device: a program may first choose which devices it sees,
    or fork, both of which an opened device prevents. Until the program uses one there is nothing to
    wait for, and no event.
    """

    def __init__(self) -> None:
        self._clock: EventClock | None = None

    @property
    def is_in_use(self) -> bool:
        """Whether the program has used an accelerator by now."""
        return self._find() is not None

    def record(self) -> Any | None:
        """An event on the current stream; None while no accelerator is in use."""
        clock = self._find()
        return None if clock is None else clock.record()

    def is_done(self, event: Any) -> bool:
        """Whether the device has come to the event. Does not wait."""
        clock = self._find()
        return clock is None or clock.is_done(event)

    def elapsed_ms(self, start: Any, end: Any) -> float | None:
        """Device time between two events, waited for; None if they lie on different devices."""
        clock = self._find()
        return None if clock is None else clock.elapsed_ms(start, end)

    def synchronize(self) -> None:
        """Wait for the devices in use."""
        clock = self._find()
        if clock is not None:
            clock.synchronize()

    def _find(self) -> EventClock | None:
        if self._clock is None:
            kind = _kind_in_use(sys.modules.get("torch"))
            if kind is not None:
                self._clock = AcceleratorClock(kind)
        return self._clock


def _kind_in_use(torch: Any) -> str | None:
    """The accelerator that the program has opened. Asks nothing that would open one."""
    for kind in ("cuda", "xpu"):
        is_initialized = getattr(getattr(torch, kind, None), "is_initialized", None)
        if is_initialized is not None and is_initialized():
            return kind
    # Those without a state of their own are there from the start: as in mps.
    current = getattr(getattr(torch, "accelerator", None), "current_accelerator", None)
    device = None if current is None else current()
    if device is None or device.type in ("cuda", "xpu"):
        return None
    module = getattr(torch, device.type, None)
    return device.type if module is not None and module.is_available() else None
