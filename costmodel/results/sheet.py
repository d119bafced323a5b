"""Reads the fields of one run: what was understood, what was not, and every problem at once."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from ..errors import InputError, shorten
from ..records.record import Figure, Record, Stated
from ..records.vocabulary import CONDITIONS, METRICS, UNSTATED
from ..units import parse
from .documents import Fields, kind_of


class Unit(NamedTuple):
    """A unit of results: its dimension, and what a value is multiplied with and divided by to be SI."""

    dimension: str
    times: float = 1.0
    over: float = 1.0


UNITS = {
    "ns": Unit("second", over=1e9),
    "us": Unit("second", over=1e6),
    "ms": Unit("second", over=1e3),
    "s": Unit("second"),
    "req/s": Unit("1/second"),
    "tok/s": Unit("token/second"),
    "tokens": Unit("token"),
    "B": Unit("byte"),
    "KB": Unit("byte", 1e3),
    "MB": Unit("byte", 1e6),
    "GB": Unit("byte", 1e9),
    "GiB": Unit("byte", 2.0**30),
    "B/s": Unit("byte/second"),
    "MB/s": Unit("byte/second", 1e6),
    "GB/s": Unit("byte/second", 1e9),
    "%": Unit("1", over=1e2),
    "": Unit("1"),
}
#: Largest values that mean anything, in SI; times of three centuries.
_MOST = {"second": 1e10, "1": 1e15, "byte": 1e18, "byte/second": 1e18}
_MOST_ELSE = 1e15
#: Entries of a list, and characters of a text, that are kept where nothing understands them.
_LIST, _TEXT = 5, 2000
_STATISTICS = {"avg": "mean", "average": "mean", "median": "p50"}
_PERCENTILE = re.compile(r"p([0-9]{1,2}(?:\.[0-9]+)?|100)")
_SAME = 1e-6
#: Counts that may be none: of all others 0 states nothing.
_MAY_BE_NONE = ("cached_tokens", "input_tokens", "output_tokens")


def statistic(word: str) -> str | None:
    """Return mean, std, min, max, p50, ...; None for a word that is no statistic."""
    word = _STATISTICS.get(word, word)
    return word if word in ("mean", "std", "min", "max") or _PERCENTILE.fullmatch(word) else None


class Sheet:
    """One run that is being read: fields by name, what they said, and what is wrong with them.

    Fields that are null state nothing. :meth:`record` raises all problems as one InputError.
    """

    def __init__(self, fields: Fields, where: str, at: str = "") -> None:
        self.fields, self.where, self.at = fields, where, at
        self.conditions: dict[str, Stated] = {}
        self.figures: dict[tuple[object, ...], Figure] = {}
        self.warnings: list[str] = []
        self.problems: list[str] = []
        self._read: set[str] = set()

    def note(self, problem: str) -> None:
        """Note a problem once."""
        if problem not in self.problems:
            self.problems.append(problem)

    def warn(self, warning: str) -> None:
        """Note what a reader must know."""
        if warning not in self.warnings:
            self.warnings.append(warning)

    def take(self, key: str) -> object:
        """Return a field, which counts as read; None where it is not there."""
        self._read.add(key)
        return self.fields.get(key)

    def has(self, key: str) -> bool:
        """Say whether a field states something."""
        return self.fields.get(key) is not None

    def text(self, key: str) -> str | None:
        """Return a field that is a text; None where it is not there or says that it is not known."""
        value = self.take(key)
        if value is not None and not isinstance(value, str):
            self._wrong(key, value, "a text")
            return None
        return None if value is None or value.strip().lower() in UNSTATED else value.strip()

    def number(self, key: str, most: float = _MOST_ELSE) -> float | None:
        """Return a field that is a number from 0 to ``most``; None where it is not there."""
        return self.checked(key, self.take(key), most)

    def checked(self, key: str, value: object, most: float = _MOST_ELSE) -> float | None:
        """Return a value found under ``key`` that is a number from 0 to ``most``, else None and a problem."""
        if value is None:
            return None
        good = isinstance(value, int | float) and not isinstance(value, bool)
        if not good or not 0 <= value <= most:  # type: ignore[operator]
            self._wrong(key, value, f"a number from 0 to {most:g}")
            return None
        return float(value)  # type: ignore[arg-type]

    def count(self, key: str) -> int | None:
        """Return a field that is a whole number of at least 0; None where it is not there."""
        number = self.number(key)
        if number is not None and number != int(number):
            self._wrong(key, self.fields[key], "a whole number of at least 0")
            return None
        return None if number is None else int(number)

    def counts(self, key: str) -> list[int] | None:
        """Return a list of whole numbers of at least 0; None where it is not there."""
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, list):
            self._wrong(key, value, "a list of whole numbers")
            return None
        wrong = [v for v in value if not isinstance(v, int) or isinstance(v, bool) or not 0 <= v < _MOST_ELSE]
        if wrong:
            self._wrong(f"{key}, entry {value.index(wrong[0]) + 1}", wrong[0], "a whole number of at least 0")
            return None
        return value

    def state(self, name: str, value: object, said: str) -> bool:
        """State a condition, as the field ``said`` has it: False where the value is none of its kind.

        A text that says that it is not known, or null, states nothing. A contradiction is a problem.
        """
        found = _stated(name, value)
        if found is None:
            return value is None or str(value).strip().lower() in UNSTATED
        before = self.conditions.setdefault(name, found)
        if before != found:
            self.note(
                f"{said} says {name} {shorten(str(found))!r}, but {shorten(str(before))!r} stands there too"
            )
        return True

    def figure(
        self,
        metric: str,
        key: str,
        value: object,
        unit: str,
        statistic: str | None = None,
        *,
        high: float | None = None,
        conditions: Mapping[str, Stated] | None = None,
        note: str | None = None,
        text: str | None = None,
        per_gpu: bool = False,
        again: object = None,
    ) -> None:
        """Add a figure, whose value stands under ``key`` in ``unit``; ``high`` likewise.

        Two of one metric, statistic and conditions that differ are a problem, unless ``again`` tells them apart.
        """
        dimension, times, over = UNITS[unit]
        number = self.checked(key, value, _MOST.get(dimension, _MOST_ELSE) * over / times)
        if number is None:
            return
        known = METRICS.get(metric)
        scaled = [None if one is None else one * times / over for one in (number, high)]
        found = Figure(
            name=key,
            metric=metric,
            value=float(scaled[0] or 0.0) if known else number,
            dimension=known.dimension if known else None,
            text=text or f"{_plain(value)} {unit}".strip(),
            unit=unit,
            statistic=statistic,
            high=scaled[1] if known else high,
            conditions=dict(conditions or {}),
            note=note,
            per_gpu=per_gpu,
        )
        place = (metric, statistic, per_gpu, again, *sorted(found.conditions.items()))
        before = self.figures.setdefault(place, found)
        if not math.isclose(before.value, found.value, rel_tol=_SAME, abs_tol=1e-12):
            self.note(
                f"{key} ({found.text}) and {before.name} ({before.text}) both say {metric}"
                f"{f' {statistic}' if statistic else ''}, and differ: fields of two versions or runs"
            )

    def unread(self) -> dict[str, object]:
        """Return the fields that nothing understood; long lists and texts by their length."""
        left = {key: value for key, value in self.fields.items() if key not in self._read}
        return {key: short(value) for key, value in left.items() if value is not None}

    def record(self, name: str, form: str, title: str | None = None) -> Record:
        """Return what was read. Raises InputError with every problem."""
        if self.problems:
            prefix = f"{self.at}: " if self.at else ""
            raise InputError([prefix + problem for problem in self.problems], where=self.where)
        return Record(
            name=f"{name}, {self.at}" if self.at else name,
            where=f"{self.where}, {self.at}" if self.at else self.where,
            form=form,
            figures=tuple(self.figures.values()),
            conditions=self.conditions,
            confidence="primary",
            title=title,
            unread=self.unread(),
            warnings=tuple(self.warnings),
        )

    def _wrong(self, key: str, value: object, expected: str) -> None:
        shown = shorten(_plain(value)) if not isinstance(value, dict | list) else kind_of(value)
        self.note(
            f"{key}: {shown!r} is not {expected}"
            if isinstance(value, str)
            else f"{key}: {shown} is not {expected}"
        )


def short(value: object) -> object:
    """Return a value as it stands, but a long list or text by its length."""
    if isinstance(value, list) and (len(value) > _LIST or any(isinstance(v, dict | list) for v in value)):
        return f"a list of {len(value):,}"
    if isinstance(value, str) and len(value) > _TEXT:
        return f"a text of {len(value):,} characters"
    if isinstance(value, dict):
        return {key: short(inner) for key, inner in value.items() if inner is not None}
    return value


def _plain(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _stated(name: str, value: object) -> Stated | None:
    """Return a value as its condition wants it; None where it states nothing or is not of that kind."""
    kind = CONDITIONS[name].kind
    if value is None or isinstance(value, dict | list | bool) or str(value).strip().lower() in UNSTATED:
        return None
    text = str(value).strip()
    if kind == "text":
        return text
    try:
        bare = kind == "count" or kind == "number" or not isinstance(value, str)
        number = float(text) if bare else parse(text, kind, name)  # type: ignore[arg-type]
    except (ValueError, InputError):
        return None
    least = 1 if kind == "count" and name not in _MAY_BE_NONE else 0
    if not least <= number <= _MOST_ELSE or (kind == "count" and number != int(number)):
        return None
    return int(number) if kind == "count" else number


#: Names of conditions by what others call them.
BY_ALIAS = {alias: name for name, condition in CONDITIONS.items() for alias in (name, *condition.aliases)}
