"""Progress of long work: bars on a terminal, one line a stage elsewhere, and the time each took."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["ProgressView", "StageTiming"]


@dataclass(frozen=True)
class StageTiming:
    """How long one stage took."""

    stage: str
    elapsed_s: float


@dataclass
class ProgressView:
    """Shows the stages of a run on ``console`` and keeps their timings.

    ``console=None`` shows nothing; the timings are kept all the same.
    """

    console: Console | None = None
    clock: Callable[[], float] = time.perf_counter
    timings: list[StageTiming] = field(default_factory=list)

    @classmethod
    def for_terminal(cls) -> ProgressView:
        """A view on stderr, so that stdout stays for results."""
        from rich.console import Console

        return cls(Console(stderr=True))

    @contextlib.contextmanager
    def stage(
        self, name: str, total: int | None = None, unit: str = ""
    ) -> Iterator[Callable[[int], None]]:
        """Time a stage; the block is given ``advance(count)``.

        Args:
            name: what is done, for people, e.g. ``"extract train"``.
            total: how many units there are; ``None`` if that is not known.
            unit: the plural of what is counted, e.g. ``"images"``.
        """
        start = self.clock()
        done = 0
        with self._bar(name, total, unit) as update:

            def advance(count: int) -> None:
                nonlocal done
                done += count
                update(count)

            yield advance
        elapsed_s = self.clock() - start
        self.timings.append(StageTiming(name, elapsed_s))
        if self.console is not None:
            rate = f", {done / elapsed_s:,.0f} {unit}/s" if unit and done and elapsed_s > 0 else ""
            count = f"{done:,} {unit} in " if unit and done else ""
            self.say(f"{name}: {count}{elapsed_s:.1f} s{rate}")

    def say(self, message: str) -> None:
        """Show one line."""
        if self.console is not None:
            self.console.print(message, markup=False, highlight=False)

    @contextlib.contextmanager
    def _bar(self, name: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
        if self.console is None or not self.console.is_terminal:
            yield lambda _count: None
            return

        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = [
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
        ]
        with Progress(*columns, console=self.console, transient=True) as bars:
            task = bars.add_task(name, total=total, rate="")

            def update(count: int) -> None:
                bars.advance(task, count)
                speed = bars.tasks[0].speed
                bars.update(task, rate=f"{speed:,.0f} {unit}/s" if speed and unit else "")

            yield update
