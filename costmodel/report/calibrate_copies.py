"""The page of ``costmodel calibrate`` for tables of copies: latency, bandwidth, errors, what was written."""

from __future__ import annotations

from ..questions.calibrate_copies import CalibrateCopiesAnswer
from .page import Block, Page, table

FITS = {
    "series": "series",
    "copies": "copies",
    "sizes": "sizes",
    "latency_s": "latency",
    "bandwidth_bytes_per_s": "bandwidth",
    "bandwidth_share": "of peak",
    "fitted_mape": "fitted error",
    "held_out_mape": "held-out error",
}
DETAIL = {"held_out_worst": "worst", "smallest_bytes": "from", "largest_bytes": "to"}


def page(answer: CalibrateCopiesAnswer, detail: bool) -> Page:
    """Return the page of an answer; ``detail`` adds sizes and the largest error."""
    blocks: list[Block] = [table(answer.series, FITS | (DETAIL if detail else {}))]
    blocks += [f"{left.rows:,} copies left out: {left.why}" for left in answer.left_out]
    blocks += [f"written: {path}" for path in answer.files] or ["nothing written: pass -o FILE.toml"]
    return Page(f"Copies calibrated on {answer.date}", tuple(blocks), answer.about)
