"""The page of ``costmodel calibrate`` for whole steps and closed loops: stacks, their errors, what was written."""

from __future__ import annotations

from ..inputs.stack import DIMENSIONS
from ..questions.calibrate_stack import CalibrateStackAnswer
from ..questions.show_stack import StackEntry
from ..units import format_si
from .page import Block, Heading, Page, Table, facts, table


def page(answer: CalibrateStackAnswer, detail: bool) -> Page:
    """Return the page of an answer."""
    blocks: list[Block] = []
    for entry in answer.stacks:
        blocks += [Heading(entry.name), *stack(entry)]
    if answer.left_out:
        columns = {"where": "file", "rows": "rows", "why": "why"}
        blocks += [Heading("Rows left out"), table(answer.left_out, columns)]
    blocks += [f"written: {path}" for path in answer.files] or ["nothing written: pass -o FILE.toml"]
    return Page(f"Stacks calibrated on {answer.date}", tuple(blocks), answer.about)


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
