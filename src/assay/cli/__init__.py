"""The command line: arguments -> settings -> recipe -> exit code. One file per command."""

from __future__ import annotations

__all__: list[str] = []
