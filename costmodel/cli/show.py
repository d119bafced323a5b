"""``costmodel show``."""

from __future__ import annotations

import click

from .options import answers


@click.command("show")
@click.argument("kind", metavar="models|hardware|links|connectors|workloads|formulas")
@click.argument("name", required=False)
@answers("show")
def command(kind: str, name: str | None) -> object:
    """List what is known of a kind, or show NAME of it with every value and its source.

    NAME may be the path of a file of your own: this checks it.

    Example: costmodel show hardware a100-sxm-80gb
    """
    from ..questions.show import ask_show

    return ask_show(kind, name)
