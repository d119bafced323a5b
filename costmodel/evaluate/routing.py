"""Where a request goes: which route of its strategy, and which instance of the pool."""

from __future__ import annotations

from collections.abc import Sequence

from ..inputs.workload import Request, Slo
from ..serving.chunk_cap import Cap, largest_chunk
from ..serving.deployment import Deployment
from ..serving.step import StepTimes
from ..serving.strategies import Role, Route, Rule, RuleKind, Strategy
from ..serving.work import Chunk
from .instances import Instance


class Router:
    """Places requests on arrival, with the state of every instance in view; a placement is final.

    Among the instances of a pool: fewest prompt tokens pending, then the smallest batch. Decode instances
    for a hand-over: fewest KV bytes held or awaited. Ties go to the one placed upon least often, so that
    idle instances, and their ports, take turns.
    """

    def __init__(
        self, strategy: Strategy, pools: dict[Role, list[Instance]], deployment: Deployment, slo: Slo
    ) -> None:
        self.strategy, self.pools, self.deployment, self.slo = strategy, pools, deployment, slo

    def place(self, request: Request) -> tuple[Instance, Route]:
        """Return the instance that computes the prompt, and the route taken."""
        first = self.strategy.routes[0]
        rule = self.strategy.rule
        if rule is not None:
            local = self.strategy.routes[1]
            target = self._deflection(rule, request)
            if target is not None:
                return target, local
        return _least_pending(self.pools[first.prefill]), first

    def decode_instance(self) -> Instance:
        """Return the decode instance that pulls the next KV."""
        return min(self.pools[Role.DECODE], key=_kv_load)

    def _deflection(self, rule: Rule, request: Request) -> Instance | None:
        """Return the decode instance that computes this prompt itself, or None to prefill remotely."""
        decode = self.pools[Role.DECODE]
        if rule.kind is RuleKind.THRESHOLD:
            return _least_pending(decode) if request.uncached_tokens < rule.threshold else None
        if rule.kind is RuleKind.KAIROS_PRINTED:  # its estimates know of no cached prefix
            request = request._replace(uncached_tokens=request.isl, cached_tokens=0)
        remote = self._remote_ttft(rule, request)
        limit = rule.alpha * remote
        if self.slo.ttft_s is not None:
            limit = min(limit, self.slo.ttft_s)
        cap = Cap(rule.beta * self.slo.tpot_s if self.slo.tpot_s is not None else None, rule.candidates)
        best: tuple[float, Instance] | None = None
        for inst in decode:
            if inst.pending_tokens or not inst.fits(request.isl + request.output_tokens):
                continue
            local = _deflected_ttft(
                inst.times, cap, request, len(inst.running), inst.context, inst.settings.token_budget, limit
            )
            if local is not None and (best is None or local < best[0]):
                best = local, inst
        return best[1] if best else None

    def _remote_ttft(self, rule: Rule, request: Request) -> float:
        """Estimate TTFT by way of the prefill pool: queue and execution, and the copy unless as printed.

        As printed: the queue is its tokens over the chunk, times the step of a chunk half-way through them.
        """
        inst = _least_pending(self.pools[Role.PREFILL])
        chunk = inst.settings.token_budget
        pending = inst.pending_tokens
        wait = 0.0
        if pending:
            wait = pending / chunk * inst.times.prefill(chunk, pending // 2)
        execution, done = 0.0, 0
        while done < request.uncached_tokens:
            size = min(chunk, request.uncached_tokens - done)
            execution += inst.times.prefill(size, request.cached_tokens + done)
            done += size
        if rule.kind is RuleKind.KAIROS_PRINTED:
            return wait + execution
        path = self.deployment.path
        return wait + execution + path.control_s + path.exposed_s(request.uncached_tokens, execution)


def _least_pending(instances: Sequence[Instance]) -> Instance:
    return min(
        instances, key=lambda inst: (inst.pending_tokens, len(inst.running) + len(inst.waiting), inst.placed)
    )


def _kv_load(inst: Instance) -> tuple[float, int]:
    awaited = sum(
        inst.pool.held_bytes(record.request.isl + record.request.output_tokens) for record, _ in inst.inbound
    )
    return (inst.used_bytes + awaited) / inst.pool.pool_bytes, inst.placed


def _deflected_ttft(
    times: StepTimes, cap: Cap, request: Request, batch: int, context: int, budget: int, limit: float
) -> float | None:
    """Sum the mixed steps of the largest safe chunks; None when none is safe or the limit is passed."""
    done, elapsed = 0, 0.0
    while done < request.uncached_tokens:
        left, prefix = request.uncached_tokens - done, request.cached_tokens + done
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
