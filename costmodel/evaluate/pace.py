"""How fast requests decode: TPOT of each typical request as a distribution.

How many decode together is the law of a shared processor, whose speed depends on how many share it: exact for
Poisson arrivals and lengths of any law (Kelly, Reversibility and Stochastic Networks, 1979, section 3.3). Bursts
widen it as they widen the number in a queue without waiting (peakedness; Eckberg, Bell System Technical Journal 62,
1983). A request decodes among the average of that number over its own stay: a long one sees an average, a short one
a moment. Prompts that stop its decoding are a delay busy period: their mean and variance are exact for Poisson
arrivals, their law between taken as gamma.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..inputs.workload import Request
from .prompts import Moments

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Batches at which steps are timed; between them they are straight.
_TIMED = 11
#: Points that stand for the law of how many decode together.
_POINTS = 120
#: Standard deviations above the mean to which that law is followed.
_REACH = 9.0
#: How narrowly a quantile is found, as a fraction of it.
_NARROW = 1e-3


class Inflow(NamedTuple):
    """How evenly requests begin to decode: squared variation of the gaps between them one by one (``near``), as the
    prompts before them leave their queue, and of many together (``far``), as they arrived; ``settles``: seconds over
    which the queue turns one into the other.
    """

    near: float = 1.0
    far: float = 1.0
    settles: float = 0.0

    def over(self, seconds: float) -> float:
        """Squared variation that counts over a stay of so many seconds."""
        far = seconds / (seconds + self.settles) if self.settles else 1.0
        return self.near + (self.far - self.near) * far


def inflow(gaps_scv: float, utilisation: float, service: Moments, servers: int) -> Inflow:
    """Return how evenly prompts leave a queue (Whitt, Bell System Technical Journal 62, 1983: departures)."""
    busy = min(1.0, utilisation)
    near = 1 + (1 - busy**2) * (gaps_scv - 1) + busy**2 / math.sqrt(servers) * (service.scv - 1)
    # A queue forgets in about so long (relaxation time of M/M/1).
    settles = service.mean / servers / (1 - math.sqrt(busy)) ** 2 if busy < 1 else math.inf
    return Inflow(max(0.0, near), gaps_scv, settles)


class Stalls(NamedTuple):
    """Prompts that stop the decodes of an instance: how many a second, the seconds that each adds to them all, the
    longest time between two tokens that they can cause; and what those that wait already add to a decode that begins:
    the share that finds some, and the mean over all.
    """

    per_s: float
    added: Moments
    longest: float
    waiting: float = 0.0
    backlog: float = 0.0

    def gap(self, step: float) -> float:
        """Mean time between two tokens beside steps of so many seconds."""
        return min(step / max(1e-9, 1 - self.per_s * self.added.mean), self.longest)


class Decodes(NamedTuple):
    """Decodes of a pool of equal ``instances``: ``tokens`` a second of each instance, at most ``most`` at once,
    ``batch`` on average; the decode step that a request sees where so many others run on each instance, and what
    prompts add beside them, of their number and step (None: there are none); of what one more decode adds to a step,
    the part that grows with its context.
    """

    instances: int
    tokens: float
    most: float
    batch: float
    step: Callable[[float], float]
    stalls: Callable[[float, float], Stalls] | None
    by_context: Callable[[float], float]
    inflow: Inflow = Inflow()


class Tpot:
    """TPOT of typical requests that decode in a pool; ``late``: seconds of each from token 1 to its decoding."""

    def __init__(self, decodes: Decodes, requests: Sequence[Request], late: Sequence[float]) -> None:
        import numpy as np

        self.decodes = decodes
        self.gaps = np.array([request.output_tokens - 1.0 for request in requests])
        self.prompts = np.array([float(request.isl) for request in requests])
        self.late = np.asarray(late) if late else np.zeros(len(self.gaps))
        self.busy = decodes.batch > 0 and bool(self.gaps.any())
        self.stalls: tuple[Stalls, ...] = ()
        if self.busy:
            self._lay()

    def _lay(self) -> None:
        """Time steps at a few batches, and find the law of how many decode together on an instance."""
        import numpy as np

        decodes = self.decodes
        count, mean = decodes.instances, decodes.batch
        spread = math.sqrt(max(mean, 1 / count) / count)
        reach = min(decodes.most, 1.5 * mean + 2 * _REACH * spread + 2 / count)
        self.batches = np.linspace(0.0, reach, _TIMED)
        self.steps = np.array([decodes.step(batch) for batch in self.batches])
        self.paces = self.steps
        if decodes.stalls is not None:
            self.stalls = tuple(decodes.stalls(*pair) for pair in zip(self.batches, self.steps))
            self.paces = np.array([stalls.gap(step) for stalls, step in zip(self.stalls, self.steps)])
        number = np.arange(1, max(2, math.ceil(reach * count)) + 1) / count
        # Of a processor that n share: p(n) / p(n - 1) = arrivals x work x time of a token beside n - 1 / n.
        paces = np.interp(number - 1 / count, self.batches, self.paces)
        logs = np.cumsum(np.log(decodes.tokens * paces / number))
        logs = np.concatenate([[0.0], logs])
        chances = np.exp(logs - logs.max())
        chances /= chances.sum()
        number = np.concatenate([[0.0], number])
        self.mean = float(chances @ number)
        self.variance = float(chances @ (number - self.mean) ** 2)
        below = np.cumsum(chances) - chances / 2
        self.places = (np.arange(_POINTS) + 0.5) / _POINTS
        self.points = np.interp(self.places, below, number) - self.mean

    def _stays(self) -> NDArray[Any]:
        """Mean seconds for which each typical request decodes."""
        import numpy as np

        return self.gaps * float(np.interp(self.mean, self.batches, self.paces))

    def _averaged(self) -> NDArray[Any]:
        """Variance of the number that decode, averaged over each request's stay, over that at a moment.

        Numbers at two moments go together as far as those who decode at the first still do at the second; where more
        decodes slow each other down, for longer.
        """
        import numpy as np

        stays = self._stays()
        slowed = self.variance * self.decodes.instances / max(self.mean, 1e-12)
        whole = stays[stays > 0]
        own, other = np.maximum(stays, 1e-9)[:, None], (whole * max(1.0, slowed))[None, :]
        both = np.minimum(own, other)
        area = own * other * both - (own + other) * both**2 / 2 + both**3 / 3
        return np.asarray(2 * area.sum(axis=1) / (own[:, 0] ** 2 * other.sum()))

    def _peaked(self) -> float:
        """By how much bursts widen the variance of the number that decode."""
        import numpy as np

        stays = np.sort(self._stays())
        stays = stays[stays > 0]
        # Mean of the shorter of two stays, over the mean stay.
        ranks = 2 * (len(stays) - np.arange(len(stays))) - 1
        shorter = float((stays * ranks).sum() / len(stays) / stays.sum())
        scv = self.decodes.inflow.over(float(stays.mean()))
        return max(0.0, 1 + (scv - 1) * shorter)

    def _contexts(self) -> tuple[NDArray[Any], float]:
        """How many mean decodes more each request itself is, and by how much unlike contexts widen their number."""
        import numpy as np

        total = self.gaps.sum()
        mean = float(self.gaps @ (self.prompts + self.gaps / 2) / total)
        square = float(self.gaps @ (self.prompts**2 + self.prompts * self.gaps + self.gaps**2 / 3) / total)
        part = self.decodes.by_context(max(1.0, self.mean))
        own = part * ((self.prompts + self.gaps / 2) / mean - 1) / self.decodes.instances
        return np.asarray(own), 1 + part**2 * (square / mean**2 - 1)

    def beyond(self, seconds: float) -> NDArray[Any]:
        """Chance of each typical request that its TPOT is longer; 0 for one without gaps."""
        import numpy as np

        if not self.busy:
            return np.zeros(len(self.gaps))
        own, uneven = self._contexts()
        width = np.sqrt(self._averaged() * self._peaked() * uneven)
        batches = self.mean + own[:, None] + width[:, None] * self.points[None, :]
        batches = np.clip(batches, 0.0, self.batches[-1])
        steps = np.interp(batches, self.batches, self.steps)
        gaps = np.maximum(self.gaps, 1.0)[:, None]
        left = seconds - self.late[:, None] / gaps
        if not self.stalls:
            slow = _crossing(steps, left)
        else:
            slow = self._stalled(batches, steps, gaps, left)
        return np.where(self.gaps > 0, slow, 0.0)

    def quantile(self, share: float) -> float:
        """TPOT that this share of the requests stays within, seconds."""
        decoding = float((self.gaps > 0).mean())
        low, high = 0.0, 1.0
        while float(self.beyond(high).mean()) > (1 - share) * decoding:
            low, high = high, 2 * high
        while high - low > _NARROW * high:
            middle = (low + high) / 2
            late = float(self.beyond(middle).mean()) > (1 - share) * decoding
            low, high = (middle, high) if late else (low, middle)
        return (low + high) / 2

    def _stalled(self, batches: Any, steps: Any, gaps: Any, left: Any) -> NDArray[Any]:
        """Chance that a request's own steps and the prompts that stop them take longer than ``left`` a token."""
        import numpy as np

        found = self.stalls
        per_s = found[0].per_s
        added = np.interp(batches, self.batches, [one.added.mean for one in found])
        scv = np.interp(batches, self.batches, [one.added.scv for one in found])
        share = np.minimum(per_s * added, 0.999)
        longest = np.interp(batches, self.batches, [min(one.longest, 1e9) for one in found])
        backlog = np.interp(batches, self.batches, [one.backlog for one in found])
        waiting = found[0].waiting
        own = gaps * steps
        none = (1 - waiting) * np.exp(-per_s * own)
        mean = (backlog + own * share) / (1 - share)
        # Waits of those that wait are taken as exponential.
        before = backlog**2 * (2 / waiting - 1) if waiting else 0.0
        variance = before / (1 - share) ** 2
        variance += (own + backlog) * per_s * added**2 * (scv + self._uneven()) / (1 - share) ** 3
        some = np.maximum(1 - none, 1e-12)
        first, second = mean / some, (variance + mean**2) / some
        room = gaps * left - own
        late = some * _gamma_beyond(room, first, np.maximum(second - first**2, 1e-18))
        late = np.where(room < 0, 1.0, np.where(longest <= left, 0.0, late))
        return np.asarray(late.mean(axis=1))

    def _uneven(self) -> float:
        """Squared variation of the gaps between prompts of one instance, which a router that sees load evens out."""
        count = self.decodes.instances
        return (self.decodes.inflow.far + (count - 1) / 2) / count


def _crossing(steps: Any, left: Any) -> NDArray[Any]:
    """Share of each row's ascending steps beyond ``left``, between two of them by a straight line."""
    import numpy as np

    count = steps.shape[1]
    found = np.empty(len(steps))
    places = (np.arange(count) + 0.5) / count
    for row, (values, most) in enumerate(zip(steps, np.broadcast_to(left, (len(steps), 1))[:, 0])):
        found[row] = 1 - np.interp(most, values, places, left=0.0, right=1.0)
    return found


def _gamma_beyond(value: Any, mean: Any, variance: Any) -> NDArray[Any]:
    """Chance that a gamma variate is beyond a value: its cube root is nearly normal (Wilson and Hilferty, 1931)."""
    import numpy as np

    shape = np.maximum(mean**2 / variance, 1e-6)
    root = np.cbrt(np.maximum(value, 0.0) / np.maximum(mean, 1e-300))
    score = (root - (1 - 1 / (9 * shape))) * 3 * np.sqrt(shape)
    return normal_beyond(score)


def normal_beyond(score: Any) -> NDArray[Any]:
    """Chance that a normal variate is beyond so many standard deviations.

    Within 7.5e-8 (Abramowitz and Stegun, Handbook of Mathematical Functions, 1964, 26.2.17).

    >>> f"{float(normal_beyond(1.96)):.4f}"
    '0.0250'
    """
    import numpy as np

    size = np.abs(score)
    t = 1 / (1 + 0.2316419 * size)
    series = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = np.exp(-(size**2) / 2) / math.sqrt(2 * math.pi) * series
    return np.asarray(np.where(score >= 0, tail, 1 - tail))
