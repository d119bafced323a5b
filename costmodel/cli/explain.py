"""``costmodel explain``."""

from __future__ import annotations

import click

from ..errors import InputError
from .options import answers


@click.command("explain")
@click.argument("name", nargs=-1)
@click.option("--terms", is_flag=True, help="The glossary instead.")
@click.option("--all", "whole", is_flag=True, help="The whole book instead.")
@answers("explain")
def command(name: tuple[str, ...], terms: bool, whole: bool) -> object:
    """NAME of a formula: LaTeX, unit, source, assumptions, parameters (costmodel show formulas lists all).

    NAME of a term or a formula's parameter: its unit and meaning (costmodel explain --terms lists all).

    \b
    Examples:
      costmodel explain transfer_bound
      costmodel explain token budget
    """
    from ..questions.explain import ask_book, ask_explain, ask_glossary

    if bool(name) + terms + whole != 1:
        raise InputError(
            "name one formula or term (costmodel show formulas lists the former), or pass --terms or --all"
        )
    if name:
        return ask_explain(" ".join(name))
    return ask_glossary() if terms else ask_book()
