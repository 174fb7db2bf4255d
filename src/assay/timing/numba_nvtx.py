"""NVTX ranges that jitted Numba code opens and closes as well as Python does.

    from assay.timing import numba_nvtx

    STEP = numba_nvtx.register_string("step")

    @numba.njit(cache=True, parallel=True)
    def work(values):
        numba_nvtx.range_push(STEP)
        ...
        numba_nvtx.range_pop()

Ranges lie in the default domain, on the thread that opens them. Python and jitted code of one
thread share its ranges: one may close what the other opened. A pop takes back a push made here and
nothing else: after a push that was skipped, or without one, it does nothing.

Without Numba the functions work from Python alone. Without the NVTX library (extra ``numba``)
Python calls do nothing, and a jitted call is a typing error. Before a profiler is attached every
name has the handle 0. A function that Numba caches then keeps that 0 if the handle is a global of
its module, and shows no range later on: pass the handle as an argument, or call
``register_string("step")`` within the function, where its handle is found anew in each process.
"""

from __future__ import annotations

import operator
import os
import threading
from typing import Protocol, SupportsIndex

from assay._optional import is_available
from assay.timing.nvtx_library import NvtxLibrary, load_nvtx_library
from assay.timing.range_handles import RangeHandles

__all__ = ["range_pop", "range_push", "register_string"]


class _Ranges(Protocol):
    def range_push(self, handle: int, /) -> None: ...

    def range_pop(self) -> None: ...


class _PythonRanges(threading.local):
    """What native code does, for a process without Numba."""

    def __init__(self, handles: RangeHandles, library: NvtxLibrary | None) -> None:
        self._handles = handles
        self._library = library
        self._reached_tool: list[bool] = []  # of this thread, innermost last

    def range_push(self, handle: int) -> None:
        string = self._handles.string(handle) if self._library else 0
        self._reached_tool.append(bool(string))
        if self._library and string:
            self._library.push(string)

    def range_pop(self) -> None:
        if self._library and self._reached_tool and self._reached_tool.pop():
            self._library.pop()


def register_string(name: str) -> int:
    """The handle of a name, for :func:`range_push`; the same number in every process.

    0 while no profiler is attached. In jitted code ``name`` is a text written at the call.

    Raises:
        InstrumentError: the name is no text, or holds a NUL character.
    """
    return _handles.register(name)


def range_push(handle: SupportsIndex) -> None:
    """Open a range on this thread. 0, or a handle that means nothing in this process, is skipped.

    In jitted code an integer of any width.
    """
    _ranges.range_push(operator.index(handle))


def range_pop() -> None:
    """Close the range of the last :func:`range_push` on this thread, unless that was skipped."""
    _ranges.range_pop()


def _start(library: NvtxLibrary | None, handles: RangeHandles) -> _Ranges:
    """Native code where Numba can call it, Python elsewhere."""
    if os.name != "posix" or not is_available("numba"):
        return _PythonRanges(handles, library)
    from assay.timing.native_ranges import NativeRanges
    from assay.timing.numba_overloads import teach_numba

    # Without the library, too: code that was cached when it was there asks for these symbols.
    native = NativeRanges(handles, library)
    teach_numba(
        handles,
        has_library=library is not None,
        register_string=register_string,
        range_push=range_push,
        range_pop=range_pop,
    )
    return native


_library = load_nvtx_library()
_handles = RangeHandles(_library)
_ranges = _start(_library, _handles)
