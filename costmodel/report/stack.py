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
            (f"error of {name}", _error(value, fit.held_out_points[name]))
            for name, value in fit.errors.items()
        )
        blocks += [Heading(fit.gpu), Table((), told + errors, (False, False))]
        if fit.lent:
            blocks.append("It saw no TTFT: request_latency is that of the engine's other fits.")
        blocks.append(f"Fitted to {', '.join(fit.fitted_on)}.")
    return blocks


def _error(value: float | None, points: int) -> str:
    if value is None:
        return "not tried"
    shown = f"{value:.1%}".replace("%", " %")
    return f"{shown} of {points} held out" if points else f"{shown} carried"
