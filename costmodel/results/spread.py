"""Mean and percentiles of times that a result lists request by request."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..records.record import Stated
from .sheet import Sheet

#: Percentiles that are told.
PERCENTILES = (50, 90, 95, 99)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return a percentile of ordered values, on the straight line between the two about it."""
    place = (len(ordered) - 1) * percent / 100
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def add_spread(sheet: Sheet, metric: str, key: str, conditions: Mapping[str, Stated] | None = None) -> None:
    """Add mean and percentiles of a list of seconds, one a request; requests that are null have none."""
    values = sheet.take(key)
    if not isinstance(values, list):
        if values is not None:
            sheet.note(f"{key}: not a list of times")
        return
    numbers = [
        number
        for place, value in enumerate(values, 1)
        if (number := sheet.checked(f"{key}, entry {place}", value, 1e10)) is not None
    ]
    if not sheet.problems:
        add_figures(sheet, metric, key, numbers, conditions)


def add_figures(
    sheet: Sheet,
    metric: str,
    key: str,
    seconds: Sequence[float],
    conditions: Mapping[str, Stated] | None = None,
) -> None:
    """Add mean and percentiles of seconds; none of them, nothing."""
    if not seconds:
        return
    ordered = sorted(seconds)
    told = {"mean": sum(ordered) / len(ordered)}
    told |= {f"p{percent}": percentile(ordered, percent) for percent in PERCENTILES}
    for statistic, value in told.items():
        text = f"{value:.6g} s, {statistic} of {len(ordered):,}"
        sheet.figure(metric, key, value, "s", statistic, conditions=conditions, text=text)
