"""Where a request goes: which route of its strategy, and which instance of the pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ..inputs.workload import Request, Slo
from ..serving.chunk_cap import Cap, Steps, largest_chunk
from ..serving.deployment import Deployment, Settings
from ..serving.memory import KvPool
from ..serving.strategies import Role, Route, Rule, RuleKind, Strategy
from ..serving.work import Chunk
from .prefix import PrefixCache


class Routed(Protocol):
    """What a router sees of an instance, at the moment it asks.

    ``pending_tokens``: prompt tokens to compute; ``load``: requests placed there that have not left;
    ``committed``: bytes of KV a GPU that those which decode there were or will be admitted with.
    """

    settings: Settings
    times: Steps
    pool: KvPool
    cache: PrefixCache
    pending_tokens: int
    load: int
    placed: int
    committed: int

    @property
    def batch(self) -> int:
        """Running decodes."""

    @property
    def queued(self) -> int:
        """Prompts that wait for their first step."""

    def admitted_bytes(self, request: Request) -> int:
        """KV bytes a GPU that a request must find free to be admitted to where it decodes."""

    def context_at(self, now: float) -> int:
        """Tokens of all running decodes after the last step that has ended by now."""

    def fits(self, size: int, now: float) -> bool:
        """True when a sequence of ``size`` bytes a GPU finds memory and a seat now."""


class Placement(NamedTuple):
    """The place in its pool of the instance that computes a prompt, the route, and the tokens cached there."""

    place: int
    route: Route
    cached: int


class Router:
    """Places requests on arrival, with the state of every instance in view; a placement is final.

    Among the instances of a pool: fewest prompt tokens pending, then fewest requests. Decode instances for a
    hand-over: fewest KV bytes placed there. Ties go to the one placed upon least often, so that idle
    instances, and their ports, take turns.
    """

    def __init__(
        self,
        strategy: Strategy,
        pools: dict[Role, Sequence[Routed]],
        deployment: Deployment,
        slo: Slo,
    ) -> None:
        self.pools, self.deployment, self.slo = pools, deployment, slo
        self.first, self.rule = strategy.routes[0], strategy.rule
        self.local = strategy.routes[-1]
        self.routing = deployment.settings.routing
        self._turns = dict.fromkeys(pools, 0)

    def place(self, request: Request, now: float) -> Placement:
        """Return where the prompt is computed, and the route taken."""
        if self.rule is not None:
            found = self._deflection(self.rule, request, now)
            if found is not None:
                return self._placed(Role.DECODE, found, self.local, request)
        role = self.first.prefill
        return self._placed(role, self._choose(role, request), self.first, request)

    def _placed(self, role: Role, place: int, route: Route, request: Request) -> Placement:
        return Placement(place, route, _cached(self.pools[role][place], request))

    def decode_instance(self) -> int:
        """Return the place of the decode instance that pulls the next KV."""
        pool = self.pools[Role.DECODE]
        if self.routing == "round-robin":
            return self._turn(Role.DECODE)
        return min(
            range(len(pool)), key=lambda i: (pool[i].committed / pool[i].pool.pool_bytes, pool[i].placed)
        )

    def _turn(self, role: Role) -> int:
        turn = self._turns[role]
        self._turns[role] = (turn + 1) % len(self.pools[role])
        return turn

    def _choose(self, role: Role, request: Request) -> int:
        pool = self.pools[role]
        if self.routing == "round-robin":
            return self._turn(role)
        if self.routing == "prefix" and request.blocks:
            return min(
                range(len(pool)),
                key=lambda i: (
                    pool[i].pending_tokens + request.isl - _cached(pool[i], request),
                    pool[i].load,
                    pool[i].placed,
                ),
            )
        return min(range(len(pool)), key=lambda i: (pool[i].pending_tokens, pool[i].load, pool[i].placed))

    def _deflection(self, rule: Rule, request: Request, now: float) -> int | None:
        """Return the decode instance that computes this prompt itself, or None to prefill remotely."""
        if not rule.kairos:
            nearest = self._choose(Role.DECODE, request)
            uncached = request.isl - _cached(self.pools[Role.DECODE][nearest], request)
            if rule.kind is RuleKind.BUSY:
                queued = sum(inst.queued for inst in self.pools[Role.PREFILL])
                return nearest if uncached <= rule.threshold or queued >= rule.queue else None
            return nearest if uncached < rule.threshold else None
        return self._kairos(rule, request, now)

    def _kairos(self, rule: Rule, request: Request, now: float) -> int | None:
        limit = rule.alpha * self._remote_ttft(rule, request)
        if self.slo.ttft_s is not None:
            limit = min(limit, self.slo.ttft_s)
        cap = Cap(rule.beta * self.slo.tpot_s if self.slo.tpot_s is not None else None, rule.candidates)
        best: tuple[float, int] | None = None
        for place, inst in enumerate(self.pools[Role.DECODE]):
            if inst.pending_tokens or not inst.fits(inst.admitted_bytes(request), now):
                continue
            local = _deflected_ttft(inst, cap, *_estimated(rule, inst, request), limit, now)
            if local is not None and (best is None or local < best[0]):
                best = local, place
        return best[1] if best else None

    def _remote_ttft(self, rule: Rule, request: Request) -> float:
        """Estimate TTFT by way of the prefill pool: queue and execution, and the copy unless as printed.

        As printed: the queue is its tokens over the chunk, times the step of a chunk half-way through them.
        """
        inst = self.pools[Role.PREFILL][self._least(Role.PREFILL)]
        chunk = inst.settings.token_budget
        pending = inst.pending_tokens
        wait = 0.0
        if pending:
            wait = pending / chunk * inst.times.prefill(chunk, pending // 2)
        uncached, cached = _estimated(rule, inst, request)
        execution, done = 0.0, 0
        while done < uncached:
            size = min(chunk, uncached - done)
            execution += inst.times.prefill(size, cached + done)
            done += size
        if rule.kind is RuleKind.KAIROS_PRINTED:
            return wait + execution
        path = self.deployment.path
        return wait + execution + path.control_s + path.exposed_s(uncached, execution)

    def _least(self, role: Role) -> int:
        """The instance with the fewest prompt tokens pending, whatever the routing."""
        pool = self.pools[role]
        return min(range(len(pool)), key=lambda i: (pool[i].pending_tokens, pool[i].load, pool[i].placed))


def _cached(inst: Routed, request: Request) -> int:
    """Prompt tokens cached on an instance: those of its prefix cache where the blocks are known."""
    return inst.cache.hit(request) if request.blocks else request.cached_tokens


def _estimated(rule: Rule, inst: Routed, request: Request) -> tuple[int, int]:
    """Uncached and cached tokens as an estimate sees them; the printed one knows of no cached prefix."""
    if rule.kind is RuleKind.KAIROS_PRINTED:
        return request.isl, 0
    cached = _cached(inst, request)
    return request.isl - cached, cached


def _deflected_ttft(
    inst: Routed, cap: Cap, uncached: int, cached: int, limit: float, now: float
) -> float | None:
    """Sum the mixed steps of the largest safe chunks; None when none is safe or the limit is passed."""
    times, batch, context, budget = inst.times, inst.batch, inst.context_at(now), inst.settings.token_budget
    done, elapsed = 0, 0.0
    while done < uncached:
        left, prefix = uncached - done, cached + done
        chunk = largest_chunk(times, cap, left, prefix, batch, context, budget)
        if chunk is None:
            return None
        elapsed += times.step((Chunk(chunk, prefix),), int(chunk == left), batch, context)
        if elapsed > limit:
            return None
        done += chunk
        # A longer prefix never makes a larger chunk safe again.
        cap = Cap(cap.step_s, tuple(size for size in cap.candidates if size <= chunk))
    return elapsed
