"""What a result measured of each request: its times, and how far statistics of them would move in another run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import NormalDist, mean, stdev

from ..errors import InputError
from ..evaluate.logged import from_queued, measured
from ..inputs.traces import LoggedRequest, Notes, read_log
from ..inputs.traces.files import opened
from ..records import Figure
from ..results.spread import percentile

#: Share of runs in whose interval the true statistic lies, were requests independent.
LEVEL = 0.95
_Z = NormalDist().inv_cdf((1 + LEVEL) / 2)
#: Fewest values that the expansion of Student's t is good for, to 1 %.
_FEWEST = 5
#: How far a statistic of the requests and the figure of it may lie apart.
_APART = 0.05
#: Keys of lists of single requests in results that are one document.
_LISTED = ("input_lens", "ttfts", "itls")
#: Statistics of a log of requests that are told as figures of its run.
STATISTICS = ("mean", "p50", "p90", "p95", "p99")


@dataclass(frozen=True)
class Detail:
    """Requests of a run with their measured times, in order of arrival.

    ``timed``: arrivals are known. ``queued``: times count from when the engine queued a request, not from its sending.
    """

    where: str
    requests: tuple[LoggedRequest, ...]
    timed: bool
    queued: bool

    @cached_property
    def seconds(self) -> dict[str, list[float]]:
        """Measured seconds by measure (ttft, tpot, e2e and the stages), of the requests that have them."""
        return self._seconds(queued=self.queued)

    @cached_property
    def sent(self) -> dict[str, list[float]]:
        """The same, TTFT and E2E counted from the client's sending."""
        found = self._seconds(queued=False)
        found.setdefault("ttft", [r.ttft_s for r in self.requests if r.ttft_s is not None])
        return found

    def _seconds(self, *, queued: bool) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        for logged in self.requests:
            for name, value in _times(logged, queued=queued).items():
                if value is not None:
                    found.setdefault(name, []).append(value)
        return found

    def of(self, figure: Figure) -> list[float]:
        """Measured seconds of a figure, counted from where it is; none where the log has none."""
        return (self.seconds if self.queues(figure) else self.sent).get(figure.metric, [])

    def queues(self, figure: Figure) -> bool:
        """Whether a figure counts from where the log does: the engine's queue where that is known, else the sending."""
        start = str(figure.conditions.get("ttft_from", ""))
        return not self.queued or not start or "queue" in start

    def doubts(self, figures: Sequence[Figure]) -> list[str]:
        """What the requests say against figures of their run: times that are missing, or others."""
        told = []
        for figure in figures:
            if figure.metric not in ("ttft", "tpot", "e2e") or figure.statistic not in STATISTICS:
                continue
            values = self.of(figure)
            if not values:
                told.append(
                    f"no request has a {figure.metric} that can be, and {figure.name} is {figure.text}"
                )
                continue
            listed = statistic(values, figure.statistic)
            if abs(listed - figure.value) > _APART * max(listed, figure.value):
                told.append(f"{figure.name} is {figure.text}; of the requests it is {listed:.4g} s")
        return told


def _times(logged: LoggedRequest, *, queued: bool) -> dict[str, float | None]:
    times, queue = measured(logged, queued), logged.queue_s
    if times is None:
        return {"prefill_queue_time": queue}
    return {
        "ttft": times.ttft_s,
        "tpot": times.tpot_s,
        "e2e": times.e2e_s,
        "decode_time": times.e2e_s - times.ttft_s if times.tpot_s is not None else None,
        "prefill_queue_time": queue,
        "prefill_time": None if queue is None else times.ttft_s - queue,
    }


def read_detail(path: str | Path, select: Mapping[str, str] | None = None) -> Detail:
    """Read the requests of a log in any format of :func:`..inputs.traces.read_log`, with arrivals where it has them.

    Raises InputError where it cannot be read, or holds no times of single requests.
    """
    notes, timed = Notes(), True
    try:
        requests = tuple(read_log(path, select, notes))
    except InputError:
        timed = False
        requests = tuple(read_log(path, select, notes, timed=False))
    return Detail(str(path), requests, timed, from_queued(requests))


def requests_of(
    path: str | Path, select: Mapping[str, str] | None = None
) -> tuple[Detail | None, str | None]:
    """Return the requests of a result, None where it does not list them; and why a list that is there is not read."""
    try:
        return read_detail(path, select), None
    except InputError as error:
        with opened(Path(path)) as file:
            text = file.read()
        listed = any(f'"{key}"' in text for key in _LISTED)
        return None, f"the lists of single requests are not read: {error}" if listed else None


def percent_of(word: str | None) -> float | None:
    """Return the percentile that a statistic names, as a share; None for any other statistic."""
    if word is None or not word.startswith("p"):
        return None
    try:
        percent = float(word[1:])
    except ValueError:
        return None
    return percent / 100 if 0 < percent < 100 else None


def statistic(values: Sequence[float], word: str) -> float:
    """Return a statistic of values: mean, std, min, max or a percentile, on the line between the two about it.

    Raises InputError for no values, or a word that is no statistic.

    >>> statistic([1.0, 2.0, 3.0, 4.0], "p50"), statistic([1.0, 2.0, 3.0, 4.0], "p90")
    (2.5, 3.7)
    """
    share = percent_of(word)
    simple = {"mean": mean, "min": min, "max": max, "std": stdev}
    if not values or (share is None and word not in simple) or (word == "std" and len(values) < 2):
        raise InputError(f"{word!r} of {len(values)} values is not known")
    if share is None:
        return float(simple[word](values))  # type: ignore[operator]
    return percentile(sorted(values), 100 * share)


@dataclass(frozen=True)
class Interval:
    """Seconds between which a statistic lies in 95 % of runs whose requests are independent; None with the reason."""

    low: float | None = None
    high: float | None = None
    reason: str | None = None


def interval(values: Sequence[float], word: str) -> Interval:
    """Return the interval of a statistic: Student's t of a mean, order statistics of a quantile.

    Requests that wait for each other are not independent: the true interval is wider then.

    Ten values of mean 5.5 and deviation 3.028: 5.5 -+ 2.262 x 3.028 / sqrt(10). Of their median, ranks 2 and 9:

    >>> ten = [float(n) for n in range(1, 11)]
    >>> mean_of = interval(ten, "mean")
    >>> f"{mean_of.low:.2f} {mean_of.high:.2f}", interval(ten, "p50").low, interval(ten, "p50").high
    ('3.33 7.67', 2.0, 9.0)
    """
    share = percent_of(word)
    if word == "mean":
        if len(values) < _FEWEST:
            return Interval(reason=f"{len(values)} requests tell no interval of a mean")
        width = _student(len(values) - 1) * stdev(values) / math.sqrt(len(values))
        return Interval(mean(values) - width, mean(values) + width)
    if share is None:
        return Interval(reason=f"no interval of {word} is known")
    ranks = _ranks(len(values), share)
    if ranks is None:
        return Interval(reason=f"{len(values)} requests are too few to bound their {word}")
    ordered = sorted(values)
    return Interval(ordered[ranks[0] - 1], ordered[ranks[1] - 1])


def _student(freedom: int) -> float:
    """Two-sided quantile of Student's t, expanded about the normal one (Abramowitz and Stegun 26.7.5)."""
    z = _Z
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return float(z + sum(term / freedom ** (power + 1) for power, term in enumerate(terms)))


def _ranks(count: int, share: float) -> tuple[int, int] | None:
    """Ranks, from 1, of the values that hold a quantile, each side missing it by 2.5 % at most; None: too few."""
    tail, below, low, high = (1 - LEVEL) / 2, 0.0, 0, count + 1
    for number in range(count + 1):  # values below the quantile: binomial
        if below + 1e-12 <= tail:
            low = number
        below += math.exp(_log_binomial(count, number, share))
        if below >= 1 - tail:
            high = number + 1
            break
    return (low, high) if low >= 1 and high <= count else None


def _log_binomial(count: int, number: int, share: float) -> float:
    ways = math.lgamma(count + 1) - math.lgamma(number + 1) - math.lgamma(count - number + 1)
    return ways + number * math.log(share) + (count - number) * math.log1p(-share)
