"""Fitting step times to what a log measured, by replaying it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np

from ..inputs.step_times import PERCENTILES, TIMES, Steps
from ..measured.fit import least_squares
from ..measured.table import Array
from .logged import Pair, Times
from .summary import quantile

#: Log errors below this count by their square, above it by their size: a request that misses a step is no outlier.
SOFT = 0.05
#: Weight of the guess, where the log does not say: a log error for doubling a parameter.
PULL = 0.01
#: Factors on the guess from which a fit begins, in turn.
STARTS = (0.75, 1.25)
#: Relative differences by which slopes are taken, in turn: wide ones see over the jumps of a schedule.
WIDTHS = (0.3, 0.1, 0.03, 0.01)
#: Differences are taken of at least this part of a parameter's guess.
LEAST = 0.3
#: Significant digits of a parameter: as a file states it.
DIGITS = 4


def fit_steps(pairs: Callable[[Steps], Sequence[Pair]], guess: Steps) -> Steps:
    """Return the step times whose replay is nearest to what was measured, searched from a ``guess``.

    ``pairs`` gives replayed and measured times of the requests that the fit may see. Minimises the soft-L1 of the
    logarithm of replayed over measured TTFT, TPOT and E2E. Raises InputError where scipy is missing.
    """
    solve, units = least_squares(), np.array(astuple(guess))

    def steps(x: Array) -> Steps:
        return Steps(*(x * units).tolist())

    def residual(x: Array) -> Array:
        replayed, measured = (_flat(side) for side in zip(*pairs(steps(x)), strict=True))
        return np.concatenate([np.log(replayed / measured), PULL * (x - 1)])

    found = [_search(solve, residual, np.full(len(units), start)) for start in STARTS]
    best = min(found, key=lambda one: float(one.cost))
    return Steps(*(float(f"{value:.{DIGITS}g}") for value in astuple(steps(best.x))))


def _search(solve: Callable[..., Any], residual: Callable[[Array], Array], x: Array) -> Any:
    """Let each search begin where a wider one has ended."""
    for width in WIDTHS:
        slopes = _slopes(residual, width)
        found = solve(residual, x, jac=slopes, bounds=(0, np.inf), loss="soft_l1", f_scale=SOFT)
        x = found.x
    return found


def errors(pairs: Sequence[Pair]) -> dict[str, float]:
    """Return replayed over measured less 1, for TTFT, TPOT and E2E at P50 and P95."""
    found = {}
    for place, name in enumerate(TIMES):
        known = [pair for pair in pairs if pair[1][place] is not None]
        replayed, measured = (
            (sorted(side[place] for side in sides) for sides in zip(*known)) if known else ((), ())
        )
        for percentile in PERCENTILES if known else ():
            share = percentile / 100
            found[f"{name}_p{percentile}"] = quantile(replayed, share) / quantile(measured, share) - 1
    return found


def _flat(side: Sequence[Times]) -> Array:
    return np.array([time for times in side for time in times if time is not None])


def _slopes(residual: Callable[[Array], Array], width: float) -> Callable[[Array], Any]:
    """Central differences of a relative width, one-sided where a parameter would become negative."""

    def slopes(x: Array) -> Any:
        columns = []
        for place, value in enumerate(x):
            high, low = x.copy(), x.copy()
            step = width * max(value, LEAST)
            high[place], low[place] = value + step, max(0.0, value - step)
            columns.append((residual(high) - residual(low)) / (high[place] - low[place]))
        return np.array(columns).T

    return slopes
