"""What a report calls TPOT, and E2E as that makes it; the tokens of a request that its means are about."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..runs import Run

GAPS, AFTER_FIRST, ALL = "(E2E - TTFT) / (OSL - 1)", "(E2E - TTFT) / OSL", "E2E / OSL"
#: Definitions in use, the usual one first.
DEFINITIONS = (GAPS, AFTER_FIRST, ALL)
_LESS_ONE = re.compile(r"(?:osl|tokens?|length|len|n)\s*\)?\s*[-\u2212\u2013]\s*(?:1|one)\b")
_DIVIDED = re.compile(r"/|divided by|\bover\b|\bper\b")


class Sum(NamedTuple):
    """E2E in seconds as TTFT and TPOT give it, and in words."""

    seconds: float
    told: str


def definition_of(run: Run) -> str | None:
    """Return the definition of TPOT that a run states; None where it states none."""
    text = run.text("tpot_definition").replace("time to first token", "ttft")
    return _meant(text) if text else None


def _meant(text: str) -> str:
    """The definition that words mean.

    >>> _meant("end-to-end latency / output tokens"), _meant("(e2e - ttft) / osl"), _meant("gaps between tokens")
    ('E2E / OSL', '(E2E - TTFT) / OSL', '(E2E - TTFT) / (OSL - 1)')
    """
    if _LESS_ONE.search(text) or not _DIVIDED.search(text):
        return GAPS
    if "ttft" in text or "first" in text:
        return AFTER_FIRST
    return ALL if re.search(r"e2e|end.to.end|latency|total|whole|request", text) else GAPS


def whole_of(ttft: float, gap: float, osl: float, definition: str) -> Sum:
    """Return E2E from its parts by a definition of TPOT.

    >>> whole_of(1.0, 0.02, 101, GAPS).seconds, whole_of(1.0, 0.02, 101, ALL).seconds
    (3.0, 2.02)
    """
    if definition == ALL:
        return Sum(osl * gap, "OSL x TPOT")
    count, told = (osl - 1, "TTFT + (OSL - 1) x TPOT") if definition == GAPS else (osl, "TTFT + OSL x TPOT")
    return Sum(ttft + count * gap, told)


def tokens_of(run: Run, side: str) -> float | None:
    """Return the tokens of a request's ``side`` (input or output) on average; None where they are not stated."""
    return run.number(f"mean_{side}_tokens") or run.number(f"{side}_tokens")
