"""Prefill times of a workload's typical prompts: alone, and in chunks beside decodes. For closed forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..inputs.workload import Request
from ..serving.step import StepTimes
from ..serving.work import Chunk

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
    """Prompts in chunks beside decodes: seconds a prompt in full steps, and alone."""

    full: list[float]
    alone: list[float]


class PromptTimes:
    """Times of typical prompts on one instance kind; chunk attention is cached by chunk size."""

    def __init__(self, times: StepTimes, requests: Sequence[Request], weights: Weights | None = None) -> None:
        self.times, self.requests = times, requests
        self.weights = weights or (1.0,) * len(requests)
        self.uncached = [r.uncached_tokens for r in requests]
        self.alone = [times.prefill(r.uncached_tokens, r.cached_tokens) for r in requests]
        self._attention: dict[int, list[float]] = {}
        self._middles: dict[int, Chunk] = {}

    def saved(self, tokens: int) -> float:
        """Seconds that two prompts of so many tokens save by sharing a step."""
        prefix = round(moments([r.cached_tokens for r in self.requests], self.weights).mean)
        both = self.times.step((Chunk(tokens, prefix),) * 2, 2, 0, 0.0)
        return max(0.0, 2 * self.times.prefill(tokens, prefix) - both)

    def chunk_attention(self, chunk: int) -> list[float]:
        """Attention time of all chunks of each prompt."""
        found = self._attention.get(chunk)
        if found is None:
            found = self._attention[chunk] = [self._attention_of(r, chunk) for r in self.requests]
        return found

    def _attention_of(self, request: Request, chunk: int) -> float:
        done, total = 0, 0.0
        while done < request.uncached_tokens:
            size = min(chunk, request.uncached_tokens - done)
            total += self.times.chunk_time(Chunk(size, request.cached_tokens + done))
            done += size
        return total

    def _middle(self, chunk: int) -> Chunk:
        """A chunk over the mean prefix: decodes that ride along are priced beside this one."""
        found = self._middles.get(chunk)
        if found is None:
            means = [r.cached_tokens + max(0, r.uncached_tokens - chunk) / 2 for r in self.requests]
            found = self._middles[chunk] = Chunk(chunk, int(moments(means, self.weights).mean))
        return found

    def full_step(self, chunk: int, batch: float, context: float) -> float:
        """A mixed step of a full chunk beside ``batch`` decodes, less the chunk's own attention."""
        riding = self.times.riding_smooth(self._middle(chunk), batch, batch * context)
        return self.times.token_smooth(chunk + batch, batch) + riding

    def in_chunks(self, chunk: int, batch: float, context: float) -> InChunks:
        """Times of prompts in chunks beside ``batch`` decodes over ``context`` cached tokens each.

        ``full``: every step holds a full chunk, what the last one leaves goes to the next prompt.
        ``alone``: the last step holds what is left of this prompt only.
        """
        times = self.times
        riding = times.riding_smooth(self._middle(chunk), batch, batch * context)
        step = self.full_step(chunk, batch, context)
        answer = InChunks([], [])
        for tokens, attention in zip(self.uncached, self.chunk_attention(chunk)):
            whole, rest = divmod(tokens, chunk)
            mean = attention * chunk / tokens  # of a full chunk
            waits = times.host.excess(step + mean, batch)
            alone = whole * (step + waits) + attention
            if rest:
                last = times.token_smooth(rest + batch, batch + 1) + riding
                alone += last + times.host.excess(last + mean * rest / chunk, batch + 1)
            answer.full.append(tokens / chunk * (step + waits) + attention)
            answer.alone.append(alone)
        return answer
