"""``assay completion``: the script that lets a shell complete our commands with TAB."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

__all__ = ["completion"]


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    \b
    bash:  assay completion bash > ~/.local/share/bash-completion/completions/assay
    zsh:   assay completion zsh  > "${fpath[1]}/_assay"
    fish:  assay completion fish > ~/.config/fish/completions/assay.fish

    Or, for this shell only:  eval "$(assay completion bash)"
    """
    shell_class = get_completion_class(shell)
    if shell_class is None:  # click always knows the three shells offered above
        raise click.BadParameter(f"click has no completion for {shell}")
    click.echo(shell_class(ctx.find_root().command, {}, "assay", "_ASSAY_COMPLETE").source())
