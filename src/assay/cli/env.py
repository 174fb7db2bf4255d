"""``assay env``: a short table of the environment, for bug reports."""

from __future__ import annotations

import json

import click

__all__ = ["env"]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def env(*, as_json: bool) -> None:
    """Show versions, processor, memory and accelerators, for a bug report."""
    from assay.runtime.collect_env import environment_rows

    rows = environment_rows()
    if as_json:
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return

    from rich.console import Console

    from assay.report.tables import environment_table

    Console().print(environment_table(rows))
