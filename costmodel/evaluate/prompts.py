"""Prefill times of a workload's typical prompts: alone, and in chunks beside decodes. For closed forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..step import StepTimes
from ..work import Chunk
from ..workload import Request

Weights = Sequence[float]


class Moments(NamedTuple):
    """Mean and squared coefficient of variation."""

    mean: float
    scv: float


def moments(values: Sequence[float], weights: Weights) -> Moments:
    """Return weighted moments; zeros where the weights are all zero."""
    total = sum(weights)
    if total <= 0:
        return Moments(0.0, 0.0)
    mean = sum(v * w for v, w in zip(values, weights)) / total
    square = sum(v * v * w for v, w in zip(values, weights)) / total
    return Moments(mean, max(0.0, square / mean**2 - 1) if mean > 0 else 0.0)


class InChunks(NamedTuple):
    """Prompts in chunks beside decodes: seconds a prompt in full steps, seconds alone, steps a prompt."""

    full: list[float]
    alone: list[float]
    steps: list[float]


class PromptTimes:
    """Times of typical prompts on one instance kind; chunk attention is cached by prompt and chunk."""

    def __init__(self, times: StepTimes, requests: Sequence[Request]) -> None:
        self.times, self.requests = times, requests
        self.alone = [times.prefill(r.uncached_tokens, r.cached_tokens) for r in requests]
        self._attention: dict[tuple[int, int], float] = {}

    def _chunk_attention(self, index: int, chunk: int) -> float:
        """Attention time of all chunks of one prompt."""
        key = (index, chunk)
        found = self._attention.get(key)
        if found is None:
            request, done, found = self.requests[index], 0, 0.0
            while done < request.uncached_tokens:
                size = min(chunk, request.uncached_tokens - done)
                found += self.times.chunk_time(Chunk(size, request.cached_tokens + done))
                done += size
            self._attention[key] = found
        return found

    def in_chunks(self, chunk: int, batch: float, context: float) -> InChunks:
        """Times of prompts in chunks beside ``batch`` decodes over ``context`` cached tokens each.

        ``full``: every step holds a full chunk, what the last one leaves goes to the next prompt.
        ``alone``: the last step holds what is left of this prompt only.
        """
        times = self.times
        riding = times.decode_attention_smooth(batch, batch * context)
        step = times.token_smooth(chunk + batch, batch) + riding
        answer = InChunks([], [], [])
        for index, request in enumerate(self.requests):
            attention = self._chunk_attention(index, chunk)
            whole, rest = divmod(request.uncached_tokens, chunk)
            alone = whole * step + attention
            if rest:
                alone += times.token_smooth(rest + batch, batch + 1) + riding
            answer.full.append(request.uncached_tokens / chunk * step + attention)
            answer.alone.append(alone)
            answer.steps.append(request.uncached_tokens / chunk)
        return answer
