"""Closed forms of an instance: prompts and decodes that share it, and the batch that results.

Two kinds serve every strategy: prompts first (:func:`whole_station`), and prompts in chunks beside decodes
(:func:`mixed_station`), of which a decode-only instance is the case without prompts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from ..formulas import waiting
from ..serving.step import StepTimes
from .prompts import Moments, PromptTimes, Weights, moments


class Offered(NamedTuple):
    """What reaches a pool of ``instances`` equal instances.

    ``prompts``: prompts/s in all, with gaps of squared variation ``scv`` and ``weights`` over the typical
    ones; ``tokens``: decode steps/s of one instance, over ``context`` cached tokens each; ``most``: largest
    batch that memory and seats allow.
    """

    instances: int
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
    seen = max(1.0, batch + 1 / offered.instances)
    return times.decode_smooth(seen, seen * offered.context)


def _full_token(times: StepTimes, offered: Offered) -> float:
    """Seconds a token at the largest batch."""
    return times.decode_smooth(offered.most, offered.most * offered.context) / offered.most


def whole_station(times: StepTimes, prompts: PromptTimes, offered: Offered) -> Station:
    """Prompts first, whole: they queue for each other only, and decodes run in the time that they leave."""
    service = moments(prompts.alone, offered.weights)
    busy = offered.prompts * service.mean / offered.instances
    utilisation = busy + offered.tokens * _full_token(times, offered)
    if utilisation >= 1:
        return Station(utilisation, offered.most, 0.0, 0.0, 0.0, service.mean)
    room = 1 - busy

    def gap(batch: float) -> float:
        return seen_step(times, batch, offered) / room

    batch = _fixed_point(lambda b: offered.tokens * gap(b), offered.most)
    step = gap(batch) * room
    residual = room * min(1.0, batch) * step / 2
    wait = queue_wait(offered.prompts, service, offered.instances, offered.scv) + residual
    return Station(utilisation, batch, step, gap(batch), wait, service.mean)


def mixed_station(
    times: StepTimes,
    prompts: PromptTimes,
    offered: Offered,
    chunk: Callable[[float], int],
    *,
    queues: bool = True,
) -> Station:
    """Prompts in chunks of ``chunk(batch)`` tokens beside decodes, which advance in every step.

    ``queues`` False: a prompt is only placed here when nobody is ahead of it.
    """

    tokens = moments(prompts.uncached, offered.weights).mean
    attention: dict[int, float] = {}

    def mixed(batch: float) -> tuple[float, float]:
        """Mean mixed step, and the share of time that mixed steps take."""
        size = chunk(batch)
        if size not in attention:
            attention[size] = moments(prompts.chunk_attention(size), offered.weights).mean
        steps = tokens / size
        step = prompts.full_step(size, batch, offered.context) + attention[size] / steps
        step = times.host.time(step, batch)
        return step, min(1.0, offered.prompts * steps * step / offered.instances)

    def gap(batch: float) -> float:
        """Mean time between two tokens of a decode, over mixed and decode-only steps."""
        step = seen_step(times, batch, offered)
        if offered.prompts <= 0:
            return step
        length, busy = mixed(batch)
        return 1 / (busy / length + (1 - busy) / step)

    batch = _fixed_point(lambda b: offered.tokens * gap(b), offered.most)
    crowded = offered.tokens * gap(offered.most) / offered.most
    step = seen_step(times, batch, offered)
    if offered.prompts <= 0:
        return Station(crowded, batch, step, step, min(1.0, batch) * step / 2, 0.0)
    found = prompts.in_chunks(chunk(batch), batch, offered.context)
    full = moments(found.full, offered.weights)
    busy = offered.prompts * full.mean / offered.instances
    utilisation = max(busy, crowded)
    if utilisation >= 1:
        return Station(utilisation, batch, step, step, 0.0, full.mean)
    residual = (1 - busy) * min(1.0, batch) * step / 2
    wait = residual + (queue_wait(offered.prompts, full, offered.instances, offered.scv) if queues else 0.0)
    service = busy * full.mean + (1 - busy) * moments(found.alone, offered.weights).mean
    return Station(utilisation, batch, step, gap(batch), wait, service)


def _fixed_point(need: Callable[[float], float], most: float) -> float:
    """Batch b with need(b) = b, by secants kept inside a bracket; ``most`` when need exceeds it there.

    ``need`` grows more slowly than b at the root, since a fuller step serves more tokens a second.
    """
    if need(most) >= most:
        return most
    low, high = 0.0, most
    last, batch = 0.0, min(need(0.0), most)
    excess_last = batch
    for _ in range(60):
        excess = need(batch) - batch
        low, high = (batch, high) if excess > 0 else (low, batch)
        if abs(excess) <= 1e-6 * max(0.1, batch) or high - low <= 1e-9:
            break
        slope = (excess - excess_last) / (batch - last) if batch != last else 0.0
        last, excess_last = batch, excess
        guess = batch - excess / slope if slope < 0 else math.inf
        batch = guess if low < guess < high else (low + high) / 2
    return batch
