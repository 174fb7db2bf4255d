"""``assay time``: run a script or module with the stopwatch on."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

__all__ = ["time"]

EPILOG = """
\b
In the script, around what interests you:
  from assay import Stopwatch
  with Stopwatch().measure("forward"):
      ...
  Stopwatch().finish_iter()      # at the end of each iteration

\b
Then, with the script's own arguments behind its name:
  assay time train.py --epochs 1 --lr 0.1
  assay time --warmup 10 --print-every 100 --out runs/baseline train.py
  assay time -m mypackage.train --epochs 1

\b
On an accelerator: wait for it at each start and end, or mark its stream without waiting:
  assay time --sync train.py
  assay time --events train.py

\b
Several ranks; each measures, and the page tells which is slowest:
  torchrun --nproc-per-node 4 -m assay time train.py
  assay time -m torch.distributed.run --nproc-per-node 4 train.py

\b
Without this command, by the environment:
  ASSAY_STOPWATCH=1 python train.py
  ASSAY_STOPWATCH=warmup=10,sync=1,out=runs/time torchrun --nproc-per-node 4 train.py

The table goes to stderr, so that stdout stays the script's. The exit code is the script's.
"""


class _Exports(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.4
    """``json,csv,trace``, or ``none``."""

    name = "list"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from assay.recipes.time_options import parse_exports

        if isinstance(value, tuple):
            return value
        try:
            return parse_exports(value)
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        done, comma, typed = incomplete.rpartition(",")
        offers = [name for name in ("json", "csv", "trace") if name not in done.split(",")]
        if not comma:
            offers.append("none")
        return [CompletionItem(done + comma + name) for name in offers if name.startswith(typed)]


def _complete_program(
    ctx: click.Context, _param: click.Parameter, typed: str
) -> list[CompletionItem]:
    if not ctx.params.get("is_module") or ctx.params.get("program"):
        return [CompletionItem(typed, type="file")]
    import pkgutil

    parent, _, _ = typed.rpartition(".")
    folders = [str(Path(os.curdir, *parent.split("."))), *([] if parent else sys.path)]
    names = {
        f"{parent}.{each.name}" if parent else each.name for each in pkgutil.iter_modules(folders)
    }
    return [CompletionItem(name) for name in sorted(names) if name.startswith(typed)]


@click.command(
    epilog=EPILOG,
    # What stands behind the script is the script's.
    context_settings={"allow_interspersed_args": False},
)
@click.option(
    "-m", "is_module", is_flag=True, help="SCRIPT is the name of a module, as in python -m."
)
@click.option(
    "--warmup",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Iterations (calls of finish_iter) before measuring starts.",
)
@click.option(
    "--print-every",
    type=click.IntRange(min=1),
    metavar="N",
    help="Print the table each time N more iterations are measured.",
)
@click.option(
    "--sync/--no-sync",
    default=False,
    help="Wait for the accelerator at each start and end.  [default: no-sync]",
)
@click.option(
    "--events", is_flag=True, help="Mark starts and ends on the accelerator's stream, too."
)
@click.option(
    "--nvtx", is_flag=True, help="Switch on NVTXRangeWrapper as well, for Nsight Systems."
)
@click.option(
    "--cpu-usage", metavar="NAME", help="Take the load of the CPU while NAME is measured."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("runs/time"),
    show_default=True,
    metavar="DIR",
    help="Where timing.json, timing.csv, trace.json and report.html go.",
)
@click.option(
    "--export",
    type=_Exports(),
    default="json,csv,trace",
    show_default=True,
    metavar="LIST",
    help="Which files to write besides the page; none for none.",
)
@click.option("--report/--no-report", default=True, help="Draw report.html.  [default: report]")
@click.option("--quiet", is_flag=True, help="Print nothing at the end.")
@click.option(
    "--merge",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Run nothing: put together what the ranks of an earlier run left in DIR.",
)
@click.argument("program", required=False, metavar="SCRIPT", shell_complete=_complete_program)
@click.argument(
    "arguments",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="[ARGS]...",
    shell_complete=_complete_program,
)
def time(
    *,
    program: str | None,
    arguments: tuple[str, ...],
    is_module: bool,
    merge: Path | None,
    **flags: Any,
) -> Callable[[], None] | None:
    """Run SCRIPT as python would, and show where its time goes.

    Every Stopwatch() of the script is switched on from outside: nothing in it has to be edited, and
    what it says itself about enabling gives way to the options here.
    """
    from assay.recipes.time_options import TimeOptions
    from assay.recipes.time_script import merge_ranks, time_script

    options = TimeOptions(**flags)
    if merge is not None:
        if program is not None:
            raise click.UsageError("--merge runs nothing: leave out the script.")
        merge_ranks(merge, options)
        return None
    if program is None:
        raise click.UsageError("Name a script to run, as in: assay time train.py --epochs 1")
    command = shlex.join(["assay", *sys.argv[1:]])
    return time_script(program, arguments, options, is_module=is_module, command=command)
