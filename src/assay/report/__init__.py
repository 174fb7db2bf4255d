"""What people look at: terminal tables, progress, and one self-contained page."""

from __future__ import annotations

__all__: list[str] = []
