"""Closed forms of an instance: prompts and decodes that share it, and the batch that results.

Two kinds serve every strategy: prompts first (:func:`whole_station`), and prompts in chunks beside decodes
(:func:`mixed_station`), of which a decode-only instance is the case without prompts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..formulas import waiting
from ..step import StepTimes
from .prompts import InChunks, Moments, PromptTimes, Weights, moments


class Offered(NamedTuple):
    """What reaches a pool of ``count`` equal instances.

    ``prompts``: prompts/s in all, with gaps of squared variation ``scv`` and ``weights`` over the typical
    ones; ``tokens``: decode steps/s of one instance, over ``context`` cached tokens each; ``most``: largest
    batch that memory and seats allow.
    """

    count: int
    prompts: float
    scv: float
    weights: Weights
    tokens: float
    context: float
    most: float


class Station(NamedTuple):
    """State of an instance: offered work over capacity, batch, decode step as a request sees it, mean time
    between its tokens, wait for the first prompt step, and a prompt's own time from first to last step.
    """

    utilisation: float
    batch: float
    step: float
    gap: float
    wait: float
    service: float


def queue_wait(rate: float, service: Moments, servers: int, arrival_scv: float) -> float:
    """Mean wait of one queue before several servers; the caller has checked that it is stable."""
    if rate <= 0 or service.mean <= 0:
        return 0.0
    return float(waiting.allen_cunneen_wait(rate, service.mean, servers, arrival_scv, service.scv))


def seen_step(times: StepTimes, batch: float, offered: Offered) -> float:
    """Decode step that a request sees: its share of the even spread over the pool, and itself."""
    seen = max(1.0, batch + 1 / offered.count)
    return times.decode_smooth(seen, seen * offered.context)


def _full_token(times: StepTimes, offered: Offered) -> float:
    """Seconds a token at the largest batch."""
    return times.decode_smooth(offered.most, offered.most * offered.context) / offered.most


def whole_station(times: StepTimes, prompts: PromptTimes, offered: Offered) -> Station:
    """Prompts first, whole: they queue for each other only, and decodes run in the time that they leave."""
    service = moments(prompts.alone, offered.weights)
    busy = offered.prompts * service.mean / offered.count
    utilisation = busy + offered.tokens * _full_token(times, offered)
    if utilisation >= 1:
        return Station(utilisation, offered.most, 0.0, 0.0, 0.0, service.mean)
    room = 1 - busy

    def gap(batch: float) -> float:
        return seen_step(times, batch, offered) / room

    batch = _fixed_point(lambda b: offered.tokens * gap(b), offered.most)
    step = gap(batch) * room
    residual = room * min(1.0, batch) * step / 2
    wait = queue_wait(offered.prompts, service, offered.count, offered.scv) + residual
    return Station(utilisation, batch, step, gap(batch), wait, service.mean)


def mixed_station(
    times: StepTimes, prompts: PromptTimes, offered: Offered, chunk: Callable[[float], int], *, queues: bool = True
) -> Station:
    """Prompts in chunks of ``chunk(batch)`` tokens beside decodes, which advance in every step.

    ``queues`` False: a prompt is only placed here when nobody is ahead of it.
    """

    def load(batch: float) -> tuple[InChunks, Moments, float]:
        found = prompts.in_chunks(chunk(batch), batch, offered.context)
        full = moments(found.full, offered.weights)
        return found, full, offered.prompts * full.mean / offered.count

    def gap(batch: float) -> float:
        """Mean time between two tokens of a decode, over mixed and decode-only steps."""
        step = seen_step(times, batch, offered)
        if offered.prompts <= 0:
            return step
        found, full, busy = load(batch)
        busy = min(busy, 1.0)
        mixed = full.mean / moments(found.steps, offered.weights).mean
        return 1 / (busy / mixed + (1 - busy) / step)

    batch = _fixed_point(lambda b: offered.tokens * gap(b), offered.most)
    crowded = offered.tokens * gap(offered.most) / offered.most
    step = seen_step(times, batch, offered)
    if offered.prompts <= 0:
        return Station(crowded, batch, step, step, min(1.0, batch) * step / 2, 0.0)
    found, full, busy = load(batch)
    utilisation = max(busy, crowded)
    if utilisation >= 1:
        return Station(utilisation, batch, step, step, 0.0, full.mean)
    residual = (1 - busy) * min(1.0, batch) * step / 2
    wait = residual + (queue_wait(offered.prompts, full, offered.count, offered.scv) if queues else 0.0)
    service = busy * full.mean + (1 - busy) * moments(found.alone, offered.weights).mean
    return Station(utilisation, batch, step, gap(batch), wait, service)


def _fixed_point(need: Callable[[float], float], most: float) -> float:
    """Smallest batch b with need(b) <= b, by bisection; ``most`` when there is none below it."""
    if need(most) > most:
        return most
    low, high = 0.0, most
    while high - low > 1e-4 * max(0.1, high):
        middle = (low + high) / 2
        low, high = (middle, high) if need(middle) > middle else (low, middle)
    return high
