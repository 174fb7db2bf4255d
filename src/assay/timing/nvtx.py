"""NVTX ranges in Python code, which the profilers of NVIDIA show on their time line."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from assay._optional import require
from assay._switchable import Instrument, switchable
from assay.errors import InstrumentError
from assay.timing.device import EventClock, accelerator_clock
from assay.timing.range_annotation import RangeAnnotation
from assay.timing.range_names import encoded_name

__all__ = ["MAX_PREPARED_NAMES", "NVTXRangeWrapper", "annotate"]

# A program that puts numbers into names would otherwise gather them without end.
MAX_PREPARED_NAMES = 4096


class _OpenRanges(threading.local):
    """What is open on one thread, innermost last; gone with the thread."""

    def __init__(self) -> None:
        self.names: list[str] = []  # of all ranges, if the order is kept track of
        self.depths: list[int] = []  # how many names lay below each annotation


class NVTXRangeWrapper(Instrument):
    """Ranges that cost next to nothing until they are enabled, from anywhere in the program::

        NVTXRangeWrapper().range_push("forward")
        ...
        NVTXRangeWrapper().range_pop("forward")

    ``NVTXRangeWrapper(sync_on_push, sync_on_pop, keep_track_of_range_order)`` enables it, too.
    Ranges lie in NVTX's default domain, on the stack of the thread that pushes them. Code that
    ``torch.compile`` has compiled opens none, and its graph does not break; put them around it.
    """

    __slots__ = (
        "_attributes",
        "_is_careful",
        "_is_idle",
        "_pop",
        "_push",
        "_sync_on_push",
        "_tracks",
    )

    def enable(
        self,
        sync_on_push: bool,
        sync_on_pop: bool,
        keep_track_of_range_order: bool,
        *,
        event_clock: EventClock | None = None,
    ) -> None:
        """Start to open ranges, once; pushes and pops made before are ignored.

        Args:
            sync_on_push: wait for the accelerator before each push. Without an accelerator this and
                the next warn and go on; while a graph is captured they do not wait.
            sync_on_pop: wait for the accelerator before each pop.
            keep_track_of_range_order: keep the names of the open ranges, and compare the name that
                :meth:`range_pop` is given with that of the range that it closes. Costs time: for
                debugging.
            event_clock: replaces the accelerator of this machine.

        Raises:
            InstrumentError: it is enabled already.
            MissingExtraError: the ``nvtx`` package is not installed.
        """
        with self._enabling():
            nvtx = require("nvtx", extra="nvtx", purpose="open NVTX ranges")
            if (sync_on_push or sync_on_pop) and event_clock is None:
                event_clock = accelerator_clock("wait for at the borders of NVTX ranges")
            self._sync_on_push = event_clock is not None and sync_on_push
            self._sync_on_pop = event_clock is not None and sync_on_pop
            self._clock = event_clock
            self._tracks = keep_track_of_range_order
            self._open = _OpenRanges()
            self._attributes: dict[str, Any] = {}
            self._domain = nvtx.get_domain()
            self._push: Callable[[Any], None] = self._domain.push_range
            self._pop: Callable[[], None] = self._domain.pop_range
            self._is_careful = self._sync_on_push or self._sync_on_pop or self._tracks
            # The package hands out a domain without a handle as long as no tool listens.
            self._is_idle = not self._is_careful and not hasattr(self._domain, "handle")

    @switchable(skip_in_compiled=True)
    def range_push(self, range_name: str) -> None:
        """Open a range on this thread, inside of those that are open.

        Raises:
            InstrumentError: the name is no text, or holds a NUL character.
        """
        if self._is_idle:
            return
        if self._sync_on_push and self._clock is not None:
            self._clock.synchronize()
        try:
            attributes = self._attributes[range_name]
        except KeyError:
            attributes = self._prepare(range_name)
        self._push(attributes)
        if self._tracks:
            self._open.names.append(range_name)

    @switchable(skip_in_compiled=True)
    def range_pop(self, range_name: str | None = None) -> None:
        """Close the range of this thread that was opened last.

        A name is compared with that of the range, if the order is kept track of; else ignored. The
        range is closed before that, so that the profile stays in balance.

        Raises:
            InstrumentError: the order is kept track of, and no range is open, or another one.
        """
        if self._is_idle:
            return
        if not self._is_careful:
            self._pop()
            return
        popped = self._close_innermost()
        if self._tracks and (popped is None or range_name not in (None, popped)):
            raise _wrong_order(range_name, popped, self._open.names)

    def annotate(
        self, range_name: str | None = None, *, stopwatch: bool = False
    ) -> RangeAnnotation:
        """A range around a block or a function, closed in any case::

            with NVTXRangeWrapper().annotate("forward"): ...

            @NVTXRangeWrapper().annotate()  # named as the function is
            def forward(...): ...

        It goes live when ranges are enabled, also for what was decorated before. With ``stopwatch``
        the same name is measured by the :class:`~assay.timing.stopwatch.Stopwatch` as well; either
        may be on without the other. Decorates plain and asynchronous functions and generators.

        If the order is kept track of, ranges that were pushed within and not popped are closed with
        it, and are an error unless the block raised one itself.
        """
        return RangeAnnotation(range_name, self, _measure if stopwatch else None)

    @switchable(skip_in_compiled=True)
    def open_range(self, name: str) -> None:
        """Push a range that :meth:`close_range` will pop, on this thread and in reverse order."""
        if self._is_idle:
            return
        depth = len(self._open.names)
        self.range_push(name)
        self._open.depths.append(depth)

    @switchable(skip_in_compiled=True)
    def close_range(self, name: str, *, failing: bool) -> None:
        """Pop what :meth:`open_range` pushed last, and what was pushed within it and left open.

        Args:
            name: given to :meth:`open_range`.
            failing: an exception is on its way, which goes before what is found here.

        Raises:
            InstrumentError: the order is kept track of, and ranges were left open, or it was popped
                before.
        """
        if self._is_idle or not self._open.depths:  # opened before ranges were enabled
            return
        depth = self._open.depths.pop()
        if not self._tracks:
            self.range_pop(name)
            return
        within = self._open.names[depth:]
        for _ in within:
            self._close_innermost()
        if within != [name] and not failing:
            raise _not_balanced(name, within)

    def _prepare(self, range_name: str) -> Any:
        """The attributes of a name that comes for the first time, or again after very many."""
        message = encoded_name(range_name).decode()
        if len(self._attributes) >= MAX_PREPARED_NAMES:
            self._attributes.clear()
            # The package keeps every string that it registered for a domain; it asks anew at need.
            forget = getattr(self._domain.get_registered_string, "cache_clear", None)
            if forget is not None:
                forget()
        attributes = self._attributes[range_name] = self._domain.get_event_attributes(
            message=message
        )
        return attributes

    def _close_innermost(self) -> str | None:
        """Its name, where names are kept and any range is open. Nothing stops the pop."""
        names = self._open.names
        popped = names.pop() if names else None
        try:
            if self._sync_on_pop and self._clock is not None:
                self._clock.synchronize()
        finally:
            self._pop()
        return popped


def _measure(name: str) -> Any:
    from assay.timing.stopwatch import Stopwatch

    return Stopwatch().measure(name)


def _not_balanced(name: str, within: list[str]) -> InstrumentError:
    is_there = within[:1] == [name]
    problem = f"left {within[1:]} open, which are closed now" if is_there else "popped it within"
    return InstrumentError(
        f"The block or function in the range {name!r} {problem}. Give each push its pop."
    )


def _wrong_order(
    expected: str | None, popped: str | None, still_open: list[str]
) -> InstrumentError:
    call = f"range_pop({'' if expected is None else repr(expected)})"
    if popped is None:
        return InstrumentError(
            f"{call}, but no range is open on this thread. Push it before, on the same thread."
        )
    return InstrumentError(
        f"{call} closed the range {popped!r}: expected {expected!r}. "
        f"Still open on this thread, outermost first: {still_open}. Pop ranges in reverse order."
    )


annotate = NVTXRangeWrapper().annotate
