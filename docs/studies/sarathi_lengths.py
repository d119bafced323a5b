"""The requests of Sarathi-Serve's evaluation: lengths with the published median and P90 after its filter."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from random import Random
from statistics import NormalDist

from costmodel.inputs.workload import Lengths, Request

Z90 = NormalDist().inv_cdf(0.9)
Fit = tuple[tuple[float, float], tuple[float, float]]  # median and sigma, of prompts and of outputs


@dataclass(frozen=True)
class Data:
    """Lengths of the paper's table 2: median, P90 and standard deviation, and the longest total kept."""

    name: str
    prompt: tuple[int, int, int]
    output: tuple[int, int, int]
    total: int


CHAT = Data("openchat_sharegpt4", (1730, 5696, 2088), (415, 834, 101), 8192)
ARXIV = Data("arxiv_summarization", (7059, 12985, 3638), (208, 371, 265), 16384)


def weighted(pairs: Iterable[tuple[float, int]], share: float) -> float:
    """The smallest value with at least ``share`` of the weight at or below it."""
    ordered = sorted(pairs)
    left = share * sum(weight for _, weight in ordered)
    for value, weight in ordered:
        left -= weight
        if left <= 0:
            return value
    return ordered[-1][0]


def plain(data: Data) -> Fit:
    """The log-normals with the published medians and P90s, before anything is filtered."""
    prompt, output = ((m, math.log(high / m) / Z90) for m, high, _ in (data.prompt, data.output))
    return prompt, output


def kept(fit: Fit, total: int, points: int = 400) -> list[tuple[float, float, float]]:
    """Median, P90 and standard deviation of prompts and outputs, of those with at most ``total`` tokens."""
    scores = [NormalDist().inv_cdf((i + 0.5) / points) for i in range(points)]
    sides = [[m * math.exp(sigma * z) for z in scores] for m, sigma in fit]
    found = []
    for own, other in (sides, sides[::-1]):
        pairs = [(n, bisect_right(other, total - n)) for n in own]
        count = sum(weight for _, weight in pairs)
        mean = sum(n * weight for n, weight in pairs) / count
        spread = math.sqrt(sum((n - mean) ** 2 * weight for n, weight in pairs) / count)
        found.append((weighted(pairs, 0.5), weighted(pairs, 0.9), spread))
    return found


@cache
def filtered(data: Data, rounds: int = 60) -> Fit:
    """The log-normals of which the requests that pass the filter have the published medians and P90s."""
    fit = plain(data)
    for _ in range(rounds):
        moved = []
        for (m, sigma), (mid, high, _), now in zip(fit, (data.prompt, data.output), kept(fit, data.total)):
            wider = math.log(high / mid) / math.log(now[1] / now[0])
            moved.append((m * mid / now[0], sigma * wider))
        fit = (moved[0], moved[1])
    return fit


def requests(fit: Fit, total: int, count: int, seed: int) -> list[Request]:
    """Requests that pass the filter, one a second on average."""
    random, gaps, clock = Random(f"lengths {seed}"), Random(f"gaps {seed}"), 0.0
    prompts, outputs = (Lengths(m, sigma, 1, 10**6) for m, sigma in fit)
    found: list[Request] = []
    while len(found) < count:
        prompt, output = prompts.draw(random), outputs.draw(random)
        if prompt + output <= total:
            clock += gaps.expovariate(1)
            found.append(Request(clock, prompt, 0, output))
    return found
