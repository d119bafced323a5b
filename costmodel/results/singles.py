"""The lists of single requests that a client saves: whether they can be read, and agree with each other and the means.

Figures are the client's own; of lists that are wrong a reader must know, since diagnoses and replays are of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from ..errors import shorten
from .documents import kind_of
from .sheet import Sheet

_LENGTHS = ("input_lens", "output_lens")
_TIMES = ("ttfts", "latencies", "start_times")
_GAPS = "itls"
#: Lists of times, seconds, and the field with their mean, milliseconds.
_MEANS = {"ttfts": "mean_ttft_ms", "latencies": "mean_e2el_ms"}
#: Relative difference of a mean and its list up to which they agree.
_AGREE = 0.02


def check_singles(sheet: Sheet) -> None:
    """Warn by name of lists of single requests that are no lists of times, of different lengths, or of another unit."""
    lists = {}
    for key in (*_LENGTHS, *_TIMES, _GAPS):
        value = sheet.fields.get(key)
        problem = None if value is None else _problem(key, value)
        if problem:
            sheet.warn(f"{key}: {problem}; single requests cannot be read")
        elif isinstance(value, list):
            lists[key] = value
    counts = {key: len(value) for key, value in lists.items()}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{key} {count:,}" for key, count in counts.items())
        sheet.warn(f"lists of single requests have different lengths ({told}): they cannot be read")
    else:
        _check_means(sheet, lists)


def _problem(key: str, value: object) -> str | None:
    """What is wrong with a list; None where nothing is."""
    if not isinstance(value, list):
        return f"{kind_of(value)}, not a list"
    if key == _GAPS and value and not any(isinstance(entry, list | None) for entry in value):
        return "no list of gaps for each request, but one list of all"
    for place, entry in enumerate(value, 1):
        for time in entry if key == _GAPS and isinstance(entry, list) else [entry]:
            if time is not None and not _is_time(time):
                said = shorten(str(time)) if isinstance(time, str | float | int) else kind_of(time)
                return f"entry {place} has {said}, which is no {'length' if key in _LENGTHS else 'time'}"
    return None


def _is_time(value: object) -> bool:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
    )


def _check_means(sheet: Sheet, lists: Mapping[str, Sequence[float | None]]) -> None:
    """Warn where times of single requests do not have the mean that the result states."""
    errors = sheet.fields.get("errors")
    for key, field in _MEANS.items():
        told, values = sheet.fields.get(field), lists.get(key, ())
        failed = errors if isinstance(errors, list) and len(errors) == len(values) else [None] * len(values)
        good = [value for value, error in zip(values, failed) if value and not error]
        if not good or not isinstance(told, int | float) or not told > 0:
            continue
        mean = fmean(good) * 1e3
        if abs(mean / told - 1) > _AGREE:
            unit = ": the list is not in seconds" if abs(mean / told / 1e3 - 1) <= _AGREE else ""
            sheet.warn(f"{key}: their mean is {mean:,.4g} ms, {field} says {told:,.4g} ms{unit}")
