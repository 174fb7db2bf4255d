"""``ASSAY_STOPWATCH=...``: time a program that is started as ever, by its environment.

Called once, when assay is first imported; imports nothing unless the variable is set.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import MutableMapping

__all__ = ["start_from_environment"]


def start_from_environment(environ: MutableMapping[str, str] = os.environ) -> None:
    """Start to measure if ``ASSAY_STOPWATCH`` asks for it.

    A program that runs for days is not stopped by a slip in a variable: what cannot be understood
    or done is a warning, and nothing is measured.
    """
    text = environ.get("ASSAY_STOPWATCH", "")
    if not text:
        return
    from assay.errors import AssayError, AssayWarning, ConfigError
    from assay.recipes.time_options import parse_options

    try:
        options = parse_options(text)
        if options is None:
            return
        import shlex
        import sys

        from assay.recipes.timed_process import TimedProcess
        from assay.recipes.timed_session import TimedSession

        command = shlex.join(["python", *sys.orig_argv[1:]])
        process = TimedProcess.from_environment(environ)
        TimedSession(options, process, command, is_asked_for=False).start(environ)
    except ConfigError as error:
        warnings.warn(f"ASSAY_STOPWATCH={text}: {error} Nothing is measured.", AssayWarning, 2)
    except AssayError as error:
        warnings.warn(f"ASSAY_STOPWATCH={text}: nothing is measured: {error}", AssayWarning, 2)
