"""Workloads: how requests arrive, how long their prompts and outputs are, and which SLOs they carry."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import pairwise
from random import Random
from statistics import NormalDist
from typing import NamedTuple

from ..errors import InputError

_NORMAL = NormalDist()
#: Tokens of the longest prompt or output that is followed.
LONGEST = 10_000_000


class Request(NamedTuple):
    """One request: arrival in seconds, cached and uncached prompt tokens, output tokens (1 or more).

    ``blocks``: hashes of the prompt's leading blocks of ``block_tokens`` tokens, in order, where a trace has them.
    """

    arrival_s: float
    uncached_tokens: int
    cached_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()
    block_tokens: int = 0

    @property
    def isl(self) -> int:
        """All prompt tokens."""
        return self.uncached_tokens + self.cached_tokens


#: Copies of each typical request, some of which find their prefix and some not, where a hit rate is given.
_COPIES = 4
#: Utilisation of the busiest stretch of a load that varies from which on queues of a mean load say nothing.
_NEAR_CAPACITY = 0.6
#: Quantiles beyond which not every pairing of them is tried.
_MANY = 48
#: Samples of traces that were picked from, with what was picked, and how many are kept.
_PICKED: dict[tuple[int, int], tuple[tuple[Request, ...], tuple[Request, ...]]] = {}
_KEPT = 8


def missed(request: Request) -> Request:
    """Return a request that does not find its cached tokens: all of them are computed."""
    return request._replace(uncached_tokens=request.isl, cached_tokens=0)


def unknown(request: Request) -> Request:
    """Return a request as closed forms see it: what a cache holds of named blocks is not known, so all is computed."""
    return missed(request) if request.blocks and request.cached_tokens else request


def with_misses(requests: Iterable[Request], hit_rate: float, seed: int) -> Iterator[Request]:
    """Yield requests of which each finds its cached tokens with probability ``hit_rate``, else none of them."""
    random = Random(f"hits {seed}")
    for request in requests:
        yield missed(request) if request.cached_tokens and random.random() >= hit_rate else request


def _mixed(requests: list[Request], hit_rate: float) -> list[Request]:
    """Stand for requests of which a share finds its cached tokens, spread evenly over them."""
    found = []
    for i, request in enumerate(r for r in requests for _ in range(_COPIES)):
        hit = math.floor((i + 1) * hit_rate + 0.5) > math.floor(i * hit_rate + 0.5)
        found.append(request if hit else missed(request))
    return found


@cache
def _pairing(points: int) -> tuple[int, int]:
    """Return (stride, shift): quantile i meets quantile (i stride + shift) mod points of another length.

    Of all such permutations, the one that correlates two log-normal lengths least.
    """
    scores = [math.exp(_NORMAL.inv_cdf((i + 0.5) / points)) for i in range(points)]
    square = sum(scores) ** 2 / points

    def covariance(pair: tuple[int, int]) -> float:
        met = (scores[(i * pair[0] + pair[1]) % points] for i in range(points))
        return abs(sum(a * b for a, b in zip(scores, met)) - square)

    strides = [s for s in range(2, points - 1) if math.gcd(s, points) == 1] or [1]
    if points > _MANY:  # one stride far from any short cycle does, and all would take a second
        strides = [min(strides, key=lambda s: abs(s - 0.618 * points))]
    return min(((stride, shift) for stride in strides for shift in range(points)), key=covariance)


@dataclass(frozen=True)
class Lengths:
    """Log-normal lengths: median and standard deviation of the logarithm, truncated to ``low`` .. ``high``.

    ``sigma`` 0 is a fixed length.
    """

    median: float
    sigma: float
    low: int = 1
    high: int = 32768

    def __post_init__(self) -> None:
        if not (self.sigma >= 0 and math.isfinite(self.sigma)):
            raise InputError(f"sigma cannot be {self.sigma:g}")
        if not 1 <= self.low <= self.median <= self.high:
            raise InputError(
                f"lengths need 1 <= low <= median <= high, not {self.low}, {self.median:g}, {self.high}"
            )

    def _whole(self, z: float) -> int:
        return max(1, round(self.median * math.exp(self.sigma * z)))

    def quantile(self, share: float) -> int:
        """Length below which ``share`` of the lengths lie, truncated to low .. high."""
        if self.sigma == 0:
            return max(1, round(self.median))
        lower = _NORMAL.cdf(math.log(self.low / self.median) / self.sigma)
        upper = _NORMAL.cdf(math.log(self.high / self.median) / self.sigma)
        z = _NORMAL.inv_cdf(min(max(lower + share * (upper - lower), 1e-12), 1 - 1e-12))
        return min(max(self._whole(z), self.low), self.high)

    def draw(self, random: Random) -> int:
        """Draw one length."""
        return self.quantile(random.random())


@lru_cache(maxsize=64)
def _strata(lengths: Lengths, points: int) -> tuple[int, ...]:
    """Represent ``points`` equally likely strata by their root mean squares, scaled to the true mean.

    So the mean is right, and of the second moment what the medians of strata would miss in the tail is kept.
    """
    within = 8
    fine = [lengths.quantile((i + 0.5) / (points * within)) for i in range(points * within)]
    parts = [fine[i : i + within] for i in range(0, len(fine), within)]
    roots = [math.sqrt(sum(n * n for n in part) / within) for part in parts]
    scale = sum(fine) / within / sum(roots)
    return tuple(max(1, round(root * scale)) for root in roots)


def _picked(requests: tuple[Request, ...], count: int) -> tuple[Request, ...]:
    """``_pick``, once for each sample: known by what it is, as reading all of it would take longer than picking."""
    known = _PICKED.get((id(requests), count))
    if known is None or known[0] is not requests:
        while len(_PICKED) >= _KEPT:
            del _PICKED[next(iter(_PICKED))]
        known = _PICKED[id(requests), count] = requests, _pick(requests, count)
    return known[1]


def _pick(requests: tuple[Request, ...], count: int) -> tuple[Request, ...]:
    """Pick requests evenly by prompt and, among prompts of about one length, by output: to and fro, none twice."""
    if len(requests) <= count:
        return requests
    ordered = sorted(requests, key=lambda r: (unknown(r).uncached_tokens, r.output_tokens))
    rows = max(1, math.isqrt(count))
    ends = [i * len(ordered) // rows for i in range(rows + 1)]
    path: list[Request] = []
    for number, (start, end) in enumerate(pairwise(ends)):
        path += sorted(ordered[start:end], key=lambda r: r.output_tokens, reverse=number % 2 == 1)
    return tuple(path[(2 * i + 1) * len(path) // (2 * count)] for i in range(count))


@dataclass(frozen=True)
class Arrivals:
    """A stationary stream: ``rate`` requests/s with gaps of coefficient of variation ``cv``.

    ``cv`` 1 is Poisson; otherwise gaps are gamma. ``on_share`` below 1 makes it bursty: all arrivals fall
    into on-periods of mean ``on_period_s``, which cover that share of the time (an interrupted stream).
    """

    rate: float
    cv: float = 1.0
    on_share: float = 1.0
    on_period_s: float = 0.0

    def __post_init__(self) -> None:
        if not (self.rate > 0 and math.isfinite(self.rate)):
            raise InputError(f"the rate must be positive, not {self.rate:g} requests/s")
        if not (self.cv >= 0 and math.isfinite(self.cv)):
            raise InputError(f"the coefficient of variation cannot be {self.cv:g}")
        if not 0 < self.on_share <= 1:
            raise InputError(f"on_share must lie in (0, 1], not {self.on_share:g}")
        if self.on_share < 1 and self.on_period_s <= 0:
            raise InputError("a bursty stream needs on_period, the mean length of a burst in seconds")

    @property
    def bursty(self) -> bool:
        """True where the rate itself varies, so that the gaps' variation does not describe the load."""
        return self.on_share < 1

    def _gap(self, random: Random, mean: float) -> float:
        if self.cv == 0:
            return mean
        if self.cv == 1:
            return random.expovariate(1 / mean)
        shape = 1 / self.cv**2
        return random.gammavariate(shape, mean / shape)

    def times(self, random: Random) -> Iterator[float]:
        """Yield arrival times without end."""
        periods = Random(random.random()) if self.bursty else random  # the same bursts at every rate
        clock, left = 0.0, periods.expovariate(1 / self.on_period_s) if self.bursty else math.inf
        mean = self.on_share / self.rate
        while True:
            gap = self._gap(random, mean)
            while gap > left:
                off = self.on_period_s * (1 - self.on_share) / self.on_share
                clock += left + periods.expovariate(1 / off)
                gap -= left
                left = periods.expovariate(1 / self.on_period_s)
            clock += gap
            left -= gap
            yield clock


@dataclass(frozen=True)
class Slo:
    """Objectives: TTFT and TPOT in seconds (None: not asked for) and the share of requests to meet both."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    attainment: float = 0.9

    def __post_init__(self) -> None:
        for name, value in (("TTFT", self.ttft_s), ("TPOT", self.tpot_s)):
            if value is not None and not value > 0:
                raise InputError(f"the {name} SLO must be positive, not {value:g} s")
        if not 0 < self.attainment < 1:
            raise InputError(f"--attainment must lie between 0 and 1, not {self.attainment:g}")

    @property
    def given(self) -> bool:
        """True where at least one SLO is set."""
        return self.ttft_s is not None or self.tpot_s is not None

    def met(self, ttft_s: float, tpot_s: float | None) -> bool:
        """True when a request with this TTFT and TPOT (None: one output token) meets every SLO."""
        if self.ttft_s is not None and ttft_s > self.ttft_s:
            return False
        return self.tpot_s is None or tpot_s is None or tpot_s <= self.tpot_s


@dataclass(frozen=True)
class Workload:
    """A named workload: arrivals, lengths, SLOs, and how it was chosen.

    ``requests`` is a recorded sample (a trace) that stands in place of the distributions when given;
    its arrivals are then scaled so that their mean rate is that of ``arrivals``. ``gaps``: equally likely gaps of
    that sample, over their mean. ``peak``: work of its busiest stretch over the mean, where work varies more than
    independent arrivals and lengths would; 0 where it does not. ``hit_rate``: share of the requests that find their
    cached tokens; the others compute all of theirs.
    """

    name: str
    arrivals: Arrivals
    uncached: Lengths | None
    cached_tokens: int
    output: Lengths | None
    slo: Slo
    chosen: str
    requests: tuple[Request, ...] = ()
    peak: float = 0.0
    gaps: tuple[float, ...] = ()
    hit_rate: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.hit_rate <= 1:
            raise InputError(f"--hit-rate must lie in 0 .. 1, not {self.hit_rate:g}")

    @property
    def rate(self) -> float:
        """Mean arrival rate, requests/s."""
        return self.arrivals.rate

    @property
    def bursty(self) -> bool:
        """True where the load varies over time."""
        return self.arrivals.bursty or self.peak > 0

    def too_bursty(self, utilisation: float) -> bool:
        """True where a closed form must refuse: a busy stretch brings a pool of this utilisation near its capacity."""
        return self.arrivals.bursty or self.peak * utilisation > _NEAR_CAPACITY

    def at_rate(self, rate: float) -> Workload:
        """Return the same workload at another rate."""
        return replace(self, arrivals=replace(self.arrivals, rate=rate))

    def sample(self, count: int, seed: int) -> list[Request]:
        """Return ``count`` requests.

        The seed fixes lengths, gaps, bursts and hits; another rate only rescales the gaps (of a trace: all time).
        """
        return list(self.stream(count, seed))

    def stream(self, count: int, seed: int) -> Iterator[Request]:
        """Yield what ``sample`` returns, in constant memory."""
        found = self._stream(count, seed)
        return found if self.hit_rate == 1 else with_misses(found, self.hit_rate, seed)

    def _stream(self, count: int, seed: int) -> Iterator[Request]:
        if self.requests:
            yield from self._replayed(count)
            return
        assert self.uncached is not None and self.output is not None
        lengths, gaps = Random(f"lengths {seed}"), Random(f"gaps {seed}")
        times = self.arrivals.times(gaps)
        for _ in range(count):
            prompt, output = self.uncached.draw(lengths), self.output.draw(lengths)
            yield Request(next(times), prompt, self.cached_tokens, output)

    def _replayed(self, count: int) -> list[Request]:
        picked = self.requests[:count]
        span = self.requests[-1].arrival_s - self.requests[0].arrival_s
        own_rate = (len(self.requests) - 1) / span if span > 0 else self.rate
        scale, start = own_rate / self.rate, picked[0].arrival_s
        return [r._replace(arrival_s=(r.arrival_s - start) * scale) for r in picked]

    def typical(self, points: int = 24) -> list[Request]:
        """Return requests that represent the lengths: one a stratum, or an even pick of a trace by its lengths.

        Prompt and output lengths of a distribution are independent: see ``_pairing``. Where only some find their
        cached tokens, each stands there several times, with and without.
        """
        found = [unknown(request) for request in self._typical(points)]
        return found if self.hit_rate == 1 else _mixed(found, self.hit_rate)

    def weighed(self, points: int = 24) -> tuple[list[Request], list[float]]:
        """Return what ``typical`` does, with weights of mean 1: each request with its cached tokens and without them.

        So any hit rate is exact, with two requests for each. Those of a trace of blocks keep their cached tokens, which
        are what a cache without bound would hold.
        """
        found, hits = self._typical(points), self.hit_rate
        if hits in (0, 1):
            return (found if hits else [missed(r) for r in found]), [1.0] * len(found)
        both = [each for r in found for each in (r, missed(r))]
        return both, [2 * hits, 2 * (1 - hits)] * len(found)

    def _typical(self, points: int) -> list[Request]:
        if self.requests:
            return list(_picked(self.requests, points * 8))
        assert self.uncached is not None and self.output is not None
        stride, shift = _pairing(points)
        prompts, outputs = _strata(self.uncached, points), _strata(self.output, points)
        return [
            Request(
                0.0,
                prompts[i],
                self.cached_tokens,
                outputs[(i * stride + shift) % points],
            )
            for i in range(points)
        ]
