"""``costmodel explain``."""

from __future__ import annotations

import click

from ..errors import InputError
from .options import answers


@click.command("explain")
@click.argument("formula", required=False)
@click.option("--terms", is_flag=True, help="The glossary instead.")
@click.option("--all", "whole", is_flag=True, help="The whole book instead.")
@answers("explain")
def command(formula: str | None, terms: bool, whole: bool) -> object:
    """FORMULA of the book: LaTeX, unit, source, assumptions, parameters (costmodel show formulas lists all).

    Example: costmodel explain transfer_bound
    """
    from ..questions.explain import ask_book, ask_explain, ask_glossary

    if (formula is not None) + terms + whole != 1:
        raise InputError("name one formula (costmodel show formulas lists all), or pass --terms or --all")
    if formula is not None:
        return ask_explain(formula)
    return ask_glossary() if terms else ask_book()
