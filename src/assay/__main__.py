"""``python -m assay``: the command line, also under ``torchrun -m assay``."""

from __future__ import annotations

from assay.cli.main import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
