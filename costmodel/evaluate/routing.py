"""Where a request goes: which route of its strategy, and which instance of the pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ..inputs.workload import Request, Slo
from ..serving.chunk_cap import Cap, Steps, largest_step
from ..serving.deployment import Deployment, Settings
from ..serving.memory import KvPool
from ..serving.strategies import Role, Rule, RuleKind, Strategy
from .prefix import PrefixCache
from .tiers import Prefixes


class Routed(Protocol):
    """What a router sees of an instance, at the moment it asks.

    ``pending_tokens``: prompt tokens to compute; ``load``: requests placed there that have not left;
    ``committed``: bytes of KV a GPU that those which decode there were or will be admitted with.
    """

    pending_tokens: int
    load: int
    placed: int
    committed: int

    @property
    def settings(self) -> Settings:
        """What the engine is told."""

    @property
    def times(self) -> Steps:
        """Its step times."""

    @property
    def pool(self) -> KvPool:
        """Its KV memory."""

    @property
    def cache(self) -> PrefixCache:
        """Its prefix cache."""

    @property
    def prefixes(self) -> Prefixes:
        """The prefixes that it need not compute."""

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


def mixed_cap(strategy: Strategy, slo: Slo) -> Cap | None:
    """Return the limit that a Kairos rule puts on mixed steps, none of seconds without a TPOT SLO."""
    rule = strategy.rule
    if rule is None or not rule.kairos:
        return None
    return Cap(rule.beta * slo.tpot_s if slo.tpot_s is not None else None, rule.candidates)


class Placement(NamedTuple):
    """The instance that computes a prompt, the tokens that it need not compute, whether the KV is copied afterwards.

    ``reads``: which of those tokens are read before, as place of a tier and tokens.
    """

    instance: Any
    cached: int
    copies: bool
    reads: tuple[tuple[int, int], ...] = ()


class Router:
    """Places requests on arrival, with the state of every instance in view; a placement is final.

    Among the instances of a pool: fewest prompt tokens pending, then fewest requests. Decode instances for a
    hand-over: fewest KV bytes placed there. Ties go to the one placed upon least often, so that idle
    instances, and their ports, take turns.
    """

    def __init__(
        self,
        strategy: Strategy,
        pools: Mapping[Role, Sequence[Routed]],
        deployment: Deployment,
        slo: Slo,
    ) -> None:
        self.deployment, self.slo, self.rule = deployment, slo, strategy.rule
        first = strategy.routes[0]
        self.copies = first.copies
        self.prompts, self.decodes = pools[first.prefill], pools[first.decode]
        self.routing = deployment.settings.routing
        self.cap = mixed_cap(strategy, slo)
        self._turns: dict[int, int] = {}

    def place(self, request: Request, now: float) -> Placement:
        """Return where the prompt is computed."""
        if self.rule is not None:
            found = self._deflection(self.rule, request, now)
            if found is not None:
                return self._placed(found, request, copies=False)
        return self._placed(self.choose(self.prompts, request), request, copies=self.copies)

    def _placed(self, inst: Routed, request: Request, *, copies: bool) -> Placement:
        found = inst.prefixes.find(request)
        inst.prefixes.take(request, found)
        return Placement(inst, found.cached, copies, found.reads)

    def decode_instance(self) -> Any:
        """Return the decode instance that pulls the next KV."""
        if self.routing == "round-robin":
            return self._turn(self.decodes)
        return self.least_kv()

    def least_kv(self) -> Any:
        """Return the decode instance with the fewest KV bytes placed there."""
        return self.decodes[0] if len(self.decodes) == 1 else min(self.decodes, key=kv_key)

    def _turn(self, pool: Sequence[Routed]) -> Any:
        turn = self._turns.get(id(pool), 0)
        self._turns[id(pool)] = (turn + 1) % len(pool)
        return pool[turn]

    def choose(self, pool: Sequence[Routed], request: Request) -> Any:
        """Return the instance of a pool that a prompt goes to."""
        if self.routing == "round-robin":
            return self._turn(pool)
        if self.routing == "prefix" and request.blocks:
            return min(
                pool, key=lambda inst: (prompt_key(inst)[0] - cached(inst, request), *prompt_key(inst))
            )
        return self.shortest(pool)

    def shortest(self, pool: Sequence[Routed]) -> Any:
        """Return the instance with the fewest prompt tokens pending."""
        return pool[0] if len(pool) == 1 else min(pool, key=prompt_key)

    def _deflection(self, rule: Rule, request: Request, now: float) -> Any:
        """Return the decode instance that computes this prompt itself, or None to prefill remotely."""
        if not rule.kairos:
            nearest = self.choose(self.decodes, request)
            uncached = request.isl - cached(nearest, request)
            if rule.kind is RuleKind.BUSY:
                queued = sum(inst.queued for inst in self.prompts)
                return nearest if uncached <= rule.threshold or queued >= rule.queue else None
            return nearest if uncached < rule.threshold else None
        return self._kairos(rule, request, now)

    def _kairos(self, rule: Rule, request: Request, now: float) -> Any:
        assert self.cap is not None
        limit = rule.alpha * self._remote_ttft(rule, request)
        if self.slo.ttft_s is not None:
            limit = min(limit, self.slo.ttft_s)
        best: tuple[float, Routed] | None = None
        for inst in self.decodes:
            if inst.pending_tokens or not inst.fits(inst.admitted_bytes(request), now):
                continue
            local = _deflected_ttft(inst, self.cap, *_estimated(rule, inst, request), limit, now)
            if local is not None and (best is None or local < best[0]):
                best, limit = (local, inst), min(limit, local)
        return best[1] if best else None

    def _remote_ttft(self, rule: Rule, request: Request) -> float:
        """Estimate TTFT by way of the prefill pool: queue and execution, and the copy unless as printed.

        As printed: the queue is its tokens over the chunk, times the step of a chunk half-way through them.
        """
        inst = self.shortest(self.prompts)
        chunk = inst.settings.token_budget
        pending = inst.pending_tokens
        wait = 0.0
        if pending:
            wait = pending / chunk * inst.times.prefill(chunk, pending // 2)
        uncached, prefix = _estimated(rule, inst, request)
        execution, done = 0.0, 0
        while done < uncached:
            size = min(chunk, uncached - done)
            execution += inst.times.prefill(size, prefix + done)
            done += size
        if rule.kind is RuleKind.KAIROS_PRINTED:
            return wait + execution
        path = self.deployment.path
        copied = uncached
        if not request.blocks and self.deployment.held != "both":
            copied = request.isl if self.deployment.copies_prefix else request.uncached_tokens
        return wait + execution + path.control_s + path.exposed_s(copied, execution)


def prompt_key(inst: Routed) -> tuple[int, int, int]:
    """Order of instances for a prompt: tokens pending, requests there, times placed upon."""
    return inst.pending_tokens, inst.load, inst.placed


def kv_key(inst: Routed) -> tuple[float, int]:
    """Order of decode instances for a hand-over: share of the pool placed there, times placed upon."""
    return inst.committed / inst.pool.pool_bytes, inst.placed


def cached(inst: Routed, request: Request) -> int:
    """Prompt tokens that an instance need not compute: those in its memory, and those that it would read."""
    return inst.prefixes.find(request).cached


def _estimated(rule: Rule, inst: Routed, request: Request) -> tuple[int, int]:
    """Uncached and cached tokens as an estimate sees them; the printed one knows of no cached prefix."""
    if rule.kind is RuleKind.KAIROS_PRINTED:
        return request.isl, 0
    found = cached(inst, request)
    return request.isl - found, found


def _deflected_ttft(
    inst: Routed, cap: Cap, uncached: int, prefix: int, limit: float, now: float
) -> float | None:
    """Sum the mixed steps of the largest safe chunks; None when none is safe or the limit is passed."""
    times, batch, context, budget = inst.times, inst.batch, inst.context_at(now), inst.settings.token_budget
    done, elapsed, place = 0, 0.0, 0
    while done < uncached:
        # A longer prefix never makes a larger chunk safe again: go on from the last one's place.
        found = largest_step(times, cap, uncached - done, prefix + done, batch, context, budget, place)
        if found is None:
            return None
        elapsed += found.seconds
        if elapsed > limit:
            return None
        done, place = done + found.tokens, found.place
    return elapsed
