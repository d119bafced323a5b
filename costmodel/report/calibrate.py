"""The page of ``costmodel calibrate``: parameters with both errors, then what was written."""

from __future__ import annotations

from ..questions.calibrate import CalibrateAnswer
from .page import Block, Heading, Page, Table, table
from .validate import errors_table, parameters_text

FITS = {
    "gpu": "GPU",
    "stack": "stack",
    "operator": "operator",
    "points": "fitted rows",
    "held_out_points": "held out",
    "fitted_mape": "fitted error",
    "held_out_mape": "held-out error",
    "held_out_bias": "bias",
    "carried_mape": "carried over",
    "carried_to": "to",
}


def page(answer: CalibrateAnswer, detail: bool) -> Page:
    """Return the page of an answer; ``detail`` adds errors by regime."""
    rows = tuple(
        (fit.gpu, fit.stack, fit.operator, fit.form, parameters_text(fit.parameters)) for fit in answer.fits
    )
    blocks: list[Block] = [
        table(answer.fits, FITS),
        Heading("Parameters"),
        Table(("GPU", "stack", "operator", "form", "parameters"), rows, (False,) * 5),
    ]
    if detail:
        blocks += [Heading("Errors by regime"), errors_table(answer.rows)]
    blocks += [f"{left.where}: {left.rows:,} rows left out: {left.why}" for left in answer.left_out]
    blocks += [f"written: {path}" for path in answer.files] or ["nothing written: pass -o FILE.toml"]
    return Page(f"Calibrated on {answer.date}", tuple(blocks), answer.about)
