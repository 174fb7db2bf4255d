"""Names of ranges as small integers that mean the same name in every process.

A handle goes by the text of its name, not by the order in which names come. Compiled code may
therefore keep one in a cache on disk: where its name is registered in the process that loads the
code, it means that name; where it is not, nothing. At run time a handle is an index into a table of
the tool's own handles, which native code reads without a lock.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import threading
import warnings

from assay.errors import AssayWarning
from assay.timing.nvtx_library import NvtxLibrary
from assay.timing.range_names import encoded_name

__all__ = ["CAPACITY", "MAX_NAMES", "RangeHandles"]

# One word each, 32 MiB of address space. A page takes memory only once a name falls into it. Among
# 100 names there is a pair of equal hashes once in 800 programs.
CAPACITY = 1 << 22
MAX_NAMES = 1 << 16


class RangeHandles:
    """The table of one process.

    Word 0 is 1 as soon as any name is registered: while it is 0, no handle means anything. Every
    other word holds what the tool gave for the name with that handle, or 0.
    """

    def __init__(self, library: NvtxLibrary | None) -> None:
        self._library = library
        self._words = (ctypes.c_uint64 * CAPACITY).from_buffer(_zeroed_memory(CAPACITY * 8))
        self._handles: dict[bytes, int] = {}
        self._names: dict[int, bytes] = {}
        self._warned = False
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._lock.acquire,
                after_in_parent=self._lock.release,
                after_in_child=self._lock.release,
            )

    @property
    def address(self) -> int:
        """Where word 0 lies, for the life of the process."""
        return ctypes.addressof(self._words)

    def reserve(self, name: str) -> int:
        """The handle of a name, 1 to CAPACITY - 1, registered or not; 0 beyond MAX_NAMES names.

        Raises:
            InstrumentError: the name is no text, or holds a NUL, with which C would end it.
        """
        encoded = encoded_name(name)
        with self._lock:
            return self._reserve(encoded)

    def register(self, name: str) -> int:
        """Its handle, once a tool knows the name; 0 without a tool.

        Raises:
            InstrumentError: as :meth:`reserve`.
        """
        encoded = encoded_name(name)
        if self._library is None:
            self._warn_once(
                f"The range {name!r} is shown by no profiler: there is no NVTX library here. "
                f"Install it with: pip install 'assay[numba]'"
            )
            return 0
        with self._lock:
            known = self._handles.get(encoded, 0)
            if known and self._words[known]:
                return known
            string = self._library.register_string(encoded)
            handle = self._reserve(encoded) if string else 0
            if handle:
                self._words[handle] = string
                self._words[0] = 1
            return handle

    def string(self, handle: int) -> int:
        """The tool's own handle; 0 for 0 and for everything that is no handle in this process."""
        return self._words[handle] if 0 < handle < CAPACITY else 0

    def _reserve(self, name: bytes) -> int:
        handle = self._handles.get(name)
        if handle is not None:
            return handle
        if len(self._names) >= MAX_NAMES:
            self._warn_once(
                f"More than {MAX_NAMES} names of ranges: later ones are not shown. "
                f"Name what a range does, and leave numbers out of its name."
            )
            return 0
        digest = hashlib.blake2b(name, digest_size=8).digest()
        handle = int.from_bytes(digest, "little") % (CAPACITY - 1) + 1
        while handle in self._names:
            handle = handle % (CAPACITY - 1) + 1
        self._handles[name] = handle
        self._names[handle] = name
        return handle

    def _warn_once(self, message: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(message, AssayWarning, stacklevel=4)


def _zeroed_memory(num_bytes: int) -> mmap.mmap:
    if os.name != "posix":
        return mmap.mmap(-1, num_bytes)
    # Private: a forked child goes on with a copy. No huge pages: a name costs 4 KiB, not 2 MiB.
    memory = mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return memory
