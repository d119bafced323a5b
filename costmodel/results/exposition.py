"""The text format of Prometheus: samples by name and labels."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from ..errors import InputError, shorten

_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?[0-9]+)?\s*")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_LONGEST = 100_000


class Sample(NamedTuple):
    """A value with its labels and the line it stands in."""

    name: str
    labels: Mapping[str, str]
    value: float
    line: int


def samples_of(text: str, prefixes: tuple[str, ...], where: str) -> Iterator[Sample]:
    """Yield the samples whose names start with one of ``prefixes``. Raises InputError for a line that is none."""
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith(prefixes):
            continue
        match = _SAMPLE.fullmatch(line) if len(line) < _LONGEST else None
        value = _value(match[3]) if match else None
        labels = _labels(match[2] or "") if match else None
        if match is None or value is None or labels is None:
            raise InputError(
                f"line {number}: {shorten(line)!r} is no metric with labels and a number", where=where
            )
        yield Sample(match[1], labels, value, number)


def _value(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _labels(text: str) -> dict[str, str] | None:
    found, at = {}, 0
    while at < len(text):
        match = _LABEL.match(text, at)
        if match is None:
            return None
        found[match[1]] = match[2]
        at = match.end()
    return found


class Histogram:
    """Counts of a histogram by the upper ends of its buckets, summed over what its labels tell apart."""

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0.0
        self.buckets: dict[float, float] = {}

    def add(self, part: str, sample: Sample, where: str) -> None:
        """Add a sample of its sum, its count or a bucket. Raises InputError for a negative or unreal one."""
        if not 0 <= sample.value < math.inf:
            raise InputError(
                f"line {sample.line}: {sample.name} {sample.value} is not a number of at least 0", where=where
            )
        if part == "sum":
            self.total += sample.value
        elif part == "count":
            self.count += sample.value
        else:
            end = _value(sample.labels.get("le", ""))
            if end is None or math.isnan(end):
                raise InputError(f"line {sample.line}: {sample.name} has no bound (le)", where=where)
            self.buckets[end] = self.buckets.get(end, 0.0) + sample.value

    def problem(self) -> str | None:
        """Return what contradicts itself: buckets that shrink, or do not end at the count."""
        ends = [self.buckets[end] for end in sorted(self.buckets)]
        if any(later < earlier for earlier, later in pairwise(ends)):
            return "its buckets shrink"
        if ends and ends[-1] != self.count:
            return f"its last bucket has {ends[-1]:g}, its count is {self.count:g}"
        return None

    def between(self, share: float) -> tuple[float, float] | None:
        """Return the ends of the bucket in which so large a share of the values is reached; None where none are."""
        below = 0.0
        for end in sorted(self.buckets):
            if self.buckets[end] >= share * self.count > 0:
                return below, end
            below = end
        return None
