"""What moves KV in a replay: copies between instances, and reads from tiers, by the ports of both."""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

from ..serving.deployment import Deployment
from .job import Job
from .server import Server

#: Events, in the order in which they are handled at one instant; 0 is the end of a step.
PORTS_FREE, COPIED, READ = 1, 2, 3


class Copy(NamedTuple):
    """A copy that waits or is under way: its ends, its time on the wire, and the part hidden by prefill.

    A read from a tier behind the same ports is a copy from an instance to itself, which holds no source (-1).
    """

    job: Job
    source_held: int
    source: Server
    target: Server
    wire: float
    hidden: float


class Moves:
    """Copies and reads that wait or are under way, and the queue of events of the replay that they end in."""

    def __init__(self, deployment: Deployment) -> None:
        self.tiers, self.control_s = deployment.tiers, deployment.path.control_s
        self.events: list[tuple[float, int, int, Any]] = []
        self.order = 0
        self.copies: list[Copy] = []
        self.wakes: set[float] = set()
        self.reading = 0

    def read(self, job: Job, server: Server, reads: tuple[tuple[int, int], ...], now: float) -> None:
        """Read a prompt's prefix: the end of a read from a tier with a port of its own is known at once."""
        self.reading += 1
        last, free = -1.0, server.tier_free
        for place, tokens in reads:
            job.read += tokens
            seconds = self.tiers[place].read_s(tokens)
            if self.tiers[place].on_link:
                job.reading += 1
                self.queue_copy(Copy(job, -1, server, server, seconds, 0.0), now)
            else:
                free[place] = max(now, free[place]) + seconds
                last = max(last, free[place])
        if last >= 0:
            job.reading += 1
            self.order += 1
            heapq.heappush(self.events, (last, READ, self.order, (job, server)))

    def queue_copy(self, copy: Copy, now: float) -> None:
        """Start a copy if its ports are free and nobody waits that could start; else let it wait."""
        if self.copies or not self._start_copy(copy, now):
            self.copies.append(copy)
            self.start_copies(now)

    def start_copies(self, now: float) -> None:
        """Start every copy whose two ends are both free, in order of reservation; others may pass one that waits."""
        for copy in tuple(self.copies):
            if self._start_copy(copy, now):
                self.copies.remove(copy)

    def _start_copy(self, copy: Copy, now: float) -> bool:
        """Start a copy if its ports are free; else look again when they are, as far as is known by now."""
        job, held, source, target, wire, hidden = copy
        free = max(source.link_free, target.link_free)
        self.order += 1
        if free > now:
            if free not in self.wakes:
                self.wakes.add(free)
                heapq.heappush(self.events, (free, PORTS_FREE, self.order, None))
            return False
        if held < 0:
            target.link_free = now + wire
            heapq.heappush(self.events, (now + wire, READ, self.order, (job, target)))
            return True
        start = max(job.reserved - hidden, free)
        end = source.link_free = target.link_free = start + wire
        control = self.control_s
        job.link = start + hidden - job.reserved
        job.handover = control + wire - hidden
        job.copied = end + control
        heapq.heappush(self.events, (job.copied, COPIED, self.order, copy))
        return True
