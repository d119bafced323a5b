"""The ideal of a request: alone, unchunked, on the fastest instance kind of the comparison."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from ..inputs.workload import Request


class Alone(Protocol):
    """Times of a request that has an instance to itself, in seconds."""

    def prefill(self, tokens: int, prefix: int = 0) -> float:
        """One prompt alone, in one step."""

    def decode(self, batch: int, context: float) -> float:
        """One decode step."""


class Runs(Alone, Protocol):
    """Times of many decode steps at once, too."""

    def run(self, batch: int, context: int, count: int) -> float:
        """``count`` decode steps, the first of them over ``context`` tokens in all."""


class Ideal:
    """Prefill and decode times of a request alone. The fastest kind is the one whose sum is least."""

    def __init__(self, kinds: Sequence[Runs]) -> None:
        self.kinds = list(kinds)
        self._only = self.kinds[0] if len(self.kinds) == 1 else None

    def of(self, request: Request) -> tuple[float, float]:
        """Return (prefill, decode) seconds of a request alone on the fastest kind."""
        _, uncached, cached, outputs = request[:4]
        first, gaps, only = uncached + cached + 1, outputs - 1, self._only
        if only is not None:
            return only.prefill(uncached, cached), only.run(1, first, gaps) if gaps else 0.0
        return min((_alone(times, request) for times in self.kinds), key=sum)

    def again(self, request: Request, found: int) -> float:
        """Return seconds that the kind of the ideal prefills longer over ``found`` cached tokens than over the ideal's.

        0 where they are as many; negative where more were found.
        """
        if found == request.cached_tokens:
            return 0.0
        times = self._only or min(self.kinds, key=lambda each: sum(_alone(each, request)))
        return _longer(times, request, found)


def _alone(times: Runs, request: Request) -> tuple[float, float]:
    gaps = request.output_tokens - 1
    prefill = times.prefill(request.uncached_tokens, request.cached_tokens)
    return prefill, times.run(1, request.isl + 1, gaps) if gaps else 0.0


def _longer(times: Alone, request: Request, found: int) -> float:
    ideal = times.prefill(request.uncached_tokens, request.cached_tokens)
    return times.prefill(request.isl - found, found) - ideal


def smooth(kinds: Iterable[Alone], request: Request) -> tuple[float, float]:
    """``Ideal.of`` with every decode step at the mean context: the same where steps are affine in the context."""
    return min((_smooth(times, request) for times in kinds), key=sum)


def smooth_again(kinds: Iterable[Alone], request: Request, found: int) -> float:
    """``Ideal.again`` of the kind that :func:`smooth` takes."""
    if found == request.cached_tokens:
        return 0.0
    return _longer(min(kinds, key=lambda times: sum(_smooth(times, request))), request, found)


def _smooth(times: Alone, request: Request) -> tuple[float, float]:
    gaps = request.output_tokens - 1
    context = request.isl + request.output_tokens / 2
    return times.prefill(request.uncached_tokens, request.cached_tokens), gaps * times.decode(1, context)
