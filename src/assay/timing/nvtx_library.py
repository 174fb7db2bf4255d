"""NVIDIA's NVTX library in C, for callers that have no time for a Python object."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

__all__ = ["EVENT_WORDS", "NvtxLibrary", "load_nvtx_library"]

# The current name, and that of CUDA 12.4 and older; both export the functions that we call.
_FILES = ("libnvtx3interop.so", "libnvToolsExt.so")

# nvtxEventAttributes_t as six 64-bit words, little end first. Word 0 holds the version (3) and the
# size (48 bytes), word 4 says that the message is a registered string, whose handle is word 5.
# Category, colour and payload stay 0: not given.
EVENT_WORDS = (3 | 48 << 16, 0, 0, 0, 3)


@dataclass(frozen=True)
class NvtxLibrary:
    """Three functions of the library, all on the default domain.

    As long as no tool is attached they do nothing, and a registered string is 0.
    """

    path: str
    register_string_address: int  # void *(void *domain, const char *name)
    push_address: int  # int (const void *event_attributes)
    pop_address: int  # int (void)
    _functions: Any = field(repr=False)  # the loaded library, which must outlive its addresses

    def register_string(self, name: bytes) -> int:
        """The tool's handle of a name in UTF-8; 0 when no tool is attached."""
        return self._functions.nvtxDomainRegisterStringA(None, name) or 0

    def push(self, string: int) -> None:
        """Open a range on the calling thread, named by a registered string."""
        event = (ctypes.c_uint64 * 6)(*EVENT_WORDS, string)
        self._functions.nvtxRangePushEx(event)

    def pop(self) -> None:
        """Close the range that was opened last on the calling thread."""
        self._functions.nvtxRangePop()


@lru_cache(maxsize=1)
def load_nvtx_library() -> NvtxLibrary | None:
    """The library that the ``nvidia-nvtx`` packages bring, else the system's; None without one."""
    for path in _candidates():
        try:
            return _load(path)
        except (OSError, AttributeError):  # not there, or too old to have all the functions
            continue
    return None


def _candidates() -> Iterator[str]:
    package = importlib.util.find_spec("nvidia")
    for folder in (package.submodule_search_locations or ()) if package else ():
        for name in _FILES:
            found = sorted(Path(folder).glob(f"*/lib/{name}*"), reverse=True)
            yield from map(str, found)
    yield from (f"{name}.1" for name in _FILES)


def _load(path: str) -> NvtxLibrary:
    functions = ctypes.CDLL(path)
    register = functions.nvtxDomainRegisterStringA
    register.argtypes, register.restype = [ctypes.c_void_p, ctypes.c_char_p], ctypes.c_void_p
    push, pop = functions.nvtxRangePushEx, functions.nvtxRangePop
    push.argtypes, pop.argtypes = [ctypes.c_void_p], []
    return NvtxLibrary(path, _address(register), _address(push), _address(pop), functions)


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0
