"""How far the ratio of two measured figures would move, were both runs made again: from their single requests."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import mean, pvariance

from ..records import Figure
from .detail import Detail, interval, statistic

#: Stretches of a run whose means show how much its requests hang together.
_STRETCHES = 10
#: What times of a server's own count from, where a result has those of the client, too.
_SERVERS = "the server's receipt"


def ratio_intervals(a: Detail, b: Detail) -> Callable[[Figure], tuple[float, float] | str]:
    """Return a function of a figure that gives the factors between which 95 % of its ratios, b over a, lie.

    Intervals of both runs are put together by the squares of their parts (Zou and Donner, 2008), on a logarithmic
    scale. The function returns a text where the requests do not tell them: why.
    """

    def factors(figure: Figure) -> tuple[float, float] | str:
        if figure.conditions.get("ttft_from") == _SERVERS:
            return "single requests tell the client's times, not the server's"
        first, second = (_parts(detail, figure.metric, figure.statistic) for detail in (a, b))
        if isinstance(first, str) or isinstance(second, str):
            return first if isinstance(first, str) else str(second)
        return math.exp(-math.hypot(second[0], first[1])), math.exp(math.hypot(second[1], first[0]))

    return factors


def _parts(detail: Detail, metric: str, word: str | None) -> tuple[float, float] | str:
    """How far below and above a statistic of a run its interval reaches, as logarithms; or why that is not known."""
    values = detail.seconds.get(metric)
    if not values or word is None:
        return "the times of single requests do not tell it"
    found = interval(values, word)
    if found.low is None or found.high is None:
        return str(found.reason)
    best = statistic(values, word)
    if not 0 < found.low <= best <= found.high:
        return "its interval reaches 0"
    wider = math.sqrt(hanging_together(values, word))
    return wider * math.log(best / found.low), wider * math.log(found.high / best)


def hanging_together(values: Sequence[float], word: str) -> float:
    """Return the times by which the variance of a statistic is larger than that of independent requests, 1 at least.

    Requests that wait for each other are slow together: means of stretches of the run vary more than they should. Of a
    quantile, what varies is the share of requests below it.

    Twenty slow requests after twenty fast ones, again and again; each twenty of 200 are a stretch of their own:

    >>> hanging_together(([1.0] * 20 + [2.0] * 20) * 5, "mean")
    20.0
    """
    if word != "mean":
        edge = statistic(values, word)
        values = [float(value <= edge) for value in values]
    size = len(values) // _STRETCHES
    if size < 2 or not pvariance(values):
        return 1.0
    stretches = [mean(values[place * size : (place + 1) * size]) for place in range(_STRETCHES)]
    return max(1.0, size * pvariance(stretches) / pvariance(values))
