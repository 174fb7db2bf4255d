"""``assay time``: run a program as ever, with the stopwatch on, and show where its time went."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from assay.errors import ConfigError
from assay.recipes import run_as_main as running
from assay.recipes.run_as_main import find_module, find_script, run_as_main, without_frames_of
from assay.recipes.time_merge import latest_run
from assay.recipes.time_options import TimeOptions
from assay.recipes.time_outputs import finish_run
from assay.recipes.timed_process import TimedProcess
from assay.recipes.timed_session import TimedSession

__all__ = ["merge_ranks", "time_script"]

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT

_OUR_FILES = (__file__, running.__file__)


def time_script(
    program: str,
    arguments: Sequence[str],
    options: TimeOptions,
    *,
    is_module: bool,
    command: str,
    environ: MutableMapping[str, str] = os.environ,
) -> Callable[[], None]:
    """Start to measure, and return the function that runs the program.

    That function ends with :class:`SystemExit`, by the exit code with which Python would end the
    program; what it raises is shown as Python would show it. The results are written when the
    process ends. Options given here take the place of those in ``ASSAY_STOPWATCH``.

    Args:
        program: the path of a script, or the name of a module.
        arguments: those of the program.
        options: how it is measured.
        is_module: as in ``python -m``.
        command: how it was started, for the page.
        environ: gets what the program's own processes need to be measured, too.

    Raises:
        ConfigError: there is no such script.
        OutputError: the folder for results cannot be made.
        MissingExtraError: ranges are asked for, and the ``nvtx`` package is not installed.
    """
    script = None if is_module else find_script(program)
    earlier = TimedSession.current()
    if earlier is not None:
        earlier.cancel(environ)
    session = TimedSession(options, TimedProcess.from_environment(environ), command)
    session.start(environ)

    def run() -> None:
        session.take_sigterm()
        try:
            run_as_main(script or find_module(program), arguments)
        except SystemExit:
            raise
        except ConfigError as error:
            if without_frames_of(_OUR_FILES, error.__traceback__) is not None:
                _show(error)
                raise SystemExit(EXIT_FAILED) from None
            session.cancel(environ)
            print(f"Error: {error}", file=sys.stderr)
            raise SystemExit(EXIT_USAGE) from None
        except KeyboardInterrupt as error:
            _show(error)
            raise SystemExit(EXIT_INTERRUPTED) from None
        except BaseException as error:  # noqa: BLE001  the last stop of whatever a program raises
            _show(error)
            raise SystemExit(EXIT_FAILED) from None

    return run


def merge_ranks(folder: Path, options: TimeOptions) -> dict[str, Any]:
    """Write the results of the latest run in ``folder`` from what its ranks left there.

    For a run of which a rank was killed, or whose ranks ran on machines without a common disk and
    were copied together. Returns the document of the lowest rank.

    Raises:
        DataError: no rank left anything there.
        OutputError: a file cannot be written.
    """
    document = latest_run(folder)
    finish_run(document, None, replace(options, out=folder.absolute()))
    return document


def _show(error: BaseException) -> None:
    """As the interpreter shows what ends a program, from the program's own first frame on."""
    traceback = without_frames_of(_OUR_FILES, error.__traceback__)
    sys.excepthook(type(error), error.with_traceback(traceback), traceback)
