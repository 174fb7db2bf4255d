"""The end of a timed process: its files, those of all ranks together, and the table.

All that is needed there is imported here, before the program starts: an import amid the exit
handlers would, if it compiles text, have the interpreter forget that Ctrl-C ended it.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from assay._atomic import make_folder, write_text
from assay.errors import AssayError
from assay.recipes.time_merge import merge_traces, read_ranks, read_workers
from assay.recipes.time_options import TimeOptions
from assay.recipes.time_page import draw_page
from assay.recipes.timed_process import WORKERS, TimedProcess
from assay.report.document_time import TimedRun, merged_document, summary_of, timing_document
from assay.report.time_table import ranks_table, time_table
from assay.runtime.masking import masked_text
from assay.timing import Summary, Trace, write_chrome_trace, write_summary_csv
from assay.timing.exports import json_text

__all__ = ["MeasuredProcess", "finish_run", "remove_own_files", "write_outputs"]

_ALL = ("timing.json", "timing.csv", "trace.json")
_PAGE = "report.html"
_CLAIM = ".ranks-are-merged"  # by whichever of several ranks that end at once makes it


@dataclass(frozen=True)
class MeasuredProcess:
    """What one process measured, and how it ran."""

    summary: Summary
    trace: Trace
    command: str
    created: datetime
    elapsed_s: float
    used_accelerator: bool

    @property
    def is_empty(self) -> bool:
        """Whether no interval was measured."""
        return not self.summary.one_time and all(
            each.host is None for each in self.summary.measurements
        )


def remove_own_files(folder: Path, process: TimedProcess) -> None:
    """Take away what this rank wrote to ``folder`` in an earlier run: it is not of this one."""
    if process.is_merged:
        for name in _ALL:
            (folder / process.file_name(name)).unlink(missing_ok=True)
        if process.ranks.rank == 0:
            (folder / _CLAIM).unlink(missing_ok=True)


def write_outputs(measured: MeasuredProcess, options: TimeOptions, process: TimedProcess) -> None:
    """Write and say all that is due at the end of this process; never raises what it foresees.

    A failure is said on stderr: the program has done its work, and keeps its exit code.
    """
    try:
        _write_outputs(measured, options, process)
    except AssayError as error:
        _say(f"assay: {error}")


def _write_outputs(measured: MeasuredProcess, options: TimeOptions, process: TimedProcess) -> None:
    if process.kind == "worker" and measured.is_empty:
        return
    run = TimedRun(
        command=masked_text(measured.command),
        created=measured.created,
        elapsed_s=measured.elapsed_s,
        options={**asdict(options), "export": list(options.export), "out": str(options.out)},
        process={
            "kind": process.kind,
            "rank": process.ranks.rank,
            "world_size": process.ranks.world_size,
            "pid": process.pid,
            "run": process.run,
        },
        device=_device_in_use() if measured.used_accelerator else "cpu",
    )
    document = timing_document(run, measured.summary)
    if process.kind == "worker":
        make_folder(options.out / WORKERS)
        write_text(options.out / process.file_name("timing.json"), json_text(document, indent=2))
        return
    if not process.is_merged:
        finish_run(document, measured, options)
        return
    if "trace" in options.export:
        write_chrome_trace(measured.trace, options.out / process.file_name("trace.json"))
    # Last, for it says that this rank is done; ranks are merged from it, whatever is exported.
    write_text(options.out / process.file_name("timing.json"), json_text(document, indent=2))
    if process.is_collected:
        return
    if len(read_ranks(options.out, process.run)) == process.ranks.world_size:
        if _claim(options.out):
            finish_run(document, measured, options)  # the last one out
    elif process.ranks.rank == 0 and not options.quiet:
        _say_table(measured.summary, options)
        _say(
            f"Rank 0 is done. The last rank to end writes what all of them measured; should one be "
            f"killed: assay time --merge {options.out}"
        )


def finish_run(
    document: Mapping[str, Any], measured: MeasuredProcess | None, options: TimeOptions
) -> None:
    """Write and show the results of a whole run, with all its ranks and workers.

    Args:
        document: of the process that ends the run.
        measured: what that process measured; None where only files are merged.
        options: what is to be written, and where.

    Raises:
        OutputError: a file cannot be written.
    """
    run, folder = document["process"]["run"], options.out
    ranks = read_ranks(folder, run)
    own: dict[int, Mapping[str, Any]] = {0: document}
    merged = merged_document(ranks or own, read_workers(folder, run))
    if ranks and document["process"]["world_size"] == 1:
        merged.update({key: document[key] for key in ("command", "created", "elapsed_s")})
    summary = summary_of(merged)
    written = []
    if "json" in options.export:
        write_text(folder / "timing.json", json_text(merged, indent=2))
        written.append("timing.json")
    if "csv" in options.export:
        write_summary_csv(summary, folder / "timing.csv")
        written.append("timing.csv")
    if "trace" in options.export:
        if ranks:
            merge_traces(folder, sorted(ranks), folder / "trace.json")
        elif measured is not None:
            write_chrome_trace(measured.trace, folder / "trace.json")
        written.append("trace.json")
    problem = draw_page(merged, folder / _PAGE) if options.report else None
    if options.report and problem is None:
        written.append(_PAGE)
    if not options.quiet:
        _say_results(merged, summary, options, written)
    if problem is not None:
        _say(f"assay: no page was written: {problem}")


def _say_results(
    merged: Mapping[str, Any], summary: Summary, options: TimeOptions, written: list[str]
) -> None:
    _say("")
    if summary.measurements or summary.one_time or not merged["workers"]:
        _say_table(summary, options)
    if merged["ranks"] is not None:
        _say("")
        _say(ranks_table(merged["ranks"], width=_width()))
    if merged["workers"]:
        count = len(merged["workers"])
        plural = "processes" if count > 1 else "process"
        _say(f"{count} more {plural} measured: {options.out / WORKERS}")
    if (options.sync or options.events) and merged["machine"]["device"] == "cpu":
        _say("The program used no accelerator: times are those of the host alone.")
    if written:
        folder = _shown(options.out)
        _say(f"\nWritten to {folder}: {', '.join(written)}")


def _say_table(summary: Summary, options: TimeOptions) -> None:
    _say(time_table(summary, width=_width(), warmup=options.warmup))


def _claim(folder: Path) -> bool:
    """Whether it falls to this rank to merge all."""
    try:
        (folder / _CLAIM).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _device_in_use() -> str:
    """The name of the accelerator, which the program has opened and torch hence knows."""
    torch: Any = sys.modules["torch"]
    for kind in ("cuda", "xpu"):
        module = getattr(torch, kind)
        if module.is_initialized():
            return f"{module.get_device_name()} ({kind})"
    return str(torch.accelerator.current_accelerator())


def _shown(folder: Path) -> str:
    try:
        return str(folder.relative_to(Path.cwd()))
    except (ValueError, OSError):  # elsewhere, or the working directory is gone
        return str(folder)


def _width() -> int:
    return max(40, shutil.get_terminal_size((110, 24)).columns)


def _say(text: str) -> None:
    if sys.stderr is not None:
        print(text, file=sys.stderr, flush=True)
