"""Closed forms of an instance: prompts and decodes that share it, and the batch that results.

Two kinds serve every strategy: prompts first (:func:`whole_station`), and prompts in chunks beside decodes
(:func:`mixed_station`), of which a decode-only instance is the case without prompts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from ..serving.step import StepTimes
from .line import Line
from .pace import Decodes, Stalls
from .prompts import InChunks, PromptTimes, Weights, moments
from .sharing import sharing
from .waits import Gaps, gi_m_c

#: Growth by which slopes are measured.
_MORE = 1.25


class Offered(NamedTuple):
    """What reaches a pool of ``instances`` equal instances.

    Prompts: a ``share`` of all requests, with ``gaps`` between them at the whole pool and ``weights`` over the
    typical ones; None where there are none. ``tokens``: decode steps/s of one instance, over ``context`` cached tokens
    each; ``most``: largest batch that memory and seats allow; ``turns``: whether instances take turns.
    """

    instances: int
    gaps: Gaps | None
    share: float
    weights: tuple[float, ...]
    tokens: float
    context: float
    most: float
    turns: bool = False

    @property
    def prompts(self) -> float:
        """Prompts/s of the pool."""
        return self.gaps.rate if self.gaps else 0.0


class Station(NamedTuple):
    """State of an instance: offered work over capacity, tokens decoded over the most that memory and seats allow beside
    the prompts, batch, decode step as a request sees it, mean time between its tokens, wait for the first prompt step,
    and a prompt's own time from first to last step.
    """

    utilisation: float
    crowding: float
    batch: float
    step: float
    gap: float
    wait: float
    service: float


class Found(NamedTuple):
    """A station, the line that its prompts wait in, and its decodes; None where none come, or the pool is unstable."""

    station: Station
    line: Line | None = None
    decodes: Decodes | None = None


def seen_step(times: StepTimes, batch: float, offered: Offered) -> float:
    """Decode step that a request sees: its share of the even spread over the pool, and itself."""
    seen = max(1.0, batch + 1 / offered.instances)
    return times.decode_smooth(seen, seen * offered.context)


def _full_token(times: StepTimes, offered: Offered) -> float:
    """Seconds a token at the largest batch."""
    return times.decode_smooth(offered.most, offered.most * offered.context) / offered.most


class Whole(NamedTuple):
    """Prompts that run whole: the line they wait in, the share of time that they take of an instance, and the least
    share, where so many wait that every step is as full as its token budget allows: offered work over capacity.
    """

    line: Line
    busy: float
    utilisation: float


def queue(gaps: Gaps, servers: int, *, turns: bool) -> tuple[Gaps, int]:
    """Gaps and servers of one queue: of each instance where they take turns, of all of them otherwise."""
    return (gaps.every(servers), 1) if turns else (gaps, servers)


def whole_line(
    prompts: PromptTimes, share: float, waiting: tuple[Gaps, int], weights: Weights, budget: int
) -> Whole:
    """Prompts that queue to run whole, those that the token budget takes in one step."""
    shared, (gaps, servers) = sharing(prompts, weights, budget), waiting

    def offered(size: float) -> float:
        return gaps.rate * moments(shared.takes(size), weights).mean / servers

    least = offered(shared.most)
    size = shared.size(gaps, servers) if least < 1 else shared.most
    behind = tuple(partners * shared.added / 2 for partners in shared.partners) if shared.most > 1 else ()
    own = shared.own
    line = Line(
        share, gaps, servers, shared.weights, shared.takes(size), own, own, behind, shared.added, shared.most
    )
    return Whole(line, offered(size), least)


def whole_station(times: StepTimes, prompts: PromptTimes, offered: Offered, budget: int) -> Found:
    """Prompts first, whole: they queue for each other only, and decodes run in the time that they leave."""
    assert offered.gaps is not None
    service = moments(prompts.alone, offered.weights)
    waiting = queue(offered.gaps, offered.instances, turns=offered.turns)
    whole = whole_line(prompts, offered.share, waiting, offered.weights, budget)
    decoding = offered.tokens * _full_token(times, offered)
    utilisation, room = whole.utilisation + decoding, 1 - whole.busy
    crowding = decoding / room if room > 0 else math.inf
    if utilisation >= 1 or room <= 0:
        return Found(Station(utilisation, crowding, offered.most, 0.0, 0.0, 0.0, service.mean))

    def gap(batch: float) -> float:
        return seen_step(times, batch, offered) / room

    batch = _fixed_point(lambda b: offered.tokens * gap(b), offered.most)
    step = gap(batch) * room
    line = whole.line._replace(step=step, busy=min(1.0, batch))
    wait = line.mean_wait() + room * line.busy * step / 2
    own = service.mean + line.mean_behind()
    taken = moments(line.takes, line.weights)
    stall = Stalls(offered.prompts / offered.instances, taken, math.inf, _waiting(line), line.mean_wait())
    decodes = _decodes(times, offered, batch, lambda batch, step: stall)
    return Found(Station(utilisation, crowding, batch, step, gap(batch), wait, own), line, decodes)


def _waiting(line: Line) -> float:
    """Share of the prompts of a line that wait, by their mean alone."""
    return gi_m_c(line.gaps.plain, moments(line.takes, line.weights).mean, line.servers)[0]


def _decodes(
    times: StepTimes, offered: Offered, batch: float, stalls: Callable[[float, float], Stalls] | None
) -> Decodes:
    """What runs on the instances of a pool besides prompts."""

    def step(batch: float) -> float:
        return seen_step(times, batch, offered)

    def by_context(batch: float) -> float:
        """What longer contexts add to a step, over what more decodes do."""
        context = offered.context
        now = times.decode_smooth(batch, batch * context)
        longer = times.decode_smooth(batch, batch * context * _MORE) - now
        more = times.decode_smooth(batch * _MORE, batch * _MORE * context) - now
        return min(1.0, max(0.0, longer / more)) if more > 0 else 0.0

    return Decodes(offered.instances, offered.tokens, offered.most, batch, step, stalls, by_context)


def mixed_station(
    times: StepTimes,
    prompts: PromptTimes,
    offered: Offered,
    chunk: Callable[[float], int],
    *,
    queues: bool = True,
) -> Found:
    """Prompts in chunks of ``chunk(batch)`` tokens beside decodes, which advance in every step.

    ``queues`` False: a prompt is only placed here when nobody is ahead of it.
    """

    tokens = moments(prompts.uncached, offered.weights).mean
    attention: dict[int, float] = {}

    def length(size: int, batch: float) -> float:
        """Mean mixed step of a full chunk."""
        if size not in attention:
            attention[size] = moments(prompts.chunk_attention(size), offered.weights).mean
        step = prompts.full_step(size, batch, offered.context) + attention[size] / (tokens / size)
        return times.host.time(step, batch)

    def mixed(batch: float) -> tuple[float, float]:
        """Mean mixed step, and the share of time that mixed steps take."""
        size = chunk(batch)
        step = length(size, batch)
        return step, min(1.0, offered.prompts * (tokens / size) * step / offered.instances)

    def gap(batch: float) -> float:
        """Mean time between two tokens of a decode, over mixed and decode-only steps."""
        step = seen_step(times, batch, offered)
        if offered.prompts <= 0:
            return step
        length, busy = mixed(batch)
        return 1 / (busy / length + (1 - busy) / step)

    batch = _fixed_point(lambda b: offered.tokens * gap(b), offered.most)
    crowding = offered.tokens * gap(offered.most) / offered.most
    step = seen_step(times, batch, offered)
    if offered.prompts <= 0:
        alone = _decodes(times, offered, batch, None) if crowding < 1 else None
        return Found(
            Station(crowding, crowding, batch, step, step, min(1.0, batch) * step / 2, 0.0), None, alone
        )
    found = prompts.in_chunks(chunk(batch), batch, offered.context)
    full = moments(found.full, offered.weights)
    busy = offered.prompts * full.mean / offered.instances
    utilisation = max(busy, crowding)
    if utilisation >= 1:
        return Found(Station(utilisation, crowding, batch, step, step, 0.0, full.mean))
    lag = min(1.0, batch) * step / 2
    line = None
    if queues and offered.gaps:
        many, size, whole = at_times(batch, offered.gaps.scv), chunk(batch), mixed(batch)[0]
        line = _chunked_line(found, offered, whole, size / tokens)._replace(
            step=step, busy=min(1.0, batch), swing=mixed(many)[0] / chunk(many) * size / whole - 1
        )
    wait = (1 - busy) * lag + (line.mean_wait() if line else 0.0)
    service = moments(found.alone, offered.weights).mean  # shared or not: nobody leaves a step before its end
    service += line.mean_behind() if line else 0.0
    waits, some = (line.mean_wait(), _waiting(line)) if line else (0.0, 0.0)

    rate, grain = offered.prompts / offered.instances, max(1, chunk(0) // 8)

    def stalls(running: float, step: float) -> Stalls:
        """What the mixed steps of prompts add to the decodes beside them: alone, or sharing full ones."""
        size = chunk(grain * round(running / grain))  # so that few sizes occur
        here = prompts.in_chunks(size, running, offered.context)
        lone = [own - math.ceil(n / size) * step for own, n in zip(here.alone, prompts.uncached)]
        many = [own - n / size * step for own, n in zip(here.full, prompts.uncached)]
        added = [max(0.0, busy * b + (1 - busy) * a) for a, b in zip(lone, many)]
        longest = max(step, length(size, running))
        backlog = waits * (1 - step / longest)
        return Stalls(rate, moments(added, offered.weights), longest, some, backlog)

    decodes = _decodes(times, offered, batch, stalls)
    return Found(Station(utilisation, crowding, batch, step, gap(batch), wait, service), line, decodes)


def at_times(batch: float, gap_scv: float) -> float:
    """Decodes that run at times: two standard deviations above the mean, which grow with the variation of gaps."""
    return batch + 2 * math.sqrt(batch * max(1.0, (1 + gap_scv) / 2))


def _chunked_line(found: InChunks, offered: Offered, step: float, together: float) -> Line:
    """Prompts that queue to run in chunks: mixed steps of ``step`` seconds, ``together`` prompts in each."""
    assert offered.gaps is not None
    full, alone = tuple(found.full), tuple(found.alone)
    # The step that ends a prompt goes on with those behind it: half of a step more, where they are many.
    behind = tuple(max(0.0, shared + step / 2 - own) for shared, own in zip(full, alone))
    gaps, servers = queue(offered.gaps, offered.instances, turns=offered.turns)
    added = moments(full, offered.weights).mean
    return Line(
        offered.share, gaps, servers, offered.weights, full, alone, alone, behind, added, max(1.0, together)
    )


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
