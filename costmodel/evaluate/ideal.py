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
        best = (float("inf"), 0.0)
        for times in self.kinds:
            decode = times.run(1, first, gaps) if gaps else 0.0
            best = min(best, (times.prefill(uncached, cached), decode), key=sum)
        return best


def smooth(kinds: Iterable[Alone], request: Request) -> tuple[float, float]:
    """``Ideal.of`` with every decode step at the mean context: the same where steps are affine in the context."""
    gaps = request.output_tokens - 1
    context = request.isl + request.output_tokens / 2
    pairs = [
        (times.prefill(request.uncached_tokens, request.cached_tokens), gaps * times.decode(1, context))
        for times in kinds
    ]
    return min(pairs, key=sum)
