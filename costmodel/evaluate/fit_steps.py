"""Fitting step times to what a log measured, by replaying it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np

from ..errors import InputError
from ..inputs.step_times import PERCENTILES, TIMES, Steps
from ..measured.table import Array
from .logged import Pair, Replayed, Times, pairs
from .summary import quantile

#: Log errors below this count by their square, above it by their size: a request that misses a step is no outlier.
SOFT = 0.05
#: Weight of the guess, where the log does not say: a log error for doubling a parameter.
PULL = 0.001
#: Rounds, each from the guess, and the part of the way to its solution that a round goes.
ROUNDS = (1.0,) * 15 + (0.5,) * 25
#: Relative difference by which slopes are taken: too small to change which requests share a step.
SMALL = 1e-5
#: Part of a parameter's guess below which it is nothing.
NOTHING = 1e-4
#: Significant digits of a parameter: as a file states it.
DIGITS = 4


def fit_steps(
    replay: Callable[[Steps], Replayed], measured: Sequence[Times | None], guess: Steps, least: Steps
) -> Steps:
    """Return the step times whose replay is nearest to what was measured: from a ``guess``, none below ``least``.

    Minimises the soft-L1 of the logarithm of replayed over measured TTFT, TPOT and E2E. While no request changes
    steps, all times are linear in the parameters; so each round holds the schedule of its replay, solves, and
    replays with the solution. The cost jumps where a schedule changes, so no round has to be better than the one
    before: the best of all is kept.

    Raises InputError where scipy is missing.
    """
    units = np.array(astuple(guess))
    used = units > 0  # the others are of work that this model does not do
    low = np.array(astuple(least))[used] / units[used]

    def steps(x: Array) -> list[float]:
        values = np.zeros(len(units))
        values[used] = x * units[used]
        found: list[float] = values.tolist()
        return found

    def residual(x: Array, waits: Sequence[float] | None = None) -> tuple[Array, list[float]]:
        found = replay(Steps(*steps(x)))
        replayed, logged = (_flat(side) for side in zip(*pairs(found.times(waits), measured), strict=True))
        return np.concatenate([np.log(replayed / logged), PULL * (x - 1)]), found.waits

    _, best = min(_rounds(residual, low), key=lambda found: found[0])
    best[best < NOTHING] = 0.0
    return Steps(*(float(f"{value:.{DIGITS}g}") for value in steps(best)))


#: Parameters, and waits in the place of the replay's own, to log errors and the replay's waits.
_Residual = Callable[..., tuple[Array, list[float]]]


def _rounds(residual: _Residual, low: Array) -> Iterator[tuple[float, Array]]:
    """Yield the cost and the parameters of each round."""
    try:
        from scipy.optimize import lsq_linear
    except ImportError:
        raise InputError("fitting needs scipy: pip install 'llm-costmodel[calibrate]'") from None
    x = start = np.ones(len(low))
    for place, part in enumerate(ROUNDS):
        if place and part != ROUNDS[place - 1]:
            x = start
        errors, waits = residual(x)
        soft = np.sqrt(1 + (errors / SOFT) ** 2)
        yield float(np.sum(soft - 1)), x
        slopes = _slopes(residual, x, errors, waits)
        weights = soft**-0.5
        solved = lsq_linear(slopes * weights[:, None], (slopes @ x - errors) * weights, bounds=(low, np.inf))
        x = x + part * (solved.x - x)


def _slopes(residual: _Residual, x: Array, errors: Array, waits: list[float]) -> Any:
    """What each parameter changes, while the schedule is what it is.

    A wait for the step under way is held as well: it is at most that step, wherever the ones before it moved its end.
    """
    steps = SMALL * np.maximum(x, 1.0)
    return np.array([(residual(x + step, waits)[0] - errors) / step.sum() for step in np.diag(steps)]).T


def errors(both: Sequence[Pair]) -> dict[str, float]:
    """Return replayed over measured less 1, for TTFT, TPOT and E2E at P50 and P95."""
    found = {}
    for place, name in enumerate(TIMES):
        known = [pair for pair in both if pair[1][place] is not None]
        if not known:
            continue
        replayed, measured = (sorted(_flat([(side[place],) for side in sides])) for sides in zip(*known))
        for percentile in PERCENTILES:
            share = percentile / 100
            error = quantile(replayed, share) / quantile(measured, share) - 1
            found[f"{name}_p{percentile}"] = float(error)
    return found


def _flat(side: Sequence[Times | tuple[float | None]]) -> Array:
    return np.array([time for times in side for time in times if time is not None])
