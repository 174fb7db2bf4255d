"""What tests and notebooks need of assay."""

from __future__ import annotations

from assay._switchable import reset_instruments

__all__ = ["reset_instruments"]
