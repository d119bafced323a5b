"""The reference evaluator: token by token, exact and slow.

It interprets a :class:`~costmodel.serving.strategies.Strategy` over a deployment, request by request and step by
step. Later evaluators must agree with it; they share nothing with it but step times.

Order of events: everything that happens at one instant (steps that end, copies that end, arrivals) happens
before the steps that begin at it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..errors import NoAnswerError
from ..inputs.workload import Request, Slo
from ..serving.chunk_cap import Cap
from ..serving.deployment import Deployment
from ..serving.instance import InstanceKind
from ..serving.step import StepTimes
from ..serving.strategies import Role, RuleKind, Schedule, Strategy
from .ideal import Ideal
from .instances import Instance, Prompt, Sequence_
from .routing import Router
from .timeline import PoolUse, Record, Run

_STEP_END, _WIRE_END, _COPIED, _ARRIVAL = 0, 1, 2, 3


class Copy(NamedTuple):
    """A copy that waits or is under way: its ends, its time on the wire, and the part hidden by prefill."""

    record: Record
    source: Instance
    target: Instance
    wire: float
    hidden: float


def step_times(deployment: Deployment) -> dict[InstanceKind, StepTimes]:
    """Return the step times of each instance kind of a deployment, to be shared by evaluations."""
    return {kind: StepTimes(kind) for kind in {deployment.prefill, deployment.decode}}


class Reference:
    """One evaluation: the instances of a strategy's pools, a router and the queue of events."""

    def __init__(
        self,
        strategy: Strategy,
        deployment: Deployment,
        slo: Slo,
        times: dict[InstanceKind, StepTimes] | None = None,
        ideal: Ideal | None = None,
    ) -> None:
        self.strategy = strategy
        self.deployment = deployment
        self.first_token = deployment.settings.first_token
        self.times = times or step_times(deployment)
        self.ideal = ideal or Ideal(list(self.times.values()))
        cap = _cap(strategy, slo)
        self.pools: dict[Role, list[Instance]] = {
            spec.role: [
                Instance(kind, self.times[kind], pool, spec.schedule, deployment.settings, cap)
                for kind, pool in deployment.pool(spec.role)
            ]
            for spec in strategy.pools
        }
        self.router = Router(strategy, self.pools, deployment, slo)
        self.events: list[tuple[float, int, int, object]] = []
        self.order = 0
        self.copies: list[Copy] = []
        self.give_up: Callable[[Record], bool] | None = None
        self.stopped = False

    def run(self, requests: Sequence[Request]) -> Run:
        """Evaluate requests in order of arrival until all have finished, and return their records.

        Raises NoAnswerError for a request whose KV can never fit an instance.
        """
        records = []
        for request in requests:
            self._check_fits(request)
            prefill, decode = self.ideal.of(request)
            record = Record(request, ideal_prefill=prefill, ideal_decode=decode)
            records.append(record)
            self._push(request.arrival_s, _ARRIVAL, record)
        while self.events and not self.stopped:
            self._instant()
        span = max((r.end for r in records if r.finished), default=0.0)
        return Run(self.strategy.name, records, self._uses(span), span)

    def _check_fits(self, request: Request) -> None:
        for instances in self.pools.values():
            for inst in instances:
                tokens = (
                    request.isl
                    if inst.schedule is Schedule.WHOLE and not self.strategy.pooled
                    else (request.isl + request.output_tokens)
                )
                need = inst.pool.held_bytes(tokens)
                if need > inst.pool.pool_bytes:
                    raise NoAnswerError(
                        f"a request of {request.isl} prompt and {request.output_tokens} output tokens needs "
                        f"{need:.0f} bytes of KV a GPU, {need - inst.pool.pool_bytes:.0f} more than the whole "
                        f"pool of {inst.kind.label()}"
                    )

    def _push(self, time: float, what: int, payload: object) -> None:
        heapq.heappush(self.events, (time, what, self.order, payload))
        self.order += 1

    def _instant(self) -> None:
        """Handle everything that happens at the next instant, then begin steps."""
        now = self.events[0][0]
        touched: list[Instance] = []
        while self.events and self.events[0][0] == now:
            _, what, _, payload = heapq.heappop(self.events)
            if what == _STEP_END:
                assert isinstance(payload, Instance)
                touched += self._end_step(payload, now)
            elif what == _WIRE_END:
                self._start_copies(now)
            elif what == _COPIED:
                assert isinstance(payload, Copy)
                touched += self._copied(payload, now)
            else:
                assert isinstance(payload, Record)
                touched.append(self._arrive(payload, now))
        for inst in dict.fromkeys(touched):
            if not inst.busy:
                self._begin_step(inst, now)

    def _arrive(self, record: Record, now: float) -> Instance:
        inst, route = self.router.place(record.request)
        record.route = "remote" if route.copies else "local"
        inst.waiting.append(Prompt(record, inst, route.copies))
        inst.pending_tokens += record.request.uncached_tokens
        inst.placed += 1
        return inst

    # --- steps ---------------------------------------------------------------------------------------

    def _begin_step(self, inst: Instance, now: float) -> None:
        self._seat_copied(inst, now)
        length = inst.begin(now)
        if length is not None:
            self._push(now + length, _STEP_END, inst)

    def _seat_copied(self, inst: Instance, now: float) -> None:
        """Admit requests whose copy has ended, at this step boundary."""
        for record in inst.copied:
            record.d0 = now
            record.seating += now - record.copied
            record.held_byte_s += (now - record.reserved) * inst.held_by(record.request.isl)
            again = self.first_token == "recompute"
            if self.first_token == "decode":
                record.first = now
            if record.request.output_tokens == 1 and not again:
                self._finish(inst, record, now)
                continue
            inst.join(Sequence_(record, again))
        inst.copied.clear()
        self._reserve(inst, now)

    def _end_step(self, inst: Instance, now: float) -> list[Instance]:
        """Account a step that ends: decodes first, then prompts; return the instances to look at."""
        done, prompts = inst.end(now)
        for record in done:
            self._finish(inst, record, now)
        touched = [inst]
        for prompt in prompts:
            touched += self._prefilled(prompt, now)
        self._reserve(inst, now)
        return touched

    def _finish(self, inst: Instance, record: Record, now: float, *, prefill_only: bool = False) -> None:
        """End a request on the instance that holds its KV: that of the prompt alone where only prefill ran."""
        record.end = now
        record.gathering -= record.ideal_decode
        inst.release(record.request.isl + (0 if prefill_only else record.request.output_tokens))
        if self.give_up is not None and self.give_up(record):
            self.stopped = True

    # --- hand-over -----------------------------------------------------------------------------------

    def _prefilled(self, prompt: Prompt, now: float) -> list[Instance]:
        """A prompt is complete: it starts to decode here, or queues for memory on a decode instance."""
        record, inst = prompt.record, prompt.instance
        record.p1 = now
        record.stretch = now - record.p0 - record.ideal_prefill
        single = record.request.output_tokens == 1
        if not prompt.copies:
            record.first = now
            if single:
                self._finish(inst, record, now)
            else:
                inst.join(Sequence_(record, False))
            return [inst]
        if self.first_token == "prefill":
            record.first = now
            if single:
                self._finish(inst, record, now, prefill_only=True)
                return [inst]
        target = self.router.decode_instance()
        target.inbound.append((record, inst))
        target.placed += 1
        self._reserve(target, now)
        return [inst]

    def _reserve(self, target: Instance, now: float) -> None:
        """Reserve memory for the requests that wait to be pulled, first come first served; start copies."""
        while target.inbound:
            record, source = target.inbound[0]
            tokens = record.request.isl + record.request.output_tokens
            if not target.fits(tokens):
                return
            target.inbound.popleft()
            target.hold(tokens)
            self._copy(record, source, target, now)

    def _copy(self, record: Record, source: Instance, target: Instance, now: float) -> None:
        path, tokens = self.deployment.path, record.request.uncached_tokens
        wire = path.wire_s(tokens)
        # Layers copied during prefill are hidden only if memory had been reserved by then.
        hidden = wire - path.exposed_s(tokens, record.p1 - record.p0) if now == record.p1 else 0.0
        record.reserved = now
        record.seating += now - record.p1
        self.copies.append(Copy(record, source, target, wire, hidden))
        self._start_copies(now)

    def _start_copies(self, now: float) -> None:
        """Start every copy whose two ends are both free, in order of reservation; others may pass one that waits."""
        for copy in tuple(self.copies):
            record, source, target, wire, hidden = copy
            if source.link_free > now or target.link_free > now:
                continue
            self.copies.remove(copy)
            start = max(record.reserved - hidden, source.link_free, target.link_free)
            source.link_free = target.link_free = start + wire
            record.link = start + hidden - record.reserved
            record.handover = self.deployment.path.control_s + wire - hidden
            record.copied = start + wire + self.deployment.path.control_s
            self._push(start + wire, _WIRE_END, None)
            self._push(record.copied, _COPIED, copy)

    def _copied(self, copy: Copy, now: float) -> list[Instance]:
        record, source, target, _, _ = copy
        record.held_byte_s += (now - record.p1) * source.held_by(record.request.isl)
        source.release(record.request.isl)
        target.copied.append(record)
        return [source, target]

    def _uses(self, span: float) -> list[PoolUse]:
        uses = []
        for role, instances in self.pools.items():
            use = PoolUse(role.value, len(instances), sum(i.kind.gpus for i in instances), span_s=span)
            for inst in instances:
                inst.add_use(use)
            uses.append(use)
        return uses


def _cap(strategy: Strategy, slo: Slo) -> Cap | None:
    """Return the limit that a Kairos rule puts on mixed steps; none without a TPOT SLO."""
    rule = strategy.rule
    if rule is None or rule.kind is RuleKind.THRESHOLD:
        return None
    return Cap(rule.beta * slo.tpot_s if slo.tpot_s is not None else None, rule.candidates)


def evaluate(
    strategy: Strategy,
    deployment: Deployment,
    requests: Sequence[Request],
    slo: Slo,
    times: dict[InstanceKind, StepTimes] | None = None,
    ideal: Ideal | None = None,
    give_up: Callable[[Record], bool] | None = None,
) -> Run:
    """Evaluate requests (in order of arrival) under a strategy, token by token.

    ``times`` and ``ideal`` may be shared between evaluations of one comparison. ``give_up`` is asked at each
    finished request whether to stop there.
    """
    reference = Reference(strategy, deployment, slo, times, ideal)
    reference.give_up = give_up
    return reference.run(requests)
