"""Means and percentiles that a result has as an object: {"mean": 1, "p50": 2} or {"avg": 1, "unit": "ms"}."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..records.record import Stated
from .lengths import SIDES
from .sheet import Sheet, statistic

_PERCENTILES = "percentiles"
_WORDS = {"std_dev": "std"}


def inner(value: object, *path: str | int) -> Any:
    """Return what stands at a path of keys and places; None where it does not stand there."""
    for key in path:
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and -len(value) <= key < len(value):
            value = value[key]
        else:
            return None
    return value


def add_distribution(
    sheet: Sheet,
    metric: str,
    key: str,
    found: object,
    unit: str,
    names: Mapping[str, str] | None = None,
    conditions: Mapping[str, Stated] | None = None,
    note: str | None = None,
) -> None:
    """Add a figure for each statistic of an object; ``names``: its words for percentiles. None, nothing.

    What counts no value is all zeros, and nothing is read of it.
    """
    if found is None:
        return
    if not isinstance(found, dict):
        sheet.note(f"{key}: not an object of statistics")
        return
    if found.get("count") == 0:
        return
    words = (
        {**found, **(found.get(_PERCENTILES) or {})} if isinstance(found.get(_PERCENTILES), dict) else found
    )
    for word, value in words.items():
        told = statistic((names or {}).get(word, _WORDS.get(word, word)))
        if told is not None:
            sheet.figure(metric, f"{key}.{word}", value, unit, told, conditions=conditions, note=note)


def state_distribution(sheet: Sheet, side: str, key: str, found: object) -> None:
    """State lengths of a side by their least, most and mean."""
    tokens, words = SIDES[side]
    if inner(found, "count") == 0:
        return
    low, high = (sheet.checked(f"{key}.{end}", inner(found, end)) for end in ("min", "max"))
    mean = next((inner(found, word) for word in ("mean", "avg") if inner(found, word) is not None), None)
    number = sheet.checked(f"{key}.mean", mean)
    if number is None:
        return
    if low is not None and low == high and low == int(low):
        sheet.state(tokens, int(low), key)
    elif low is not None and high is not None:
        sheet.state(words, f"{low:,.0f} to {high:,.0f} tokens, mean {number:,.0f}", key)
    else:
        sheet.state(words, f"mean {number:,.0f} tokens; the result does not say how they vary", key)
    sheet.figure(tokens, f"{key}.mean", number, "tokens", "mean")
