"""Least times of requests: a prompt's FLOPs and bytes at peak, a decode step that reads each weight once."""

from __future__ import annotations

from functools import lru_cache

from ..errors import InputError
from ..inputs.workload import Request
from ..serving.bound import step_bound
from ..serving.instance import InstanceKind
from ..serving.strategies import Role
from ..serving.work import Chunk
from .detail import statistic
from .offered import Offered
from .ran import Ran


def bound_of(ran: Ran, load: Offered, measure: str, word: str) -> float | None:
    """Return the least that a statistic of a measure can be, seconds; None where physics sets none.

    Each request takes at least its own bound, so that every mean or percentile takes at least that of the bounds.
    """
    try:
        found = [_least(ran, request, measure) for request in load.requests]
        values = [value for value in found if value is not None]
        return statistic(values, word) if values else None
    except InputError:
        return None  # a peak that the GPU's file does not have


def _least(ran: Ran, request: Request, measure: str) -> float | None:
    gaps = request.output_tokens - 1
    prompts, decodes = _kinds(ran)
    prompt = min(_prompt(kind, request.uncached_tokens, request.cached_tokens) for kind in prompts)
    if measure in ("ttft", "prefill_time"):
        return prompt
    if measure not in ("tpot", "itl", "e2e", "decode_time") or (not gaps and measure != "e2e"):
        return None
    step = min(_decode(kind, request.isl) for kind in decodes) if gaps else 0.0
    if measure in ("tpot", "itl"):
        return step
    return gaps * step + (prompt if measure == "e2e" else 0.0)


def _kinds(ran: Ran) -> tuple[set[InstanceKind], set[InstanceKind]]:
    """Kinds of instances that may compute a prompt, and that may decode."""
    deployment = ran.deployment
    if ran.strategy.pooled:
        shared = {kind for kind, _ in deployment.pool(Role.SHARED)}
        return shared, shared
    roles = {route.prefill for route in ran.strategy.routes}
    prompts = {kind for role in roles for kind, _ in deployment.pool(role)}
    return prompts, {deployment.decode}


@lru_cache(maxsize=20_000)
def _prompt(kind: InstanceKind, tokens: int, prefix: int) -> float:
    return step_bound(kind, (Chunk(tokens, prefix),), 1, 0, 0).time_s


@lru_cache(maxsize=20_000)
def _decode(kind: InstanceKind, context: int) -> float:
    return step_bound(kind, (), 0, 1, context).time_s
