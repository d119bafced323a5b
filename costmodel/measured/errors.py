"""Errors of predictions: their size and sign over runs, fitted and held out apart, by regime."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from .table import Array, Mask


@dataclass(frozen=True)
class ErrorRow:
    """Errors of ``n`` predictions as fractions: mean, median, 90th percentile and largest of their size, and
    their mean with its sign. ``below_bound`` predictions, ``measured_below_bound`` measured times, are faster than
    physics allows.

    ``covered``: share of them whose band holds the measured time; ``width``: the median factor from best to its edge.
    ``measured_rows``: rows of the file behind them. ``fit``: whose parameters predicted.
    """

    kind: str
    gpu: str
    stack: str
    split: str
    regime: str
    n: int
    mape: float
    median: float
    p90: float
    bias: float
    worst: float
    measured_rows: int
    below_bound: int | None = None
    measured_below_bound: int | None = None
    covered: float | None = None
    width: float | None = None
    fit: str = ""


def summary(errors: Array) -> dict[str, float]:
    """Return mean, median, P90 and largest size of errors, and their mean."""
    sizes = np.abs(errors)
    return {
        "mape": float(np.mean(sizes)),
        "median": float(np.median(sizes)),
        "p90": float(np.quantile(sizes, 0.9, method="inverted_cdf")),
        "worst": float(np.max(sizes)),
        "bias": float(np.mean(errors)),
    }


def by_regime(errors: Array, chosen: Mask, regimes: Mapping[str, Mask]) -> Iterable[tuple[str, Array]]:
    """Return the chosen errors of each regime that has any; ``all`` first."""
    for name, members in {"all": np.ones(len(errors), dtype=bool), **regimes}.items():
        found = errors[chosen & members]
        if len(found):
            yield name, found
