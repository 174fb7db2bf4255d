"""One short readable function per command: the only place that knows everything."""

from __future__ import annotations

__all__: list[str] = []
