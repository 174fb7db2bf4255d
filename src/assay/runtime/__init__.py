"""The process around us: ranks, the processes they run in, seeds, and the machine.

The modules are imported by their names: ``from assay.runtime.launch import launch``.
"""

from __future__ import annotations

__all__: list[str] = []
