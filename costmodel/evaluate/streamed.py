"""Statistics of a run of any length in constant memory: sketches of quantiles, bins of TTFT, growing batches."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .batches import Batch, Batches
from .columns import Columns
from .sketch import Sketch, label
from .summary import Stages, around_p95, scaled

#: Bins of TTFT: 0.5 % wide, from a microsecond to 12 days; the outer two take what lies beyond.
_FIRST, _WIDTH, _BINS = 1e-6, math.log(1.005), 5600


class StageBins:
    """Requests and the sums of their stages, by TTFT."""

    def __init__(self) -> None:
        self._counts = np.zeros(_BINS)
        self._sums: dict[str, np.ndarray] = {}

    def add(self, columns: Columns) -> None:
        """Add requests."""
        ttft = np.maximum(columns.values["ttft"], _FIRST)
        bins = np.minimum(np.log(ttft / _FIRST) / _WIDTH, _BINS - 1).astype(int)
        self._counts += np.bincount(bins, minlength=_BINS)
        for name, column in columns.stages.items():
            sums = self._sums.setdefault(name, np.zeros(_BINS))
            sums += np.bincount(bins, weights=column, minlength=_BINS)

    def means(self, low: int, high: int) -> dict[str, float]:
        """Return the mean stages of the requests from rank ``low`` to ``high`` of TTFT, counted from 0.

        A bin that lies partly within counts by its share.
        """
        upper = np.cumsum(self._counts)
        inside = np.minimum(upper, high + 1) - np.maximum(upper - self._counts, low)
        shares = np.maximum(inside, 0) / np.maximum(self._counts, 1)
        return {name: float(shares @ sums) / (high + 1 - low) for name, sums in self._sums.items()}


class Streamed:
    """Sketches, bins and batches of all requests added; needs thousands to be worth it."""

    def __init__(self, batch: int) -> None:
        self.label = label()
        self._sketches: dict[str, Sketch] = {}
        self._bins, self._batches = StageBins(), Batches(batch)

    def add(self, columns: Columns) -> None:
        """Add requests, in the order of finishing."""
        for name, column in columns.values.items():
            self._sketches.setdefault(name, Sketch()).add(column)
        self._bins.add(columns)
        self._batches.add(columns)

    def quantiles(self, name: str, shares: Sequence[float]) -> list[float]:
        """Return quantiles of one column of values, within 0.1 % each."""
        return [self._sketches[name].quantile(share) for share in shares]

    def p95_stages(self) -> Stages:
        """Return P95 TTFT with the mean stages of the requests at P94 to P96, scaled to add up to it."""
        ttft = self._sketches["ttft"]
        low, _, high = around_p95(ttft.count)
        return scaled(ttft.quantile(0.95), self._bins.means(low, high))

    def batches(self) -> list[Batch]:
        """Return the figures of eight to fifteen consecutive batches of one size."""
        return self._batches.figures()
