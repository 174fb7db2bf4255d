"""The environment in a few rows, for bug reports: no secret, user or host name among them."""

from __future__ import annotations

import platform
from importlib import metadata
from types import ModuleType
from typing import Any

from assay import __version__
from assay.runtime.machine import available_cores, available_memory_bytes, cpu_model

__all__ = ["collect_env_info", "environment_rows", "package_versions"]

# What people call a package, and the name of its distribution.
_PACKAGES = {
    "torch": "torch",
    "torchvision": "torchvision",
    "numpy": "numpy",
    "scikit-learn": "scikit-learn",
    "pillow": "pillow",
    "timm": "timm",
    "hydra": "hydra-core",
}


def collect_env_info() -> str:
    """The environment as text, a line a row; see :func:`environment_rows`."""
    rows = environment_rows()
    width = max(map(len, rows))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows.items())


def environment_rows() -> dict[str, str]:
    """What runs here, in the order to show it: versions, processor, memory, accelerators.

    What is missing or broken is said in its row; nothing is raised. Of the packages only torch
    is imported.
    """
    memory = available_memory_bytes()
    return {
        "assay": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": cpu_model(),
        "cores": str(available_cores()),
        "memory": "unknown" if memory is None else _gibibytes(memory),
        **package_versions(),
        **_torch_rows(),
    }


def package_versions() -> dict[str, str]:
    """Package -> installed version or "not installed", read without importing any of them."""
    versions = {}
    for name, distribution in _PACKAGES.items():
        try:
            versions[name] = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions


def _torch_rows() -> dict[str, str]:
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: a shared library of it is missing or broken
        return {"torch": f"its import fails: {error}"}
    cudnn: Any = torch.backends.cudnn
    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda or torch.version.hip or "not in this build of torch",
        "cudnn": str(cudnn.version()) if cudnn.is_available() else "not available",
        **_accelerator_rows(torch),
    }


def _accelerator_rows(torch: ModuleType) -> dict[str, str]:
    """A row for each accelerator with its name and memory, or one that says there is none."""
    rows = {}
    for kind in ("cuda", "xpu"):
        module = getattr(torch, kind)
        try:
            for index in range(module.device_count() if module.is_available() else 0):
                device = module.get_device_properties(index)
                rows[f"{kind}:{index}"] = f"{device.name}, {_gibibytes(device.total_memory)}"
        except (
            RuntimeError,
            AssertionError,
        ) as error:  # an old driver, a busy device
            rows[kind] = f"cannot be asked: {(str(error).splitlines() or ['no reason given'])[0]}"
    if torch.backends.mps.is_available():
        rows["mps"] = "Apple GPU, shares the machine's memory"
    return rows or {"accelerators": "none"}


def _gibibytes(size_bytes: int) -> str:
    return f"{size_bytes / 1024**3:.1f} GiB"
