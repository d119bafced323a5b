"""Arrival times as files write them: numbers of a unit, or dates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

#: Latest time that is followed: three centuries.
LATEST_S = 1e10
#: Plain decimal numbers: float() also reads separators, other scripts' digits, "nan" and "inf".
_NUMBER = re.compile(r"\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,7})?(Z|[+-]\d\d:\d\d)?", re.ASCII)
_SHORTEST_DATE = len("2023-11-16 18:15:46")


def plain(texts: Sequence[str]) -> bool:
    """True where float() and int() read these texts as the careful patterns do, or fail, or leave the bounds."""
    joined = "".join(texts)
    return joined.isascii() and not any(odd in joined for odd in "_+-")


class Seconds:
    """Times that are numbers; ``per_second`` of their unit make a second."""

    def __init__(self, per_second: float = 1.0) -> None:
        self.per_second = per_second
        unit = " s" if per_second == 1 else ""
        self.expected = f"a time from 0{unit} to {LATEST_S * per_second:g}{unit}"

    def one(self, text: str) -> float | None:
        """Seconds of a text, None where it is no such time."""
        time = float(text) / self.per_second if _NUMBER.fullmatch(text) else LATEST_S * 2
        return time if time <= LATEST_S else None

    def many(self, texts: Sequence[str]) -> list[float]:
        """Seconds of many texts; ValueError where any of them needs a careful look."""
        if not plain(texts):
            raise ValueError
        times = list(map(float, texts))
        return times if self.per_second == 1 else [time / self.per_second for time in times]


class Dates:
    """Times that are dates, counted from the first one asked for. A seventh digit (100 ns) is dropped."""

    expected = "a date and time such as 2023-11-16 18:15:46.68, all of them with a time zone or none"

    def __init__(self) -> None:
        self._first: datetime | None = None

    def one(self, text: str) -> float | None:
        """Seconds after the first date (negative: before it), None where it is no date or zones are mixed."""
        if not _DATE.fullmatch(text):
            return None
        try:
            return self._since(datetime.fromisoformat(text))
        except (ValueError, TypeError):
            return None

    def many(self, texts: Sequence[str]) -> list[float]:
        """Seconds of many texts; ValueError or TypeError where any of them needs a careful look."""
        if min(map(len, texts)) < _SHORTEST_DATE:
            raise ValueError
        return [self._since(date) for date in map(datetime.fromisoformat, texts)]

    def _since(self, date: datetime) -> float:
        if self._first is None:
            self._first = date
        return (date - self._first).total_seconds()


Clock = Seconds | Dates
