"""Pages of a mapped file that have been read and will not be read again."""

from __future__ import annotations

import ctypes
import mmap
import sys
from functools import lru_cache
from typing import Any

from torch import Tensor

__all__ = ["drop_pages"]


def drop_pages(tensor: Tensor) -> None:
    """Give the pages of a memory-mapped tensor back to the system; reading maps them again.

    The tensor keeps its values only if nobody wrote to them: a change in a private mapping goes
    with its page. So this is for tensors that were mapped here and handed to nobody. Where the
    system has no such call nothing happens.
    """
    madvise = _madvise()
    if madvise is None or not tensor.is_contiguous():
        return
    page = mmap.PAGESIZE
    start = tensor.data_ptr()
    end = start + tensor.numel() * tensor.element_size()
    # Whole pages only: the rest may be another tensor's, and costs little.
    first, last = -(-start // page) * page, end // page * page
    if last > first:
        madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), mmap.MADV_DONTNEED)


@lru_cache(maxsize=1)
def _madvise() -> Any:
    if not sys.platform.startswith("linux"):  # elsewhere the same number means other things
        return None
    try:
        return ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
