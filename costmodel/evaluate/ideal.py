"""The ideal of a request: alone, unchunked, on the fastest instance kind of the comparison."""

from __future__ import annotations

from collections.abc import Sequence

from ..inputs.workload import Request
from ..serving.step import StepTimes


class Ideal:
    """Prefill and decode times of a request alone. The fastest kind is the one whose sum is least."""

    def __init__(self, kinds: Sequence[StepTimes]) -> None:
        self.kinds = list(kinds)
        self._sums: list[list[float]] = [[0.0] for _ in self.kinds]

    def _decode(self, index: int, context: int) -> float:
        """Sum of decode steps of a batch of one over contexts 1..context."""
        sums, times = self._sums[index], self.kinds[index]
        while len(sums) <= context:
            sums.append(sums[-1] + times.decode(1, len(sums)))
        return sums[context]

    def smooth(self, request: Request) -> tuple[float, float]:
        """``of`` with every decode step at the mean context: the same where steps are affine in the context."""
        gaps = request.output_tokens - 1
        context = request.isl + request.output_tokens / 2
        pairs = [
            (times.prefill(request.uncached_tokens, request.cached_tokens), gaps * times.decode(1, context))
            for times in self.kinds
        ]
        return min(pairs, key=sum)

    def of(self, request: Request) -> tuple[float, float]:
        """Return (prefill, decode) seconds of a request alone on the fastest kind."""
        best = (float("inf"), 0.0)
        for index, times in enumerate(self.kinds):
            prefill = times.prefill(request.uncached_tokens, request.cached_tokens)
            last = request.isl + request.output_tokens - 1
            decode = self._decode(index, last) - self._decode(index, request.isl)
            best = min(best, (prefill, decode), key=sum)
        return best
