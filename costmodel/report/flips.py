"""What flips the verdict, beside what moves P95 TTFT: share is not leverage."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from ..decision.results import Elasticity, Flip, Recommendation
from ..units import format_si
from .page import Table

STATISTICS = {"ttft_p95": "P95 TTFT", "ttft_mean": "mean TTFT"}
_SHORTER = {"disaggregated": "disagg.", "remote prefill": "remote", "local prefill": "local"}


def amount(value: float, unit: str) -> str:
    """Return a value of a flip in its unit.

    >>> amount(22e9, "bytes_per_s"), amount(2236.7, "tokens"), amount(10.4, "per_instance")
    ('22 GB/s', '2,237 tok', '10.4 /inst.')
    """
    if unit == "bytes_per_s":
        return format_si(value, "byte/second")
    if unit == "tokens":
        return f"{value:,.0f} tok"
    if unit == "per_s":
        return format_si(value, "1/second")
    return (f"{value:.0f}" if value >= 100 else f"{value:.3g}") + (
        " /inst." if unit == "per_instance" else ""
    )


def _between(flip: Flip) -> str:
    """Return the range that was searched.

    >>> _between(Flip("token budget", "tokens", 2048.0, None, None, 256.0, 16384.0))
    '256..16k tok'
    """
    if flip.unit == "tokens":
        low, high = (f"{v / 1000:.0f}k" if v >= 10_000 else f"{v:.0f}" for v in (flip.low, flip.high))
        return f"{low}..{high} tok"
    low, high = amount(flip.low, flip.unit), amount(flip.high, flip.unit)
    return f"{low.removesuffix(' /s').removesuffix(' /inst.')}..{high}"


def flips_at(flip: Flip) -> str:
    """Return where a flip lies, or the range in which there is none."""
    if flip.flips_at is not None:
        return amount(flip.flips_at, flip.unit)
    if flip.now is None:
        return "unknown"
    return f"never in {_between(flip)}"


def sides(flip: Flip) -> str:
    """Return what is best now and what beyond the flip."""
    if flip.to is None:
        return _SHORTER.get(flip.now or "", flip.now or "-")
    ends = (_SHORTER.get(side, side) for side in (flip.now or "-", flip.to))
    return "->".join(ends)


def change(elasticity: Elasticity) -> str:
    """Return how far the statistic moves."""
    value = elasticity.ttft_p95_change
    if value is None:
        return "unknown"
    text = f"{value:+.1%}".replace("%", " %")
    return "0 %" if float(text[:-2]) == 0 else text


def flipped(answer: Recommendation) -> str:
    """Return what the flips turn over: they rest on mean delays, whatever the verdict's objective."""
    return "flips the verdict" if answer.objective == "mean_delay" else "flips the mean delay"


def beside(answer: Recommendation) -> Table:
    """Return flips and elasticities side by side."""
    moved = STATISTICS[answer.elasticities[0].statistic] if answer.elasticities else None
    rows = []
    for flip, lever in zip_longest(answer.flips, answer.elasticities):
        left = ("",) * 4
        if flip is not None:
            at = "-" if flip.at is None else amount(flip.at, flip.unit)
            left = (flip.name, at, flips_at(flip), sides(flip))
        right = (
            ("", "") if lever is None else (f"{lever.name} {lever.step.replace(' %', '%')}", change(lever))
        )
        rows.append((*left, *(right if moved else ())))
    headers = (flipped(answer), "you are at", "flips at", "better now->then")
    more = (f"moves {moved}", "by") if moved else ()
    return Table((*headers, *more), tuple(rows), (False,) * (6 if moved else 4))


def unknowns(items: Sequence[Flip | Elasticity]) -> list[str]:
    """Return why some of them are unknown, each reason once."""
    reasons = [
        item.reason
        for item in items
        if item.reason
        and (item.ttft_p95_change is None if isinstance(item, Elasticity) else item.now is None)
    ]
    return list(dict.fromkeys(reasons))
