"""How long prompts wait in a queue: the whole distribution, by numbers.

One server, gaps and services of any law: exact on a lattice. Waits follow from Spitzer's identity, whose sum over all
numbers of arrivals is a logarithm that two Fourier transforms split into its positive and negative part (Spitzer,
Transactions of the AMS 82, 1956; Grassmann and Jain, Queueing Systems 4, 1989, do the same by recursion).

Several servers: approximate. Prompts that wait do so as behind one server as fast as all together, which is exact for
exponential services; how many wait is the exact share of GI/M/c (Takacs, Introduction to the Theory of Queues, 1962,
chapter 2), times what services of this law change of it behind the one fast server.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from .prompts import Moments, Weights, moments

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Points of the lattice, and how many mean waits (of those that wait) and longest services it reaches at least.
_POINTS, _WAITS, _SERVICES = 1 << 15, 60, 48
#: Share that waits, below which the lattice need not reach farther.
_RARE = 0.02
#: Shares below which nobody waits, and differences that are none.
_NONE = 1e-7
#: A term of a sum beside which its inverse is nothing.
_HUGE = 1e250


class Gaps(NamedTuple):
    """Gaps between arrivals, independent of each other: gamma of ``mean`` s and squared variation ``scv``.

    ``recorded``: gaps of a trace, seconds, equally likely, in place of the gamma law.
    """

    mean: float
    scv: float
    recorded: tuple[float, ...] = ()

    @property
    def rate(self) -> float:
        """Arrivals a second."""
        return 1 / self.mean

    def thinned(self, share: float) -> Gaps:
        """Gaps when each arrival is kept with this probability: a geometric number of gaps, taken as gamma."""
        return self if share >= 1 else Gaps(self.mean / share, share * self.scv + 1 - share)

    def every(self, count: int) -> Gaps:
        """Gaps between every ``count``-th arrival: what one of so many servers gets that take turns."""
        return self if count == 1 else Gaps(self.mean * count, self.scv / count)

    @property
    def plain(self) -> Gaps:
        """The gamma law of the same mean and variation, where gaps are recorded."""
        return self._replace(recorded=())

    def transform(self, x: float) -> float:
        """Mean of exp(-x gap), ``x`` per second."""
        if self.recorded:
            return sum(math.exp(-x * gap) for gap in self.recorded) / len(self.recorded)
        if self.scv <= 0:
            return math.exp(-x * self.mean)
        return math.exp(-math.log1p(x * self.mean * self.scv) / self.scv)


@dataclass(frozen=True)
class Waits:
    """Waits of arrivals: ``waiting`` is the share that waits at all.

    ``longer[k]``: the share of those that wait longer than k ``step`` and ``later`` seconds. ``total``: what the
    probabilities add up to, 1 where the lattice could tell gaps and services apart.
    """

    waiting: float
    step: float
    longer: NDArray[Any]
    later: float = 0.0
    total: float = 1.0

    @property
    def mean(self) -> float:
        """Mean wait of all arrivals, seconds."""
        return float(self.waiting * (self.later + self.step * self.longer.sum()))

    def beyond(self, seconds: NDArray[Any]) -> NDArray[Any]:
        """Shares of those that wait which wait longer than ``seconds``; all of them where that is negative."""
        import numpy as np

        left = seconds - self.later
        places = np.clip(left / self.step, 0, len(self.longer) - 1)
        return np.where(left < 0, 1.0, np.interp(places, np.arange(len(self.longer)), self.longer))


def waits(gaps: Gaps, services: Sequence[float], weights: Weights, servers: int) -> Waits:
    """Return the waits of a stable queue that ``servers`` servers share, first come first served.

    ``services``: seconds a request, with ``weights``. The caller has checked that the utilisation is below 1.
    """
    if max(services) <= 0:
        return _nobody()
    step, masses = _one_server(gaps, [service / servers for service in services], weights)
    total = float(masses.sum())
    some = 1.0 - float(masses[0])
    if some <= _NONE:
        return _nobody()
    longer = (total - masses.cumsum()) / (total - masses[0])
    if servers == 1:
        return Waits(some, step, longer, total=total)
    service = moments(services, weights)
    all_busy, fast = gi_m_c(gaps, service.mean, servers)
    # The first of several equal services to end takes longer than the rest of one of a server as fast as all.
    later = service.mean * (servers - 1) / (2 * servers * (servers + 1)) * max(0.0, 1 - service.scv)
    return Waits(min(1.0, some * all_busy / fast), step, longer, later, total)


def _nobody() -> Waits:
    """The waits of a queue in which nobody waits."""
    import numpy as np

    return Waits(0.0, 1.0, np.zeros(1))


def mean_wait(gaps: Gaps, service: Moments, servers: int) -> float:
    """Mean wait of a stable queue, by two moments: that of GI/M/c, times the squared variations over its own.

    Exact for exponential services and, with one server, for Poisson arrivals. Recorded gaps count by their mean and
    variation.
    """
    gaps = gaps.plain
    if service.mean <= 0 or gaps.scv + service.scv <= 0:
        return 0.0
    some, root = gi_m_c(gaps, service.mean, servers)
    exponential = some * service.mean / (servers * (1 - root))
    return exponential * (gaps.scv + service.scv) / (gaps.scv + 1)


def gi_m_c(gaps: Gaps, service: float, servers: int) -> tuple[float, float]:
    """Return the shares that wait in GI/M/c and behind one server as fast as all: exact. ``service``: mean seconds."""
    root = _root(gaps, service, servers)
    if root < _NONE:
        return root, root
    total, term = 1 / (1 - root), 1.0  # servers over j, over the product of here / (1 - here) up to j
    for j in range(1, servers + 1):
        here = gaps.transform(j / service)
        term *= (servers - j + 1) / j * (1 - here) / here if here > 0 else math.inf
        if term > _HUGE:  # so many servers, so little load: all are never busy
            return 0.0, root
        total += term / (1 - here) * _ratio(gaps, service, servers, root, j)
    return 1 / (total * (1 - root)), root


def _ratio(gaps: Gaps, service: float, servers: int, root: float, j: float) -> float:
    """The last factor of Takacs' terms; where it is 0 / 0, a step aside."""
    if abs(servers * (1 - root) - j) < _NONE:
        j += 1e-4
    return (servers * (1 - gaps.transform(j / service)) - j) / (servers * (1 - root) - j)


def _root(gaps: Gaps, service: float, servers: int) -> float:
    """The root below 1 of x = E[exp(-servers (1 - x) gap / service)]: what one fast M server has waiting."""
    low, high = 0.0, 1.0 - 1e-12
    for _ in range(60):
        middle = (low + high) / 2
        above = gaps.transform(servers * (1 - middle) / service) > middle
        low, high = (middle, high) if above else (low, middle)
    return (low + high) / 2


def _one_server(gaps: Gaps, services: Sequence[float], weights: Weights) -> tuple[float, NDArray[Any]]:
    """Return the lattice step and the probabilities of waits of 0, 1, 2, ... steps behind one server.

    They add up to 1 where the lattice tells gaps and services apart.
    """
    import numpy as np

    half = _POINTS // 2
    step = _span(gaps, services, weights) / half
    total = sum(weights)
    apart = _gap_masses(gaps, step, half)
    served = np.fft.rfft(_spread(services, [w / total for w in weights], step, half), _POINTS)
    change = 1 - served * np.conj(np.fft.rfft(apart, _POINTS))
    turn = _turn()
    spare = float(apart @ np.arange(half)) - moments(services, weights).mean / step
    ratio = np.empty(half + 1, complex)
    # 1 - turn has no positive powers: dividing by it takes away the zero at turn = 1 and nothing else that counts.
    ratio[1:] = change[1:] / (1 - turn[1:])
    ratio[0] = max(spare, _NONE)
    powers = np.fft.irfft(-np.log(ratio), _POINTS)
    powers[0] = 0.0
    powers[half:] = 0.0
    masses = np.fft.irfft(np.exp(np.fft.rfft(powers) - powers.sum()), _POINTS)
    return step, np.maximum(masses[:half], 0.0)


@lru_cache(maxsize=1)
def _turn() -> NDArray[Any]:
    """One step back in time, as far as the transforms of real numbers go."""
    import numpy as np

    return np.asarray(np.exp(2j * np.pi * np.arange(_POINTS // 2 + 1) / _POINTS))


def _span(gaps: Gaps, services: Sequence[float], weights: Weights) -> float:
    """Seconds that the lattice must reach for waits beyond to be nothing."""
    service = moments(services, weights)
    some = max(gi_m_c(gaps.plain, service.mean, 1)[0], _RARE)
    return max(_WAITS * mean_wait(gaps, service, 1) / some, _SERVICES * max(services))


def _spread(values: Sequence[float], shares: Sequence[float], step: float, length: int) -> NDArray[Any]:
    """Masses of values on the lattice, each shared between its two neighbours so that its mean stays."""
    import numpy as np

    places, share = np.asarray(values) / step, np.asarray(shares)
    inside = places < length - 1
    places, share = places[inside], share[inside]
    whole = np.floor(places).astype(int)
    part = places - whole
    masses = np.zeros(length)
    np.add.at(masses, whole, share * (1 - part))
    np.add.at(masses, whole + 1, share * part)
    return masses


def _with_the_rest(masses: NDArray[Any]) -> NDArray[Any]:
    """Put gaps beyond an eighth of the lattice smoothly below it: in such a gap, too, all work ends.

    Farther out their law would be too sharp for the transform.
    """
    import numpy as np

    low, high = len(masses) // 16, len(masses) // 8
    masses[high:] = 0.0
    window = 1 - np.cos(2 * np.pi * (np.arange(high - low) + 0.5) / (high - low))
    masses[low:high] += max(0.0, 1 - float(masses.sum())) * window / window.sum()
    return masses


def _gap_masses(gaps: Gaps, step: float, length: int) -> NDArray[Any]:
    """Masses of the gaps on the lattice: recorded ones, or the negative binomial law that stands for the gamma law."""
    import numpy as np

    if gaps.recorded:
        shares = [1 / len(gaps.recorded)] * len(gaps.recorded)
        return _with_the_rest(_spread(gaps.recorded, shares, step, length))
    mean, k = gaps.mean / step, np.arange(1, length)
    if gaps.scv * mean <= 1:  # the most even law of the family: a squared variation of 1 / mean
        first, ratios = -mean, np.log(mean / k)
    else:
        left = 1 / (gaps.scv * mean)
        size = mean * left / (1 - left)
        first, ratios = size * math.log(left), np.log((k - 1 + size) / k) + math.log1p(-left)
    masses: NDArray[Any] = np.exp(np.concatenate([[first], first + np.cumsum(ratios)]))
    return _with_the_rest(masses)
