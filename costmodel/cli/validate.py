"""``costmodel validate``."""

from __future__ import annotations

from typing import Any

import click

from .options import answers


@click.command("validate")
@click.argument("kind", metavar="[memory]", default="memory")
@click.option("--measurements", type=click.Path(), help="CSV of measured rows; default: the packaged ones.")
@answers("validate")
def command(**options: Any) -> object:
    """How far predictions of KIND stand from measurements, row by row and in summary.

    memory: weights, activation, KV pool and KV tokens against what engines logged at start-up.

    Example: costmodel validate memory
    """
    from ..questions.validate import ask_validate

    return ask_validate(**options)
