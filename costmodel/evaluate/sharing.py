"""Prompts that share a step: whole ones, as many as the token budget takes, first come first served.

Sharing saves the fixed part of a step, so a crowd is served faster than one by one; and whoever is in a step waits for
all of it. Both are counted at means: approximate.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from .prompts import PromptTimes, Weights, moments
from .waits import Gaps, mean_wait

#: How narrowly the mean number that share a step is found: it depends on the wait, and the wait on it.
_NARROW = 0.02


@dataclass(frozen=True)
class Sharing:
    """Typical prompts in whole steps: ``own`` seconds of each in a step of its own, ``fixed`` of which any step takes.

    ``partners``: how many more prompts a step takes behind each, where enough wait.
    """

    own: tuple[float, ...]
    fixed: float
    partners: tuple[float, ...]
    weights: tuple[float, ...]

    @property
    def most(self) -> float:
        """Prompts of a step where enough wait, on average."""
        return 1 + moments(self.partners, self.weights).mean

    @property
    def added(self) -> float:
        """Mean seconds that one more prompt adds to a step."""
        return moments(self.own, self.weights).mean - self.fixed

    def takes(self, size: float) -> tuple[float, ...]:
        """Seconds that each prompt takes of an instance where so many share a step."""
        saved = self.fixed * (1 - 1 / size)
        return tuple(max(0.0, seconds - saved) for seconds in self.own)

    def size(self, gaps: Gaps, servers: int) -> float:
        """Mean number of prompts in the step of one that waited; the queue is stable where every step is full.

        As many come while it waits as came before it and wait still, at most what the budget takes.
        """
        low, high = 1.0, self.most
        while high - low > _NARROW:
            size = (low + high) / 2
            taken = moments(self.takes(size), self.weights)
            if gaps.rate * taken.mean >= servers:
                low = size
                continue
            wanted = 1 + 2 * mean_wait(gaps, taken, servers) * gaps.rate / servers
            low, high = (size, high) if wanted > size else (low, size)
        return high


def sharing(prompts: PromptTimes, weights: Weights, budget: int) -> Sharing:
    """Return how the typical prompts share steps of at most ``budget`` tokens (a longer one has a step of its own)."""
    sizes = prompts.uncached
    total = sum(weights)
    partners = _partners([budget - tokens for tokens in sizes], sizes, weights)
    if total <= 0 or not any(partners):
        return Sharing(tuple(prompts.alone), 0.0, (0.0,) * len(sizes), tuple(weights))
    mean = round(sum(n * w for n, w in zip(sizes, weights)) / total)
    return Sharing(tuple(prompts.alone), prompts.saved(mean), partners, tuple(weights))


def _partners(rooms: Sequence[int], sizes: Sequence[int], weights: Weights) -> tuple[float, ...]:
    """Mean numbers of prompts that fit into so many tokens, the next in line first."""
    ordered = sorted(zip(sizes, weights))
    sums = list(accumulate(((w, n * w, n * n * w) for n, w in ordered), _added))
    found = []
    for room in rooms:
        fitting = bisect_right(ordered, room, key=lambda pair: pair[0])
        heavy, first, second = sums[fitting - 1] if fitting else (0.0, 0.0, 0.0)
        if heavy <= 0:
            found.append(0.0)
            continue
        size, scv = first / heavy, second * heavy / first**2 - 1
        share = heavy / sums[-1][0]
        found.append(share * max(1.0, room / size + (scv - 1) / 2))  # of renewal theory: whole prompts only
    return tuple(found)


def _added(a: tuple[float, float, float], b: tuple[float, float, float]) -> tuple[float, float, float]:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]
