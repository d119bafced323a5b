"""The page of ``costmodel calibrate`` for whole steps and closed loops: stacks, their errors, what was written."""

from __future__ import annotations

from ..questions.calibrate_stack import CalibrateStackAnswer
from .page import Block, Heading, Page, table
from .stack import stack


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
