"""What no instance can ever hold: checked before a request is placed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from ..errors import NoAnswerError
from ..inputs.workload import LONGEST, Request
from ..serving.deployment import Deployment
from ..serving.memory import KvPool
from ..serving.strategies import Role, Strategy


class Limit(NamedTuple):
    """A KV pool that every request must fit when it is empty: ``most_tokens``, of prompt and output if ``whole``."""

    pool: KvPool
    whole: bool
    most_tokens: int


def limits(strategy: Strategy, deployment: Deployment) -> list[Limit]:
    """Return the pools that the requests of a strategy pass through, each once."""
    found = {}
    for spec in strategy.pools:
        whole = strategy.pooled or spec.role is Role.DECODE
        for _, pool in deployment.pool(spec.role):
            found[id(pool), whole] = Limit(pool, whole, _most_tokens(pool))
    return list(found.values())


def _most_tokens(pool: KvPool) -> int:
    """Longest sequence that a pool holds, or more than is ever followed."""
    return bisect_right(range(4 * LONGEST), pool.pool_bytes, key=pool.held_bytes) - 1


def check_fits(request: Request, known: Iterable[Limit]) -> None:
    """Check that a request's KV fits an empty instance of each pool. Raises NoAnswerError."""
    for pool, whole, most in known:
        tokens = request[1] + request[2] + (request[3] if whole else 0)
        if tokens > most:
            need = pool.held_bytes(tokens)
            raise NoAnswerError(
                f"a request of {request.isl} prompt and {request.output_tokens} output tokens needs "
                f"{need:.0f} bytes of KV a GPU, {need - pool.pool_bytes:.0f} more than the whole "
                f"pool of {pool.kind.label()}"
            )
