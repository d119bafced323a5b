"""Replay: requests one by one, exactly as the reference, with as many events as requests have turning points.

Steps, memory and routing follow the same rules; a run of decode steps is one event (:mod:`.server`), and a
request's accounts are differences of running totals (:mod:`.batch`). Order of events as in the reference:
everything that happens at one instant happens before the steps that begin at it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ..inputs.workload import Request, Slo
from ..serving.deployment import Deployment
from ..serving.instance import InstanceKind
from ..serving.strategies import Role, Strategy
from .batch import Decode
from .feed import Feed
from .ideal import Ideal
from .reference import check_fits, copied_tokens, limits, mixed_cap, step_times
from .routing import Router
from .server import Prompt, Server
from .timeline import PoolUse, Record, Run

_STEP_END, _WIRE_END, _COPIED = 0, 1, 2


class Copy(NamedTuple):
    """A copy that waits or is under way: its ends, its time on the wire, and the part hidden by prefill."""

    decode: Decode
    source_held: int
    source: Server
    target: Server
    wire: float
    hidden: float


class Replay:
    """One replay: the servers of a strategy's pools, a router and the queue of events."""

    def __init__(
        self,
        strategy: Strategy,
        deployment: Deployment,
        slo: Slo,
        times: Mapping[InstanceKind, Any] | None = None,
        ideal: Ideal | None = None,
    ) -> None:
        self.strategy, self.deployment = strategy, deployment
        settings = deployment.settings
        self.first_token = settings.first_token
        self.times = times or step_times(deployment)
        self.ideal = ideal or Ideal(list(self.times.values()))
        cap, number = mixed_cap(strategy, slo), 0
        self.pools: dict[Role, list[Server]] = {}
        for spec in strategy.pools:
            pool = self.pools[spec.role] = []
            for place, (kind, memory) in enumerate(deployment.pool(spec.role)):
                pool.append(
                    Server(number, place, kind, self.times[kind], memory, spec.schedule, settings, cap)
                )
                number += 1
        self.now = 0.0
        self.router = Router(strategy, self.pools, deployment, slo)
        self.limits = limits(strategy, deployment)
        self.events: list[tuple[float, int, int, Any]] = []
        self.order = 0
        self.copies: list[Copy] = []
        self.feed = Feed(())
        self.arrivals: list[Request] = []
        self.arrived = 0
        self.last_end = 0.0
        self.finished: Callable[[Record], object] = lambda record: None
        self.stopped = False

    def run(
        self,
        requests: Iterable[Request],
        finished: Callable[[Record], object],
        concurrency: int | None = None,
    ) -> float:
        """Replay requests in order of arrival until all have ended; return when the last one did, in seconds.

        ``finished`` is called with each record as it ends; setting ``stopped`` ends the run. Raises
        NoAnswerError for a request whose KV can never fit an instance.
        """
        self.feed, self.finished = Feed(requests, concurrency), finished
        for _ in range(concurrency or 1):
            self._next(0.0)
        events = self.events
        while not self.stopped:
            now = self.arrivals[0][0] if self.arrivals else -1.0
            if events and (now < 0 or events[0][0] <= now):
                now = events[0][0]
            elif now < 0:
                break
            self.now = now
            self._instant(now)
        return self.last_end

    def _next(self, now: float) -> None:
        """Let the next request be on its way."""
        request = self.feed.next(now)
        if request is not None:
            self.arrivals.append(request)

    def _instant(self, now: float) -> None:
        """Handle everything that happens at this instant, then begin steps."""
        events, touched = self.events, []
        while True:
            while events and events[0][0] == now:
                _, what, order, payload = heapq.heappop(events)
                if what == _STEP_END:
                    if payload.order == order:
                        self._end_step(payload, now, touched)
                elif what == _WIRE_END:
                    if self.copies:
                        self._start_copies(now)
                else:
                    self._copied(payload, now, touched)
            if not self.arrivals or self.arrivals[0][0] != now:
                break
            self._arrive(self.arrivals.pop(0), now, touched)
        if len(touched) == 1:
            self._touch(touched[0], now)
        else:
            for server in dict.fromkeys(touched):
                self._touch(server, now)

    def _touch(self, server: Server, now: float) -> None:
        """Begin a step where none is under way; else end the run under way at its next boundary."""
        if server.busy:
            if server.count > 1:
                self._schedule(server, server.cut(now))
            return
        if server.copied or server.inbound:
            self._seat_copied(server, now)
        end = server.begin(now)
        if end >= 0:
            self._schedule(server, end)

    def _schedule(self, server: Server, end: float) -> None:
        self.order = server.order = self.order + 1
        heapq.heappush(self.events, (end, _STEP_END, server.order, server))

    def _arrive(self, request: Request, now: float, touched: list[Server]) -> None:
        check_fits(request, self.limits)
        prefill, decode = self.ideal.of(request)
        record = Record(request, self.arrived, ideal_prefill=prefill, ideal_decode=decode)
        self.arrived += 1
        if not self.feed.closed:
            self._next(now)
        place, route, cached = self.router.place(request, now)
        server = self.pools[route.prefill][place]
        remote = route.copies
        record.route = "remote" if remote else "local"
        record.cached, record.prefill_on = cached, server.number
        tokens = request[1] + request[2] - cached
        alone = not server.waiting
        server.waiting.append(Prompt(record, remote, tokens, cached, now))
        server.pending_tokens += tokens
        server.load += 1
        server.placed += 1
        if not remote:
            server.committed += server.admitted_bytes(request)
            record.decode_on = server.number
        if alone:
            touched.append(server)

    # --- steps ---------------------------------------------------------------------------------------

    def _seat_copied(self, server: Server, now: float) -> None:
        """Admit requests whose copy has ended, at this step boundary."""
        for decode in server.copied:
            record = decode.record
            record.d0 = now
            record.seating += now - record.copied
            record.held_byte_s += (now - record.reserved) * server.size.of(record.request.isl) * server.kind.gpus
            if self.first_token == "decode":
                record.first = now
            if decode.left == 0 and not decode.again:
                server.release(server.size.of(decode.admitted))
                self._finish(server, decode, now)
                continue
            server.join(decode)
        server.copied.clear()
        self._reserve(server, now)

    def _end_step(self, server: Server, now: float, touched: list[Server]) -> None:
        """Account a step that ends: decodes first, then prompts; note the servers to look at."""
        prompts = server.end(now)
        decodes = server.decodes
        if decodes.size:
            for decode in decodes.ended():
                server.leave(decode)
                self._finish(server, decode, now)
        touched.append(server)
        for prompt in prompts:
            self._prefilled(prompt, server, now)
        if server.inbound:
            self._reserve(server, now)

    def _finish(self, server: Server, decode: Decode, now: float, *, prefill_only: bool = False) -> None:
        record = decode.record
        record.end = self.last_end = now
        record.gathering -= record.ideal_decode
        server.load -= 1
        if not prefill_only:
            server.committed -= server.admitted_bytes(record.request)
        if self.feed.closed:
            self._next(now)
        self.finished(record)

    # --- hand-over -----------------------------------------------------------------------------------

    def _prefilled(self, prompt: Prompt, server: Server, now: float) -> None:
        """A prompt is complete: it starts to decode here, or queues for memory on a decode instance."""
        record, request = prompt.record, prompt.record.request
        if prompt.resumes is not None:
            self._resumed(prompt, prompt.resumes, server, now)
            return
        record.p1 = now
        record.stretch = now - record.p0 - record.redone - record.ideal_prefill
        if request.blocks:
            server.cache.add(request, server.room - server.committed)
        isl = request[1] + request[2]
        again = prompt.copies and self.first_token == "recompute"
        decode = Decode(record, request[3] - 1, isl if again else isl + 1, again)
        if not prompt.copies:
            record.first = now
            if decode.left == 0:
                server.release(prompt.held)
                self._finish(server, decode, now)
            else:
                decode.admitted = isl if server.grows else isl + request[3]
                decode.entered = prompt.entered
                server.join(decode)
            return
        if self.first_token == "prefill":
            record.first = now
            if decode.left == 0:
                server.release(prompt.held)
                self._finish(server, decode, now, prefill_only=True)
                return
        target = self.pools[Role.DECODE][self.router.decode_instance()]
        target.inbound.append((decode, prompt.held, server))
        target.placed += 1
        target.load += 1
        target.committed += target.admitted_bytes(request)
        record.decode_on = target.number
        self._reserve(target, now)

    def _resumed(self, prompt: Prompt, decode: Decode, server: Server, now: float) -> None:
        """A preempted decode is computed again, and produced its next token on the way."""
        record = decode.record
        if decode.again:
            decode.again, record.first = False, now
            record.redone += now - decode.since
        else:
            decode.left -= 1
        decode.admitted, decode.entered = decode.context, prompt.entered
        if decode.left == 0:
            record.recompute += now - decode.since
            server.release(prompt.held)
            self._finish(server, decode, now)
        else:
            decode.context += 1
            server.join(decode)

    def _reserve(self, target: Server, now: float) -> None:
        """Reserve memory for the requests that wait to be pulled, first come first served; start copies."""
        inbound = target.inbound
        while inbound and target.may_pull():
            decode, source_held, source = inbound[0]
            request = decode.record.request
            size = target.admitted_bytes(request)
            if not target.fits(size, now):
                return
            inbound.popleft()
            decode.admitted = request.isl if target.grows else request.isl + request.output_tokens
            decode.entered = target.hold(size)
            if target.peak > target.room and target.count > 1:
                self._schedule(target, target.cut(now))
            self._copy(decode, source_held, source, target, now)

    def _copy(self, decode: Decode, source_held: int, source: Server, target: Server, now: float) -> None:
        record, path = decode.record, self.deployment.path
        tokens = copied_tokens(record.request, target.cache)
        wire = self._wire(tokens)
        # Layers copied during prefill are hidden only if memory had been reserved by then.
        hidden = wire - path.exposed_s(tokens, record.p1 - record.p0) if now == record.p1 else 0.0
        record.reserved = now
        record.seating += now - record.p1
        self.copies.append(Copy(decode, source_held, source, target, wire, hidden))
        self._start_copies(now)

    def _wire(self, tokens: int) -> float:
        return self.deployment.path.wire_s(tokens)

    def _start_copies(self, now: float) -> None:
        """Start every copy whose two ends are both free, in order of reservation; others may pass one that waits."""
        control = self.deployment.path.control_s
        for copy in tuple(self.copies):
            decode, _, source, target, wire, hidden = copy
            if source.link_free > now or target.link_free > now:
                continue
            self.copies.remove(copy)
            record = decode.record
            start = max(record.reserved - hidden, source.link_free, target.link_free)
            end = source.link_free = target.link_free = start + wire
            record.link = start + hidden - record.reserved
            record.handover = control + wire - hidden
            record.copied = end + control
            self.order += 2
            heapq.heappush(self.events, (end, _WIRE_END, self.order - 1, None))
            heapq.heappush(self.events, (record.copied, _COPIED, self.order, copy))

    def _copied(self, copy: Copy, now: float, touched: list[Server]) -> None:
        decode, source_held, source, target, _, _ = copy
        record = decode.record
        request = record.request
        record.held_byte_s += (now - record.p1) * source.size.of(request.isl) * source.kind.gpus
        source.release(source_held)
        source.load -= 1
        if request.blocks:
            target.cache.add(request, target.room - target.committed)
        target.copied.append(decode)
        touched.append(source)
        touched.append(target)

    def uses(self) -> list[PoolUse]:
        """Return what the instances of each pool did until the last request ended."""
        uses = []
        for role, servers in self.pools.items():
            use = PoolUse(role.value, len(servers), sum(s.kind.gpus for s in servers), span_s=self.last_end)
            for server in servers:
                server.add_use(use)
            uses.append(use)
        return uses


def replay(
    strategy: Strategy,
    deployment: Deployment,
    requests: Iterable[Request],
    slo: Slo,
    times: Mapping[InstanceKind, Any] | None = None,
    ideal: Ideal | None = None,
    give_up: Callable[[Record], bool] | None = None,
    concurrency: int | None = None,
) -> Run:
    """Replay requests (in order of arrival) under a strategy and keep every record, as ``reference.evaluate``."""
    made = Replay(strategy, deployment, slo, times, ideal)
    records: list[Record] = []

    def finished(record: Record) -> None:
        records.append(record)
        if give_up is not None and give_up(record):
            made.stopped = True

    span = made.run(requests, finished, concurrency)
    records.sort(key=lambda record: record.index)
    return Run(strategy.name, records, made.uses(), span)
