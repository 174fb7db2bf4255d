"""Dump tensors and gradients, and compare them with an earlier run."""

from __future__ import annotations

__all__: list[str] = []
