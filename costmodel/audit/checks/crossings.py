"""Two series of one report over the same condition: from where on one is the quicker, or the higher."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

from ..case import Case
from ..finding import Inversion
from ..runs import Series
from .trends import line

_RECOMPUTED, _FETCHED = ("prefill_time",), ("kv_transfer_time", "load_time")
#: Conditions by which two series may differ and still be ways to do the same.
_WAYS = ("strategy", "topology", "scenario", "connector", "cache_state", "engine_flags", "link", "engine",
         "engine_version", "engine_changes", "max_num_batched_tokens", "hardware", "instances", "prefill_tp",
         "decode_tp", "nics")  # fmt: skip
_UNITS = {"input_tokens": "tokens", "arrival_rate": "per_s", "payload": "bytes"}


def invert_crossings(case: Case) -> Iterator[Inversion]:
    """Say where two series cross; for a fetch against computing again also that they never do."""
    for first, second in combinations(case.series, 2):
        if first.varies != second.varies or _predicted(first) or _predicted(second):
            continue
        if _fetch(first, second) or _fetch(second, first):
            yield _crossing(first, second, always=True) or _never(first, second)
        elif first.metric == second.metric and first.statistic == second.statistic and _way(first, second):
            found = _crossing(first, second, always=False)
            if found is not None:
                yield found


def _predicted(series: Series) -> bool:
    return "predicted_by" in series.run.conditions


def _fetch(first: Series, second: Series) -> bool:
    return first.metric in _RECOMPUTED and second.metric in _FETCHED and first.statistic == second.statistic


def _way(first: Series, second: Series) -> str | None:
    """The one condition by which they differ."""
    a, b = first.run.conditions, second.run.conditions
    differing = [key for key in a.keys() | b.keys() if a.get(key) != b.get(key)]
    return differing[0] if len(differing) == 1 and differing[0] in _WAYS else None


def _names(first: Series, second: Series) -> tuple[str, str]:
    key = _way(first, second)
    if first.metric != second.metric or key is None:
        return first.metric, second.metric
    return tuple(str(s.run.conditions.get(key, "the other")) for s in (first, second))  # type: ignore[return-value]


def _common(first: Series, second: Series) -> list[tuple[float, float, float]]:
    a, b = ({x: figure.value for x, figure in series.points} for series in (first, second))
    return [(x, a[x], b[x]) for x in sorted(a.keys() & b.keys())]


def _crossing(first: Series, second: Series, always: bool) -> Inversion | None:
    points = _common(first, second)
    signs = [(x, a - b) for x, a, b in points if a != b]
    changes = [(low, high) for low, high in pairwise(signs) if (low[1] > 0) != (high[1] > 0)]
    if len(points) < 3 or len(changes) != 1:
        return None
    (x0, d0), (x1, d1) = changes[0]
    at = x0 + (x1 - x0) * d0 / (d0 - d1)
    left, right = _names(first, second)
    below = left if d0 < 0 else right
    said = f"{below} is the lower up to {at:,.4g} {first.varies}, the other beyond"
    told = f"differences {d0:+.4g} at {x0:g} and {d1:+.4g} at {x1:g}, a line between them"
    return Inversion(
        _quantity(first), at, (*first.names, *second.names), told, None, f"{left} against {right}: {said}"
    )


def _quantity(series: Series) -> str:
    return "break_even_" + _UNITS.get(series.varies, series.varies)


def _never(first: Series, second: Series) -> Inversion:
    """No change of sign: which one is always quicker in the measured range, and where fitted lines would meet."""
    names, quantity = (*first.names, *second.names), _quantity(first)
    points = _common(first, second)
    if len(points) < 2:
        return Inversion(quantity, None, names, None, None, "", "the two series have no two points in common")
    left, right = _names(first, second)
    quicker = left if points[0][1] < points[0][2] else right
    low, high = points[0][0], points[-1][0]
    (a0, a1, _), (b0, b1, _) = line([(x, a) for x, a, _ in points]), line([(x, b) for x, _, b in points])
    told, beyond = f"{left}: {a0:.4g} s + {a1:.4g} s a unit; {right}: {b0:.4g} s + {b1:.4g} s a unit", ""
    if a1 != b1:
        meet = (b0 - a0) / (a1 - b1)
        beyond = f"; the fitted lines would meet at {meet:,.0f}" if 0 < meet < low or meet > high else ""
    reason = f"{quicker} is the quicker at every measured {first.varies}, {low:g} to {high:g}{beyond}"
    return Inversion(quantity, None, names, told, None, "", reason)
