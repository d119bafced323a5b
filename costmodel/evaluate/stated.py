"""Stated prefixes in closed forms: what prompts compute on each side, what they read, and how long that takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ..inputs.workload import Request, missed
from ..serving.deployment import Deployment
from ..serving.step import StepTimes
from ..serving.strategies import Role
from ..serving.tiers import KvTier
from .prompts import Weights, moments
from .tiers import holds
from .waits import Gaps, mean_wait


class Reads(NamedTuple):
    """Prompts computed in a pool as they find their prefix: ``seconds`` of each typical one's read, 0 without.

    ``requests``: with the tokens left to compute there. ``instances``: each reads by a port of its own.
    """

    requests: tuple[Request, ...]
    seconds: tuple[float, ...]
    instances: int


class Port(NamedTuple):
    """Reads at one port of a pool: busy share, each typical prompt's mean seconds, and the mean wait among them."""

    utilisation: float
    loads: tuple[float, ...]
    wait: float = 0.0


def reads_of(deployment: Deployment, role: Role, times: StepTimes, requests: Sequence[Request]) -> Reads:
    """Return what typical prompts of unknown blocks compute and read on instances of a role."""
    instances = len(deployment.pool(role))
    if deployment.held != "store":
        seen = requests if deployment.holds(role) else [missed(r) if r.cached_tokens else r for r in requests]
        return Reads(tuple(seen), (0.0,) * len(requests), instances)
    tier, cheaper = deployment.tiers[0], deployment.settings.load == "cheaper"
    found = [_read(tier, times, r, cheaper=cheaper) for r in requests]
    return Reads(tuple(r for r, _ in found), tuple(s for _, s in found), instances)


def _read(tier: KvTier, times: StepTimes, request: Request, *, cheaper: bool) -> tuple[Request, float]:
    seconds = tier.read_s(request.cached_tokens)
    if not seconds:
        return request, 0.0
    if not holds(tier, request.cached_tokens):
        return missed(request), 0.0
    whole, rest = missed(request), times.prefill(request.uncached_tokens, request.cached_tokens)
    if cheaper and times.prefill(whole.uncached_tokens, 0) <= seconds + rest:
        return whole, 0.0
    return request, seconds


def port_of(reads: Reads, weights: Weights, gaps: Gaps, copies: Weights = (), wires: Weights = ()) -> Port:
    """Return the port of an instance that reads these shares of the typical prompts.

    ``copies``: the shares of them that are copied by the same port, each of ``wires`` seconds. Prompts come to a port
    as if by chance: a router that evens out makes waits shorter.
    """
    count = len(weights)
    own = [w * (seconds > 0) / reads.instances for w, seconds in zip(weights, reads.seconds)]
    values, parts = [*reads.seconds, *wires], [*own, *copies]
    share = sum(parts) / count
    if sum(own) <= 0 or share <= 0:
        return Port(0.0, (0.0,) * count)
    service = moments(values, parts)
    arrivals = gaps.thinned(min(1.0, share))._replace(mean=gaps.mean / share)
    use = arrivals.rate * service.mean
    wait = mean_wait(arrivals, service, 1) if use < 1 else math.inf
    return Port(use, tuple(seconds + wait if seconds > 0 else 0.0 for seconds in reads.seconds), wait)


def copied_sizes(deployment: Deployment, requests: Sequence[Request]) -> list[int]:
    """Return the tokens that a hand-over of each typical prompt carries."""
    return [r.isl if deployment.copies_prefix else r.uncached_tokens for r in requests]


def loads_of(ports: tuple[Port, Port], local: Weights) -> list[float]:
    """Seconds of each typical prompt's read, where it leaves (the first port) and where it stays (the second)."""
    parts = zip(ports[0].loads, ports[1].loads, local)
    return [there * (1 - here) + own * here for there, own, here in parts]


def read_waits(ports: tuple[Port, Port], local: Weights) -> list[float]:
    """Seconds that each typical prompt waits for the port of a tier."""
    there, here = (
        port._replace(loads=tuple(port.wait * (load > 0) for load in port.loads)) for port in ports
    )
    return loads_of((there, here), local)
