"""The page of a timed program, drawn by a process of its own.

At the end of a program its interpreter starts no more threads, its modules may be half taken apart
and its memory full: no place to import a plotting library.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.errors import AssayError
from assay.recipes.timed_process import PROCESS_VARIABLE, VARIABLE

__all__ = ["draw_from_stdin", "draw_page"]

_TIMEOUT_S = 120
_CODE = """\
import sys
sys.path = [entry for entry in sys.path if entry]  # not the working directory
from assay.recipes.time_page import draw_from_stdin
draw_from_stdin()"""


def draw_page(document: Mapping[str, Any], path: Path) -> str | None:
    """Write the page of ``document`` to ``path``; returns what went wrong, if anything did."""
    if not sys.executable:
        return "this interpreter does not know its own path"
    environ = {
        name: value
        for name, value in os.environ.items()
        if name not in (VARIABLE, PROCESS_VARIABLE, "PYTHONSTARTUP")
    }
    # The program may have found assay by a path of its own; its folder may hold a random.py.
    environ["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path[1:] if entry)
    try:
        done = subprocess.run(
            [sys.executable, "-c", _CODE, path.name],
            input=json.dumps(document, allow_nan=False).encode(),
            env=environ,
            cwd=path.parent,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"its process failed: {error}"
    if done.returncode == 0:
        return None
    said = done.stderr.decode("utf-8", errors="replace").strip()
    return said or f"its process ended with exit code {done.returncode}"


def draw_from_stdin() -> None:
    """What that process does: a document on stdin, the name of the page as its argument."""
    from assay._atomic import write_text
    from assay.report.html_time import render_time

    document = json.loads(sys.stdin.buffer.read())
    try:
        write_text(sys.argv[1], render_time(document))
    except AssayError as error:
        sys.exit(str(error))
