"""Statistics of a run whose values are all kept: sample quantiles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .batches import FEWEST, Batch
from .columns import Array, Columns, joined
from .summary import Stages, around_p95, quantile, scaled

#: A batch with fewer requests has no P95 of its own.
_SMALLEST = 20


class Kept:
    """Columns of all requests, 8 bytes a value."""

    label = "exact"

    def __init__(self) -> None:
        self._blocks: list[Columns] = []
        self.count = 0

    def add(self, columns: Columns) -> None:
        """Add requests, in the order of finishing."""
        self._blocks.append(columns)
        self.count += len(columns)

    def take(self) -> Columns:
        """Return all requests (at least one) and forget them."""
        whole, self._blocks, self.count = self._whole(), [], 0
        return whole

    def _whole(self) -> Columns:
        if len(self._blocks) > 1:
            self._blocks = [joined(self._blocks)]
        return self._blocks[0]

    def quantiles(self, name: str, shares: Sequence[float]) -> list[float]:
        """Return sample quantiles of one column of values."""
        ordered = np.sort(self._whole().values[name])
        return [_at(ordered, share) for share in shares]

    def p95_stages(self) -> Stages:
        """Return what ``summary.p95_stages`` does."""
        whole = self._whole()
        ttft = whole.values["ttft"]
        order = np.argsort(ttft, kind="stable")
        low, at, high = around_p95(self.count)
        near = order[low : high + 1]
        means = {name: float(column[near].mean()) for name, column in whole.stages.items()}
        return scaled(float(ttft[order[at]]), means)

    def batches(self) -> list[Batch]:
        """Return the figures of eight equal batches; none below 20 requests a batch."""
        whole, size = self._whole(), self.count // FEWEST
        if size < _SMALLEST:
            return []
        parts = [slice(i * size, (i + 1) * size) for i in range(FEWEST)]
        ttft, delay = whole.values["ttft"], whole.values["delay"]
        return [
            Batch(float(whole.met[part].mean()), float(delay[part].mean()), _at(np.sort(ttft[part]), 0.95))
            for part in parts
        ]


def _at(ordered: Array, share: float) -> float:
    return float(quantile(ordered, share))  # type: ignore[arg-type]
