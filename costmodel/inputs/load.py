"""Load: how the requests of a trace arrive, at its own gaps or at those of a process."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from random import Random

from ..errors import InputError, unknown
from .workload import Arrivals, Request

TRACE, POISSON, GAMMA, WEIBULL, ONOFF, CONSTANT = "trace", "poisson", "gamma", "weibull", "onoff", "constant"
#: Processes whose gaps have a coefficient of variation to choose.
VARIED = (GAMMA, WEIBULL)
PROCESSES = (TRACE, POISSON, *VARIED, ONOFF, CONSTANT)
#: Shapes of Weibull gaps: coefficients of variation from about 0.013 to 430.
_SHAPES = (0.1, 100.0)


@lru_cache(maxsize=64)
def weibull_shape(cv: float) -> float:
    """Return the shape of a Weibull distribution with this coefficient of variation.

    Raises InputError outside of the range that doubles can follow.
    """

    def variation(shape: float) -> float:
        return math.sqrt(math.gamma(1 + 2 / shape) / math.gamma(1 + 1 / shape) ** 2 - 1)

    low, high = _SHAPES
    if not variation(high) <= cv <= variation(low):
        raise InputError(
            f"Weibull gaps need a coefficient of variation (--cv) of {variation(high):.2g} to {variation(low):.2g}, "
            f"not {cv:g}"
        )
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if variation(middle) > cv else (low, middle)
    return low


@dataclass(frozen=True)
class WeibullArrivals(Arrivals):
    """A stationary stream whose gaps are Weibull, of mean 1 / ``rate`` s and coefficient of variation ``cv``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        weibull_shape(self.cv)

    def _gap(self, random: Random, mean: float) -> float:
        shape = weibull_shape(self.cv)
        return random.weibullvariate(mean / math.gamma(1 + 1 / shape), shape)


@dataclass(frozen=True)
class Load:
    """How requests arrive; the first comes at 0 s where the gaps are the trace's own.

    ``rate`` requests/s, or ``speedup`` times the trace's own; neither: as recorded. ``process``: the trace's
    gaps, scaled, or others: Poisson, gamma or Weibull of variation ``cv``, all equal, or Poisson in on-periods
    of mean ``on_period_s`` seconds that cover ``on_share`` of the time; ``seed`` draws them. ``limit`` takes
    the first requests of the trace, ``repeat`` plays what it took so many times, times going on.
    Raises InputError naming the options, with all problems.
    """

    rate: float | None = None
    speedup: float | None = None
    process: str = TRACE
    cv: float | None = None
    on_share: float | None = None
    on_period_s: float | None = None
    seed: int = 0
    limit: int | None = None
    repeat: int = 1

    def __post_init__(self) -> None:
        problems = [*self._bad_numbers(), *self._bad_process()]
        if self.rate is not None and self.speedup is not None:
            problems.append("--rate and --speedup both set how fast requests arrive; pass one")
        if problems:
            raise InputError(problems)
        if self.process != TRACE:
            self.arrivals(1.0)

    def arrivals(self, own_rate: float | None) -> Arrivals:
        """Return the process, at the trace's own rate (requests/s) where none is set.

        Raises InputError where there is neither.
        """
        rate = self.rate or (None if own_rate is None else own_rate * (self.speedup or 1.0))
        if rate is None:
            raise InputError(f"--arrivals {self.process} needs --rate: the trace has no rate of its own")
        if self.process == ONOFF:
            return Arrivals(rate, on_share=self.on_share or 1.0, on_period_s=self.on_period_s or 0.0)
        if self.process == WEIBULL:
            return WeibullArrivals(rate, cv=self.cv or 0.0)
        return Arrivals(rate, cv={POISSON: 1.0, CONSTANT: 0.0}.get(self.process, self.cv or 0.0))

    def _bad_numbers(self) -> Iterator[str]:
        numbers = {
            "--rate": self.rate,
            "--speedup": self.speedup,
            "--cv": self.cv,
            "--on-period": self.on_period_s,
        }
        for option, value in numbers.items():
            if value is not None and not 0 < value < math.inf:
                yield f"{option} must be positive, not {value:g}"
        if self.on_share is not None and not 0 < self.on_share < 1:
            yield f"--on-share must lie between 0 and 1, not {self.on_share:g}"
        for option, count in {"--limit": self.limit, "--repeat": self.repeat}.items():
            if count is not None and count < 1:
                yield f"{option} must be at least 1, not {count}"

    def _bad_process(self) -> Iterator[str]:
        if self.process not in PROCESSES:
            yield unknown("--arrivals", self.process, PROCESSES, remedy=f"(known: {', '.join(PROCESSES)})")
            return
        varied, bursts = (
            self.process in VARIED,
            {"--on-share": self.on_share, "--on-period": self.on_period_s},
        )
        if self.cv is not None and not varied:
            yield f"--cv goes with --arrivals {' or '.join(VARIED)}, not {self.process}"
        if varied and self.cv is None:
            yield f"--arrivals {self.process} needs --cv, the coefficient of variation of its gaps"
        for option, value in bursts.items():
            if value is not None and self.process != ONOFF:
                yield f"{option} goes with --arrivals {ONOFF}, not {self.process}"
            if value is None and self.process == ONOFF:
                yield f"--arrivals {ONOFF} needs {option}"


def shaped(requests: Iterable[Request], load: Load, own_rate: float | None = None) -> Iterator[Request]:
    """Yield requests as a load has them arrive, in constant memory.

    ``own_rate`` (requests/s) is the rate of the whole trace, which ``check_trace`` finds; --rate, --repeat
    and processes without a rate need it. Raises InputError where it is missing, and for requests that are to
    repeat but can be read once only.
    """
    if load.repeat > 1 and iter(requests) is requests:
        raise InputError("--repeat reads the trace several times; pass an iterable that can be read again")
    if load.process == TRACE:
        return _own_gaps(requests, load, own_rate)
    times = load.arrivals(own_rate).times(Random(f"gaps {load.seed}"))
    return (_at(time, request) for request, time in zip(_rounds(requests, load), times))


def _own_gaps(requests: Iterable[Request], load: Load, own_rate: float | None) -> Iterator[Request]:
    needed = [*["--rate"] * (load.rate is not None), *["--repeat"] * (load.repeat > 1)]
    if needed and not own_rate:
        raise InputError(f"{' and '.join(needed)}: the trace has no rate of its own; pass --arrivals poisson")
    speed = load.rate / own_rate if load.rate and own_rate else load.speedup or 1.0
    return _scaled(requests, load, speed, 1 / own_rate if own_rate else 0.0)


def _scaled(requests: Iterable[Request], load: Load, speed: float, gap: float) -> Iterator[Request]:
    """Yield requests on the trace's own clock, a mean gap between one playing of it and the next."""
    start = time = 0.0
    for _ in range(load.repeat):
        first: float | None = None
        for request in islice(requests, load.limit):
            first = request.arrival_s if first is None else first
            time = start + request.arrival_s - first
            yield _at(time / speed, request)
        start = time + gap


def _rounds(requests: Iterable[Request], load: Load) -> Iterator[Request]:
    for _ in range(load.repeat):
        yield from islice(requests, load.limit)


def _at(time: float, request: Request) -> Request:
    return Request(time, *request[1:])
