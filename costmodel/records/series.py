"""Tables of a report, written as series: one metric over several values of a condition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import shorten

#: Keys of a series beside those of a measurement.
OVER, AT, VALUES = "over", "at", "values"


def expanded(series: Any, problems: list[str]) -> list[Mapping[str, Any]]:
    """Return the measurements of [[series]] tables; ``problems`` gets what cannot be one.

    ``over`` is a condition, ``at`` its values and ``values`` those of the metric, as many of them; a figure is called
    after the series' ``id`` and its place in it, as in ``prefill-2048``. All other keys hold for every figure.

    >>> table = {"id": "a", "metric": "ttft", "unit": "s", "over": "batch", "at": [1, 2], "values": [3, 4]}
    >>> rows = expanded([table], [])
    >>> [(row["id"], row["batch"], row["value"]) for row in rows]
    [('a-1', 1, 3), ('a-2', 2, 4)]
    """
    if not isinstance(series, list) or not all(isinstance(table, dict) for table in series):
        problems.append("series: expected [[series]] tables")
        return []
    return [row for number, table in enumerate(series, 1) for row in _rows(table, number, problems)]


def _rows(table: Mapping[str, Any], number: int, problems: list[str]) -> list[Mapping[str, Any]]:
    label = str(table.get("id") or f"series {number}")
    over, at, values = table.get(OVER), table.get(AT), table.get(VALUES)
    if not isinstance(over, str) or not isinstance(at, list) or not isinstance(values, list):
        problems.append(
            f"{label}: a series needs over (a condition), at (its values) and values (those of the metric)"
        )
        return []
    if len(at) != len(values):
        problems.append(f"{label}: {len(at)} values of {shorten(over)} in at, but {len(values)} in values")
        return []
    rest = {key: value for key, value in table.items() if key not in (OVER, AT, VALUES)}
    return [rest | {"id": f"{label}-{x}", over: x, "value": value} for x, value in zip(at, values)]
