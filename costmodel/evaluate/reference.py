"""The reference evaluator: token by token, exact and slow.

It interprets a :class:`~costmodel.serving.strategies.Strategy` over a deployment, request by request and step by
step. Replay must agree with it; they share step times, limits, the router and what is found in caches and
tiers (:mod:`.tiers`), and nothing else: reads are queues of events here, and arithmetic there.

Order of events: everything that happens at one instant (steps, copies and reads that end, arrivals) happens
before the steps that begin at it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ..inputs.workload import Request, Slo
from ..serving.deployment import Deployment
from ..serving.instance import InstanceKind
from ..serving.strategies import Role, Strategy
from ..serving.table import step_tables
from .feed import Feed
from .ideal import Ideal
from .instances import Instance
from .limits import check_fits, limits
from .prefix import copied_tokens
from .reading import Port, Read
from .routing import Router, mixed_cap
from .tasks import Prompt, Sequence_, decode_of
from .tiers import prefixes, shared_stores, used
from .timeline import PoolUse, Record, Run

_STEP_END, _WIRE_END, _COPIED, _READ, _ARRIVAL = 0, 1, 2, 3, 4


class Copy(NamedTuple):
    """A copy that waits or is under way: its ends, its time on the wire, and the part hidden by prefill."""

    sequence: Sequence_
    source_held: int
    source: Instance
    target: Instance
    wire: float
    hidden: float


class Reference:
    """One evaluation: the instances of a strategy's pools, a router and the queue of events."""

    def __init__(
        self,
        strategy: Strategy,
        deployment: Deployment,
        slo: Slo,
        times: Mapping[InstanceKind, Any] | None = None,
        ideal: Ideal | None = None,
    ) -> None:
        self.strategy = strategy
        self.deployment = deployment
        self.settings = deployment.settings
        self.first_token = deployment.settings.first_token
        self.times = times or step_tables(deployment.kinds)
        self.ideal = ideal or Ideal(list(self.times.values()))
        cap, number = mixed_cap(strategy, slo), 0
        self.pools: dict[Role, list[Instance]] = {}
        shared = shared_stores(deployment)
        self.ports: list[list[Port]] = []
        for spec in strategy.pools:
            pool = self.pools[spec.role] = []
            for kind, memory in deployment.pool(spec.role):
                times_ = self.times[kind]
                inst = Instance(number, kind, times_, memory, spec.schedule, self.settings, cap)
                inst.prefixes = prefixes(deployment, spec.role, inst.cache, times_, shared)
                self.ports.append([Port() for _ in deployment.tiers])
                pool.append(inst)
                number += 1
        self.router = Router(strategy, self.pools, deployment, slo)
        self.events: list[tuple[float, int, int, object]] = []
        self.order = 0
        self.copies: list[Copy | Read] = []
        self.records: list[Record] = []
        self.limits = limits(strategy, deployment)
        self.feed, self.constant = Feed(()), deployment.request_latency
        self.give_up: Callable[[Record], bool] | None = None
        self.stopped = False

    def run(self, requests: Iterable[Request], concurrency: int | None = None) -> Run:
        """Evaluate requests in order of arrival until all have finished, and return their records.

        ``concurrency``: clients of a closed loop (:class:`~.feed.Feed`). Raises NoAnswerError for a request
        whose KV can never fit an instance.
        """
        self.feed = Feed(requests, concurrency)
        for _ in range(concurrency or 1):
            self._next(0.0)
        while self.events and not self.stopped:
            self._instant()
        span = max((r.end for r in self.records if r.finished), default=0.0)
        instances = [inst.prefixes for pool in self.pools.values() for inst in pool]
        return Run(self.strategy.name, self.records, self._uses(span), span, used(instances, span))

    def _next(self, now: float) -> None:
        """Let the next request arrive."""
        request = self.feed.next(now)
        if request is None:
            return
        check_fits(request, self.limits)
        prefill, decode = self.ideal.of(request)
        record = Record(request, len(self.records), ideal_prefill=prefill, ideal_decode=decode)
        record.constant = self.constant
        self.records.append(record)
        self._push(request.arrival_s, _ARRIVAL, record)

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
            elif what == _READ:
                assert isinstance(payload, Read)
                touched += self._read_ends(payload, now)
            else:
                assert isinstance(payload, Record)
                touched.append(self._arrive(payload, now))
        for inst in dict.fromkeys(touched):
            if not inst.busy:
                self._begin_step(inst, now)

    def _arrive(self, record: Record, now: float) -> Instance:
        if not self.feed.closed:
            self._next(now)
        request = record.request
        inst: Instance
        inst, cached, copies, reads = self.router.place(request, now)
        record.route = "remote" if copies else "local"
        record.cached, record.prefill_on = cached, inst.number
        record.recomputed_prefix = self.ideal.again(request, cached)
        record.read = sum(tokens for _, tokens in reads)
        prompt = Prompt(record, copies, request.isl - cached, cached, now)
        inst.pending_tokens += prompt.tokens
        inst.load += 1
        inst.placed += 1
        if not copies:
            inst.committed += inst.admitted_bytes(request)
            record.decode_on = inst.number
        if reads:
            self._read(prompt, inst, reads, now)
        else:
            self._join(prompt, inst, now)
        return inst

    def _join(self, prompt: Prompt, inst: Instance, now: float) -> None:
        """Put a prompt into the queue: its own tokens wait there, and those ahead of it."""
        record, prompt.placed = prompt.record, now
        record.load = now - record.request.arrival_s
        record.ahead = len(inst.waiting) + len(inst.partial)
        record.ahead_tokens = inst.pending_tokens - prompt.tokens
        inst.waiting.append(prompt)

    # --- reads of tiers ------------------------------------------------------------------------------

    def _read(self, prompt: Prompt, inst: Instance, reads: Iterable[tuple[int, int]], now: float) -> None:
        """Let a prompt's reads wait for their ports, one for each tier."""
        for place, tokens in reads:
            tier = self.deployment.tiers[place]
            port = None if tier.on_link else self.ports[inst.number][place]
            read = Read(prompt, inst, tier.read_s(tokens), port)
            prompt.reading += 1
            if port is None:
                self.copies.append(read)
            else:
                port.waiting.append(read)
                self._start_read(port, now)
        self._start_copies(now)

    def _start_read(self, port: Port, now: float) -> None:
        if port.waiting and not port.busy:
            port.busy, read = True, port.waiting.popleft()
            self._push(now + read.seconds, _READ, read)

    def _read_ends(self, read: Read, now: float) -> list[Instance]:
        if read.port is not None:
            read.port.busy = False
            self._start_read(read.port, now)
        read.prompt.reading -= 1
        if read.prompt.reading:
            return []
        self._join(read.prompt, read.inst, now)
        return [read.inst]

    # --- steps ---------------------------------------------------------------------------------------

    def _begin_step(self, inst: Instance, now: float) -> None:
        self._seat_copied(inst, now)
        length = inst.begin(now)
        if length is not None:
            self._push(now + length, _STEP_END, inst)

    def _seat_copied(self, inst: Instance, now: float) -> None:
        """Admit requests whose copy has ended, at this step boundary."""
        for sequence in inst.copied:
            record = sequence.record
            record.d0 = now
            record.seating += now - record.copied
            record.held_byte_s += (now - record.reserved) * inst.held_by(record.request.isl)
            if self.first_token == "decode":
                record.first = now
            if sequence.left == 0 and not sequence.again:
                self._finish(inst, sequence, now)
                continue
            inst.join(sequence)
        inst.copied.clear()
        self._reserve(inst, now)

    def _end_step(self, inst: Instance, now: float) -> list[Instance]:
        """Account a step that ends: decodes first, then prompts; return the instances to look at."""
        done, prompts = inst.end(now)
        for sequence in done:
            self._finish(inst, sequence, now)
        touched = [inst]
        for prompt in prompts:
            touched += self._prefilled(inst, prompt, now)
        self._reserve(inst, now)
        return touched

    def _finish(self, inst: Instance, sequence: Sequence_, now: float, *, prefill_only: bool = False) -> None:
        """End a request on the instance that holds its KV: that of the prompt alone where only prefill ran."""
        record = sequence.record
        record.end = now
        record.gathering -= record.ideal_decode
        inst.release(sequence.held)
        inst.load -= 1
        if not prefill_only:
            inst.committed -= inst.admitted_bytes(record.request)
        if self.feed.closed:
            self._next(now + self.constant)
        if self.give_up is not None and self.give_up(record):
            self.stopped = True

    # --- hand-over -----------------------------------------------------------------------------------

    def _prefilled(self, inst: Instance, prompt: Prompt, now: float) -> list[Instance]:
        """A prompt is complete: it starts to decode here, or queues for memory on a decode instance."""
        record = prompt.record
        if prompt.resumes is not None:
            return self._resumed(inst, prompt, prompt.resumes, now)
        record.p1 = now
        record.stretch = now - record.p0 - record.redone - record.ideal_prefill
        inst.cache.add(record.request, inst.pool.pool_bytes - inst.used_bytes)
        inst.prefixes.write(record.request, prompt.tokens)
        sequence = decode_of(record, again=prompt.copies and self.first_token == "recompute")
        sequence.held, sequence.entered = prompt.held, prompt.entered
        if not prompt.copies:
            record.first = now
            if sequence.left == 0:
                self._finish(inst, sequence, now)
            else:
                inst.join(sequence)
            return [inst]
        if self.first_token == "prefill":
            record.first = now
            if sequence.left == 0:
                self._finish(inst, sequence, now, prefill_only=True)
                return [inst]
        target = self.router.decode_instance()
        target.inbound.append((sequence, prompt.held, inst))
        target.placed += 1
        target.load += 1
        target.committed += target.admitted_bytes(record.request)
        record.decode_on = target.number
        self._reserve(target, now)
        return [inst]

    def _resumed(self, inst: Instance, prompt: Prompt, sequence: Sequence_, now: float) -> list[Instance]:
        """A preempted decode is computed again, and produced its next token on the way."""
        if sequence.again:
            sequence.again, sequence.record.first = False, now
            assert sequence.since is not None
            sequence.record.redone += now - sequence.since
        else:
            sequence.left -= 1
        sequence.held, sequence.entered = prompt.held, prompt.entered
        if sequence.left == 0:
            assert sequence.since is not None
            sequence.record.recompute += now - sequence.since
            self._finish(inst, sequence, now)
        else:
            sequence.context += 1
            inst.join(sequence)
        return [inst]

    def _reserve(self, target: Instance, now: float) -> None:
        """Reserve memory for the requests that wait to be pulled, first come first served; start copies."""
        while target.inbound and target.may_pull():
            sequence, source_held, source = target.inbound[0]
            size = target.admitted_bytes(sequence.record.request)
            if not target.fits(size, now):
                return
            target.inbound.popleft()
            sequence.held, sequence.entered = size, target.hold(size)
            self._copy(sequence, source_held, source, target, now)

    def _copy(
        self, sequence: Sequence_, source_held: int, source: Instance, target: Instance, now: float
    ) -> None:
        record, path = sequence.record, self.deployment.path
        tokens = copied_tokens(record.request, target.cache, prefix=self.deployment.copies_prefix)
        wire = path.wire_s(tokens)
        # Layers copied during prefill are hidden only if memory had been reserved by then.
        hidden = wire - path.exposed_s(tokens, record.p1 - record.p0) if now == record.p1 else 0.0
        record.reserved = now
        record.seating += now - record.p1
        self.copies.append(Copy(sequence, source_held, source, target, wire, hidden))
        self._start_copies(now)

    def _start_copies(self, now: float) -> None:
        """Start every copy whose two ends are both free, in order of reservation; others may pass one that waits.

        Reads that cross the same ports take turns with copies.
        """
        for copy in tuple(self.copies):
            if isinstance(copy, Read):
                if copy.inst.link_free <= now:
                    self.copies.remove(copy)
                    copy.inst.link_free = end = now + copy.seconds
                    self._push(end, _WIRE_END, None)
                    self._push(end, _READ, copy)
                continue
            sequence, _, source, target, wire, hidden = copy
            record = sequence.record
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
        sequence, source_held, source, target, _, _ = copy
        record = sequence.record
        record.held_byte_s += (now - record.p1) * source.held_by(record.request.isl)
        source.release(source_held)
        source.load -= 1
        target.cache.add(record.request, target.pool.pool_bytes - target.used_bytes)
        target.copied.append(sequence)
        return [source, target]

    def _uses(self, span: float) -> list[PoolUse]:
        uses = []
        for role, instances in self.pools.items():
            use = PoolUse(role.value, len(instances), sum(i.kind.gpus for i in instances), span_s=span)
            for inst in instances:
                inst.add_use(use)
            uses.append(use)
        return uses


def evaluate(
    strategy: Strategy,
    deployment: Deployment,
    requests: Iterable[Request],
    slo: Slo,
    times: Mapping[InstanceKind, Any] | None = None,
    ideal: Ideal | None = None,
    give_up: Callable[[Record], bool] | None = None,
    concurrency: int | None = None,
) -> Run:
    """Evaluate requests (in order of arrival) under a strategy, token by token.

    ``times`` and ``ideal`` may be shared between evaluations of one comparison. ``give_up`` is asked at each
    finished request whether to stop there. ``concurrency``: clients of a closed loop.
    """
    reference = Reference(strategy, deployment, slo, times, ideal)
    reference.give_up = give_up
    return reference.run(requests, concurrency)
