"""What this process may use of the machine: processor, cores and memory, a container's limits too.

``root`` is where the kernel's files are read, ``/`` but for tests. What cannot be read is unknown
(``None``), never an error.
"""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path

__all__ = ["available_cores", "available_memory_bytes", "cpu_model"]

_ROOT = Path("/")


def available_cores(root: Path = _ROOT) -> int:
    """How many cores this process may keep busy, at least 1: its affinity and its cgroup's quota.

    A quota of two and a half cores counts as two.
    """
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    quotas = [quota / period for quota, period in _cpu_quotas(root) if quota > 0 and period > 0]
    return max(1, int(min([cores, *quotas])))


def available_memory_bytes(root: Path = _ROOT) -> int | None:
    """Memory that this process may fill: the machine's, or its cgroup's limit if that is less."""
    limits = list(_memory_limits(root))
    with contextlib.suppress(AttributeError, ValueError, OSError):  # not every system can tell
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min((limit for limit in limits if limit > 0), default=None)


def cpu_model(root: Path = _ROOT) -> str:
    """The processor's name as its maker writes it, or else its architecture."""
    for line in _read(root / "proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name" and value.strip():
            return value.strip()
    return platform.processor() or platform.machine() or "unknown"


def _cpu_quotas(root: Path) -> Iterator[tuple[int, int]]:
    """(quota, period) in microseconds of each cgroup above this process that has one."""
    for folder in _cgroups(root, "cpu"):
        unified = _integers(folder / "cpu.max")
        if len(unified) == 2:
            yield unified[0], unified[1]
        quota, period = (_integers(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
        if quota and period:
            yield quota[0], period[0]


def _memory_limits(root: Path) -> Iterator[int]:
    """The limit in bytes of each cgroup above this process that has one."""
    for folder in _cgroups(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            yield from _integers(folder / name)[:1]


def _cgroups(root: Path, controller: str) -> Iterator[Path]:
    """The folders of this process's cgroup and all above it: a limit on any of them binds.

    In version 2 (one hierarchy) they lie directly under the mount, in version 1 (a hierarchy a
    controller) under the controller's name. A container may see its own cgroup as the root.
    """
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and controller not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / (controller if controllers else "")
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts), -1, -1):
            yield mount.joinpath(*parts[:depth])


def _integers(path: Path) -> list[int]:
    """The integers of a one-line file; empty if there is no such file or it says "max"."""
    words = _read(path).split()
    return [int(word) for word in words] if all(_is_integer(word) for word in words) else []


def _is_integer(word: str) -> bool:
    return word.removeprefix("-").isdecimal()


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
