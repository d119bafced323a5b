"""Replay: requests one by one, exactly as the reference, with as many events as requests have turning points.

Steps, memory and routing follow the same rules; a run of decode steps is one event (:mod:`.server`), and a
request's accounts are differences of running totals (:mod:`.batch`). Order of events as in the reference:
everything that happens at one instant happens before the steps that begin at it.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from ..inputs.workload import Request, Slo
from ..serving.deployment import Deployment
from ..serving.instance import InstanceKind
from ..serving.strategies import Role, Strategy
from ..serving.table import step_tables
from .busy import BusyBins
from .feed import Feed
from .ideal import Ideal
from .job import Job
from .limits import check_fits, limits
from .moves import COPIED, READ, Copy, Moves
from .prefix import copied_tokens
from .routing import mixed_cap
from .server import Server
from .server_router import ServerRouter
from .tiers import prefixes, shared_stores, used
from .timeline import PoolUse, PrefixUse, Record, Run

_STEP_END = 0


class Replay(Moves):
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
        super().__init__(deployment)
        self.first_token = settings.first_token
        self.times = times or step_tables(deployment.kinds)
        self.ideal = ideal or Ideal(list(self.times.values()))
        cap, number = mixed_cap(strategy, slo), 0
        self.pools: dict[Role, list[Server]] = {}
        shared = shared_stores(deployment)
        self.copies_prefix = deployment.copies_prefix
        for spec in strategy.pools:
            pool = self.pools[spec.role] = []
            for kind, memory in deployment.pool(spec.role):
                server = Server(number, kind, self.times[kind], memory, spec.schedule, settings, cap)
                server.prefixes = prefixes(deployment, spec.role, server.cache, server.times, shared)
                server.tier_free = [0.0] * len(self.tiers)
                pool.append(server)
                number += 1
        self.router: Any = ServerRouter(strategy, cast(Any, self.pools), deployment, slo)
        self.limits = limits(strategy, deployment)
        self.longest = min(limit.most_tokens for limit in self.limits)
        self.feed, self.constant = Feed(()), deployment.request_latency
        self.arrivals: deque[Request] = deque()
        self.arrived = 0
        self.last_end = self.clock = 0.0
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
        events, arrivals, pop = self.events, self.arrivals, heapq.heappop
        touched: list[Server] = []
        while not self.stopped:
            if events and not (arrivals and arrivals[0][0] < events[0][0]):
                now = events[0][0]
            elif arrivals:
                now = arrivals[0][0]
            else:
                break
            while True:  # all that happens at this instant
                while events and events[0][0] == now:
                    _, what, order, payload = pop(events)
                    if what == _STEP_END:
                        if payload.order == order:
                            self._end_step(payload, now, touched)
                    elif what == COPIED:
                        self._copied(payload, now, touched)
                    elif what == READ:
                        self._read_ends(payload[0], payload[1], now, touched)
                    else:
                        self.wakes.discard(now)
                        self.start_copies(now)
                if not arrivals or arrivals[0][0] != now:
                    break
                self._arrive(arrivals.popleft(), now, touched)
            if len(touched) > 1:
                touched[:] = dict.fromkeys(touched)
            for server in touched:
                if server.busy:  # end the run under way at its next step boundary
                    if server.count < 2:
                        continue
                    end = server.cut(now)
                else:
                    if server.copied:
                        self._seat_copied(server, now)
                    if server.inbound:
                        self._reserve(server, now)
                    end = server.begin(now)
                    if end < 0:
                        continue
                self._schedule(server, end)
            touched.clear()
            self.clock = now
        return self.last_end

    def _schedule(self, server: Server, end: float) -> None:
        """Let what a server has under way end then, and not when it was to end before."""
        self.order = server.order = self.order + 1
        heapq.heappush(self.events, (end, _STEP_END, self.order, server))

    def _next(self, now: float) -> None:
        """Let the next request be on its way."""
        request = self.feed.next(now)
        if request is not None:
            self.arrivals.append(request)

    def _arrive(self, request: Request, now: float, touched: list[Server]) -> None:
        if request[1] + request[2] + request[3] > self.longest:
            check_fits(request, self.limits)
        job = Job(request, self.arrived, self.ideal.of(request), now, self.constant)
        self.arrived += 1
        if not self.feed.closed:
            self._next(now)
        server, cached, copies, reads = self.router.place(request, now)
        job.cached, job.copies, job.prefill_on = cached, copies, server.number
        tokens = job.tokens = job.isl - cached
        if cached != request[2]:
            job.recomputed_prefix = self.ideal.again(request, cached)
        if not reads:
            self._join(job, server, touched)
        server.pending_tokens += tokens
        server.load += 1
        server.placed += 1
        if copies:
            job.route = "remote"
        else:
            job.route, job.decode_on = "local", server.number
            server.committed += server.admitted_bytes(request)
        if reads:
            self.read(job, server, reads, now)

    def _join(self, job: Job, server: Server, touched: list[Server]) -> None:
        """Put a prompt into the queue of an instance, which has not counted its tokens yet."""
        waiting = server.waiting
        job.ahead, job.ahead_tokens = len(waiting) + len(server.partial), server.pending_tokens
        if not waiting:
            touched.append(server)
        waiting.append(job)

    def _read_ends(self, job: Job, server: Server, now: float, touched: list[Server]) -> None:
        job.reading -= 1
        if job.reading:
            return
        self.reading -= 1
        job.load, job.placed = now - job.placed, now
        self._join(job, server, touched)
        job.ahead_tokens -= job.tokens

    # --- steps ---------------------------------------------------------------------------------------

    def _seat_copied(self, server: Server, now: float) -> None:
        """Admit requests whose copy has ended, at this step boundary."""
        for job in server.copied:
            job.d0 = now
            job.seating += now - job.copied
            job.held_byte_s += (now - job.reserved) * server.bytes_of(job.isl) * server.kind.gpus
            if self.first_token == "decode":
                job.first = now
            if job.left == 0 and not job.again:
                server.release(job.held)
                self._finish(server, job, now)
                continue
            server.join(job)
        server.copied.clear()

    def _end_step(self, server: Server, now: float, touched: list[Server]) -> None:
        """Account a step that ends: decodes first, then prompts; note the servers to look at."""
        done, prompts = server.end(now)
        for job in done:
            self._finish(server, job, now)
        touched.append(server)
        for job in prompts:
            self._prefilled(job, server, now)
        if server.inbound:
            self._reserve(server, now)

    def _finish(self, server: Server, job: Job, now: float) -> None:
        job.end = self.last_end = now
        job.gathering -= job.ideal_decode
        server.load -= 1
        if job.decode_on >= 0:
            server.committed -= server.admitted_bytes(job.request)
        if self.feed.closed:
            self._next(now + self.constant)
        self.finished(job)

    # --- hand-over -----------------------------------------------------------------------------------

    def _prefilled(self, job: Job, server: Server, now: float) -> None:
        """A prompt is complete: it starts to decode here, or queues for memory on a decode instance."""
        if job.resumes:
            self._resumed(job, server, now)
            return
        job.p1 = now
        job.stretch = now - job.p0 - job.redone - job.ideal_prefill
        request, copies = job.request, job.copies
        if request.blocks or server.cache.tokens:
            server.cache.add(request, server.room - server.held_at(now))
        if self.tiers:
            server.prefixes.write(request, job.tokens)
        job.left = job.outputs - 1
        job.again = copies and self.first_token == "recompute"
        job.context = job.isl if job.again else job.isl + 1
        if not copies or self.first_token == "prefill":
            job.first = now
            if job.left == 0:
                server.release(job.held)
                self._finish(server, job, now)
                return
        if not copies:
            job.admitted = job.isl
            server.join(job)
            return
        target = self.router.decode_instance()
        target.inbound.append((job, server))
        target.placed += 1
        target.load += 1
        target.committed += target.admitted_bytes(request)
        job.decode_on = target.number
        self._reserve(target, now)

    def _resumed(self, job: Job, server: Server, now: float) -> None:
        """A preempted decode is computed again, and produced its next token on the way."""
        job.resumes = False
        job.admitted = job.context
        if job.again:
            job.again, job.first = False, now
            job.redone += now - job.since
        else:
            job.left -= 1
        if job.left == 0:
            job.recompute += now - job.since
            server.release(job.held)
            self._finish(server, job, now)
        else:
            job.context += 1
            server.join(job)

    def _reserve(self, target: Server, now: float) -> None:
        """Reserve memory for the requests that wait to be pulled, first come first served; start copies."""
        inbound = target.inbound
        while inbound and target.may_pull():
            job, source = inbound[0]
            size, source_held = target.admitted_bytes(job.request), job.held
            if not target.fits(size, now):
                return
            inbound.popleft()
            job.admitted = job.isl
            target.hold(job, size)
            if target.peak > target.room and target.count > 1:
                self._schedule(target, target.cut(now))
            self._copy(job, source_held, source, target, now)

    def _copy(self, job: Job, source_held: int, source: Server, target: Server, now: float) -> None:
        path = self.deployment.path
        tokens = copied_tokens(job.request, target.cache, prefix=self.copies_prefix)
        wire = path.wire_s(tokens)
        # Layers copied during prefill are hidden only if memory had been reserved by then.
        hidden = 0.0
        if now == job.p1 and path.overlap != "serial":
            hidden = wire - path.exposed_s(tokens, job.p1 - job.p0)
        job.reserved = now
        job.seating += now - job.p1
        self.queue_copy(Copy(job, source_held, source, target, wire, hidden), now)

    def _copied(self, copy: Copy, now: float, touched: list[Server]) -> None:
        job, source_held, source, target, _, _ = copy
        job.held_byte_s += (now - job.p1) * source.bytes_of(job.isl) * source.kind.gpus
        source.release(source_held)
        source.load -= 1
        if job.request.blocks or target.cache.tokens:
            target.cache.add(job.request, target.room - target.held_at(now))
        target.copied.append(job)
        if source.waiting:
            touched.append(source)
        touched.append(target)

    def backlog(self) -> int:
        """Requests that read their prefix, wait for prefill, or for a place to decode."""
        queued = sum(len(s.waiting) + len(s.inbound) for servers in self.pools.values() for s in servers)
        return queued + self.reading

    def watch(self) -> dict[str, BusyBins]:
        """Keep the busy share of each pool over time; return where it is kept, by role."""
        found = {}
        for role, servers in self.pools.items():
            bins = found[role.value] = BusyBins(len(servers))
            for server in servers:
                server.bins = bins
        return found

    def uses(self) -> list[PoolUse]:
        """Return what the instances of each pool did until the last request ended, or the run was stopped."""
        uses, span = [], self.clock if self.stopped else self.last_end
        for role, servers in self.pools.items():
            use = PoolUse(role.value, len(servers), sum(s.kind.gpus for s in servers), span_s=span)
            for server in servers:
                server.use.add_to(use, server.kind, server.times)
            uses.append(use)
        return uses

    def prefix_use(self) -> PrefixUse:
        """Return where prompt tokens were found until the last request ended, or the run was stopped."""
        servers = [server.prefixes for pool in self.pools.values() for server in pool]
        return used(servers, self.clock if self.stopped else self.last_end)


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
    return Run(strategy.name, records, made.uses(), span, made.prefix_use())
