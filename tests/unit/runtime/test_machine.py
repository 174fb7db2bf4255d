from __future__ import annotations

import os
from pathlib import Path

import pytest

from assay.runtime.machine import available_cores, available_memory_bytes, cpu_model

UNIFIED = "0::/job/step\n"
PER_CONTROLLER = "5:memory:/job\n4:cpu,cpuacct:/job\n0::/\n"


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)), raising=False)


def machine(root: Path, cgroup: str, **files: str) -> Path:
    """A root folder with what a kernel would say."""
    for name, text in {"proc/self/cgroup": cgroup, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_all_cores_of_the_affinity_count_without_a_cgroup(tmp_path: Path) -> None:
    assert available_cores(tmp_path) == 8


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("200000 100000\n", 2), ("250000 100000\n", 2), ("50000 100000\n", 1), ("max 100000\n", 8)],
)
def test_a_quota_limits_the_cores(tmp_path: Path, quota: str, cores: int) -> None:
    root = machine(tmp_path, UNIFIED, **{"sys/fs/cgroup/job/step/cpu.max": quota})
    assert available_cores(root) == cores


def test_a_quota_further_up_binds_too(tmp_path: Path) -> None:
    files = {
        "sys/fs/cgroup/job/step/cpu.max": "600000 100000\n",
        "sys/fs/cgroup/job/cpu.max": "300000 100000\n",
    }
    assert available_cores(machine(tmp_path, UNIFIED, **files)) == 3


@pytest.mark.parametrize(("quota", "cores"), [("400000\n", 4), ("-1\n", 8)])
def test_a_quota_of_the_older_cgroups_limits_the_cores(
    tmp_path: Path, quota: str, cores: int
) -> None:
    files = {
        "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": quota,
        "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000\n",
    }
    assert available_cores(machine(tmp_path, PER_CONTROLLER, **files)) == cores


def test_the_memory_limit_is_the_least_of_all_that_bind(tmp_path: Path) -> None:
    files = {
        "sys/fs/cgroup/job/step/memory.max": "max\n",
        "sys/fs/cgroup/job/memory.max": "1048576\n",
    }
    assert available_memory_bytes(machine(tmp_path, UNIFIED, **files)) == 1048576


def test_a_memory_limit_of_the_older_cgroups_binds(tmp_path: Path) -> None:
    files = {"sys/fs/cgroup/memory/job/memory.limit_in_bytes": "2097152\n"}
    assert available_memory_bytes(machine(tmp_path, PER_CONTROLLER, **files)) == 2097152


def test_without_a_limit_all_memory_is_there_to_be_used(tmp_path: Path) -> None:
    files = {"sys/fs/cgroup/memory/job/memory.limit_in_bytes": "9223372036854771712\n"}
    unlimited = available_memory_bytes(machine(tmp_path, PER_CONTROLLER, **files))
    assert unlimited == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_the_processor_has_the_name_that_its_maker_gave_it(tmp_path: Path) -> None:
    files = {"proc/cpuinfo": "processor\t: 0\nmodel name\t: Fast(R) Chip @ 3GHz\n"}
    assert cpu_model(machine(tmp_path, UNIFIED, **files)) == "Fast(R) Chip @ 3GHz"


def test_a_processor_without_a_name_has_its_architecture(tmp_path: Path) -> None:
    assert cpu_model(machine(tmp_path, UNIFIED, **{"proc/cpuinfo": "processor : 0\n"}))
