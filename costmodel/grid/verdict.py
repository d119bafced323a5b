"""The verdict at many points: the least mean delay among the stable strategies, and its margin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..decision.verdict import _NO_DELAY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


class Verdicts(NamedTuple):
    """Places of the best and the second strategy, -1 where there is none, and the second's delay over the best's."""

    best: Array
    runner_up: Array
    margin: Array


def verdicts(delays: Array, rivals: Array) -> Verdicts:
    """Rank strategies, a row each, by mean delay (NaN: none); ``rivals``: which of them count."""
    import numpy as np

    scores = np.where(rivals & ~np.isnan(delays), delays, np.inf)
    order = np.argsort(scores, axis=0, kind="stable")[:2]
    least, second = np.take_along_axis(scores, order, axis=0)
    best = np.where(np.isfinite(least), order[0], -1)
    runner_up = np.where(np.isfinite(second), order[1], -1)
    told = (runner_up >= 0) & (least > _NO_DELAY)
    margin = np.where(told, second / np.where(told, least, 1.0), np.nan)
    return Verdicts(best, runner_up, margin)
