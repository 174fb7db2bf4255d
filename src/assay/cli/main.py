"""``assay``: the root of all commands, and where errors become messages and exit codes."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import TextIO

import click

from assay import __version__
from assay.cli.compare import compare
from assay.cli.completion import completion
from assay.cli.env import env
from assay.cli.evaluate import evaluate
from assay.cli.time import time
from assay.errors import AssayError, AssayWarning, ConfigError
from assay.runtime.signals import Terminated

__all__ = ["cli", "main"]

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_TERMINATED = 128 + signal.SIGTERM

EPILOG = """
\b
Examples:
  assay evaluate svm config=demo          grade the bundled model on bundled images
  assay evaluate svm --model torchvision:resnet50 \\
      --train photos/train --test photos/test --layers layer3,layer4
  assay time train.py --epochs 1          run a script, and see where its time goes
  assay env                               what a bug report should say
  assay completion bash                   how to complete commands with TAB

\b
Exit codes: 0 done, 1 failed, 2 wrong usage or settings, 130 interrupted, 143 terminated.
"""


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EPILOG,
)
@click.version_option(__version__, "-V", "--version", prog_name="assay")
def cli() -> None:
    """Three answers about a PyTorch vision model.

    Where does the time go, are the numbers still right after a change, and how good are the frozen
    features.
    """


cli.add_command(evaluate)
cli.add_command(compare)
cli.add_command(time)
cli.add_command(env)
cli.add_command(completion)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: the entry point of ``assay`` and ``python -m assay``.

    Errors that assay raises on purpose become one message on stderr; anything else is a defect of
    ours and keeps its traceback.
    """
    with _own_handlers(), _any_text_can_be_printed():
        program = _run(arguments)
    program()  # somebody else's: it runs, and may fail, without anything of ours around it


def _run(arguments: Sequence[str] | None) -> Callable[[], None]:
    """Run a command and exit, or return the program that a command leaves to be run."""
    try:
        # Without its standalone mode click returns the exit code that --help and the like ask for,
        # or else what the command returns.
        asked = cli.main(args=arguments, prog_name="assay", standalone_mode=False)
        if callable(asked):
            return asked  # type: ignore[no-any-return]
        sys.exit(asked if isinstance(asked, int) else 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _say("Interrupted. Finished parts are kept; the same command goes on from there.")
        sys.exit(EXIT_INTERRUPTED)
    except AssayError as error:
        _say(f"Error: {error}")
        sys.exit(EXIT_USAGE if isinstance(error, ConfigError) else EXIT_FAILED)
    except BrokenPipeError:
        # The reader has gone (`assay ... | head`): keep the interpreter's last flush quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILED)


@contextlib.contextmanager
def _own_handlers() -> Iterator[None]:
    """SIGTERM unwinds like Ctrl-C, and our warnings are one line; both only while we run."""
    handler, showwarning = signal.getsignal(signal.SIGTERM), warnings.showwarning
    signal.signal(signal.SIGTERM, _on_sigterm)
    warnings.showwarning = _show_warning
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)
        warnings.showwarning = showwarning


@contextlib.contextmanager
def _any_text_can_be_printed() -> Iterator[None]:
    """Where the locale has no ``ü``, a name with one is no reason to fail: it prints as ``?``."""
    stream = sys.stdout  # None where it is closed; stderr never fails so
    if not isinstance(stream, io.TextIOWrapper):
        yield
        return
    errors = stream.errors
    stream.reconfigure(errors="replace")
    try:
        yield
    finally:
        if not stream.closed:
            stream.reconfigure(errors=errors)


def _say(message: str) -> None:
    is_terminal = sys.stderr is not None and sys.stderr.isatty()  # None: it is closed
    click.echo(click.style(message, fg="red" if is_terminal else None), err=True)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Our own warnings are for the user, who has no use for a place in the code."""
    if issubclass(category, AssayWarning):
        click.echo(f"Warning: {message}", err=True)
    else:
        click.echo(warnings.formatwarning(message, category, filename, lineno, line), err=True)


def _on_sigterm(_signal: int, _frame: FrameType | None) -> None:
    raise Terminated(EXIT_TERMINATED)
