"""``costmodel completion``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

VARIABLE = "_COSTMODEL_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell, for its start-up file.

    \b
    bash:  eval "$(costmodel completion bash)"
    zsh:   eval "$(costmodel completion zsh)"
    fish:  costmodel completion fish | source
    """
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(ctx.find_root().command, {}, "costmodel", VARIABLE).source())
