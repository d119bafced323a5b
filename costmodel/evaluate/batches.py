"""Consecutive batches of a run: standard errors of figures whose requests are not independent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import stdev

from .columns import Array, Columns
from .sketch import Sketch

FEWEST, MOST = 8, 16
#: Two-sided 95 % quantiles of Student's t with one degree of freedom less than batches.
STUDENT = {8: 2.365, 9: 2.306, 10: 2.262, 11: 2.228, 12: 2.201, 13: 2.179, 14: 2.160, 15: 2.145}


@dataclass(frozen=True)
class Batch:
    """Figures of one batch: attainment, mean delay and P95 TTFT."""

    attainment: float
    delay_s: float
    ttft_p95_s: float


def error(values: Sequence[float]) -> float:
    """Return the standard error of a figure from its values in two or more batches."""
    return stdev(values) / math.sqrt(len(values))


@dataclass
class _Sums:
    """A batch that still grows."""

    count: int = 0
    met: float = 0.0
    delay: float = 0.0
    ttft: Sketch = field(default_factory=Sketch)

    def add(self, ttft: Array, delay: Array, met: Array) -> None:
        self.count += len(met)
        self.met += float(met.sum())
        self.delay += float(delay.sum())
        self.ttft.add(ttft)

    def merge(self, other: _Sums) -> None:
        self.count += other.count
        self.met += other.met
        self.delay += other.delay
        self.ttft.merge(other.ttft)


class Batches:
    """Eight to fifteen full batches of one size: at sixteen, neighbours merge and the size doubles."""

    def __init__(self, size: int) -> None:
        self._size, self._full, self._open = size, list[_Sums](), _Sums()

    def add(self, columns: Columns) -> None:
        """Add requests, in the order of finishing."""
        start, count = 0, len(columns)
        while start < count:
            rows = slice(start, min(count, start + self._size - self._open.count))
            values = columns.values
            self._open.add(values["ttft"][rows], values["delay"][rows], columns.met[rows])
            if self._open.count == self._size:
                self._close()
            start = rows.stop

    def _close(self) -> None:
        self._full.append(self._open)
        self._open = _Sums()
        if len(self._full) == MOST:
            for left, right in zip(self._full[::2], self._full[1::2]):
                left.merge(right)
            del self._full[1::2]
            self._size *= 2

    def figures(self) -> list[Batch]:
        """Return the figures of the full batches; the last requests, short of one, are in none."""
        return [Batch(b.met / b.count, b.delay / b.count, b.ttft.quantile(0.95)) for b in self._full]
