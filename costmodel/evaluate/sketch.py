"""Quantiles of any number of values in constant memory: DDSketch, fed by arrays.

DDSketch bounds the error of a value, also between two modes and in heavy tails, where sketches that bound
the error of a rank (KLL, REQ, t-digest) do not. It draws no random numbers: the same run gives the same figures.
"""

from __future__ import annotations

import math
from importlib.metadata import version

import numpy as np
from ddsketch import DDSketch

from .columns import Array

#: Largest relative error of a quantile: the bins of values are this wide to either side.
ERROR = 0.001
#: Seconds; anything nearer to zero is rounding, and would cost thousands of bins.
_TINY = 1e-9
_WIDTH = math.log((1 + ERROR) / (1 - ERROR))


def label() -> str:
    """Return what the quantiles are, with the library and its version."""
    return f"sketch, relative error at most {ERROR * 100:g} % (ddsketch {version('ddsketch')})"


class Sketch:
    """Counts of values in log-spaced bins, of either sign; sketches merge without loss."""

    def __init__(self) -> None:
        self._sketch = DDSketch(ERROR)
        self._low, self._high = math.inf, -math.inf

    @property
    def count(self) -> int:
        """Values added."""
        return int(self._sketch.count)

    def add(self, values: Array) -> None:
        """Add values (seconds); those nearer to zero than a nanosecond count as zero."""
        if not len(values):
            return
        self._low, self._high = min(self._low, float(values.min())), max(self._high, float(values.max()))
        zeros = len(values)
        for sign in (1.0, -1.0):
            part = values[values > _TINY] if sign > 0 else -values[values < -_TINY]
            zeros -= len(part)
            # one call a bin instead of one a value: a bin's middle falls into the same bin again
            bins, counts = np.unique(np.ceil(np.log(part) / _WIDTH), return_counts=True)
            middles = sign * np.exp((bins - 0.5) * _WIDTH)
            for middle, count in zip(middles.tolist(), counts.tolist()):
                self._sketch.add(middle, count)
        if zeros:
            self._sketch.add(0.0, zeros)

    def merge(self, other: Sketch) -> None:
        """Add the values of another sketch."""
        self._sketch.merge(other._sketch)
        self._low, self._high = min(self._low, other._low), max(self._high, other._high)

    def quantile(self, share: float) -> float:
        """Return the sample quantile as ``summary.quantile`` defines it, within 0.1 % of its value.

        At least one value must have been added.
        """
        rank = max(1, math.ceil(share * self.count))
        # the library takes ranks from 0 to count - 1; half a rank off, rounding cannot reach the next
        asked = min(1.0, (rank - 0.5) / max(1, self.count - 1))
        found = self._sketch.get_quantile_value(asked)
        assert found is not None
        return min(max(found, self._low), self._high)
