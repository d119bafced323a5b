"""How a stack is shown: its parameters by GPU in their units, its errors, and what it was fitted to."""

from __future__ import annotations

from ..inputs.stack import DIMENSIONS
from ..questions.show_stack import StackEntry
from ..units import format_si
from .page import Block, Heading, Table, facts


def stack(answer: StackEntry) -> list[Block]:
    """The parameters of each GPU in their units, and what the fit saw."""
    blocks: list[Block] = [facts(answer, {"engine": "engine", "version": "version", "date": "fitted on"})]
    for fit in answer.fits:
        told = tuple((name, format_si(value, DIMENSIONS[name], 4)) for name, value in fit.parameters.items())
        errors = tuple(
            (f"error of {name}", f"{value:.1%}".replace("%", " %")) for name, value in fit.errors.items()
        )
        blocks += [Heading(fit.gpu), Table((), told + errors, (False, False))]
        blocks.append(f"Fitted to {', '.join(fit.fitted_on)}.")
    return blocks
