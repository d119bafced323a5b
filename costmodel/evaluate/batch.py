"""Running decodes of one replayed instance: what a run of steps changes for all of them, kept once.

Every decode step of an instance serves the whole batch. So a decode is known by the number of the step that ends
it, and what it has suffered is a difference of two running totals: nothing is touched for each request and step.
"""

from __future__ import annotations

from heapq import heappop, heappush

from ..memory.kv import SequenceBytes
from .job import Job


class Batch:
    """The decodes that run on an instance.

    ``steps`` decode steps have ended, ``gathered`` seconds of them without prompts and ``stalled`` seconds that
    prompts added. ``batch`` decodes have ``context`` tokens in the next step. ``again``: those whose next step
    recomputes the last prompt token; ``returning``: preempted ones whose next step has not begun.
    """

    def __init__(self) -> None:
        self.batch = self.context = self.steps = self._joined = 0
        self.gathered = self.stalled = 0.0
        self.ending: list[tuple[int, int, Job]] = []
        self.members: dict[Job, None] = {}
        self.again: list[Job] = []
        self.returning: list[Job] = []

    def join_batch(self, job: Job) -> None:
        """Add a decode: it runs in the next decode step."""
        job.begun = self.steps
        ends = self.steps + job.left
        if job.again:
            ends += 1
            self.again.append(job)
        elif job.since >= 0:
            self.returning.append(job)
        job.ends = ends
        job.gathered, job.stalled = self.gathered, self.stalled
        self.batch += 1
        self.context += job.context
        self._joined += 1
        self.members[job] = None
        heappush(self.ending, (ends, self._joined, job))

    def steps_left(self) -> int:
        """Decode steps until the next decode ends."""
        ending = self.ending
        while ending[0][2].ends != ending[0][0]:
            heappop(ending)
        return ending[0][0] - self.steps

    def bring_back(self, now: float) -> None:
        """A decode step begins: decodes that were preempted are back."""
        for job in self.returning:
            job.recompute += now - job.since
            job.since = -1.0
            job.gathered, job.stalled = self.gathered, self.stalled
        self.returning.clear()

    def advance(self, count: int, base: float, stall: float, now: float) -> None:
        """``count`` decode steps have ended by ``now``: ``base`` seconds of their own and ``stall`` of prompts."""
        self.steps += count
        self.context += count * self.batch
        self.gathered += base
        self.stalled += stall
        if self.again:
            for job in self.again:
                job.again = False
                job.handover += base + stall
                job.first = now
                job.begun, job.context = self.steps, job.context + 1
                job.gathered, job.stalled = self.gathered, self.stalled
            self.again.clear()

    def wait(self, seconds: float) -> None:
        """A step of prompts alone has kept everybody waiting."""
        self.stalled += seconds
        for job in self.again:
            job.seating += seconds

    def ended(self) -> list[Job]:
        """Remove and return the decodes whose last step has ended."""
        ending, steps, done = self.ending, self.steps, []
        while ending and ending[0][0] <= steps:
            ends, _, job = heappop(ending)
            if job.ends == ends:
                self._leave(job)
                done.append(job)
        return done

    def drop(self, job: Job, now: float) -> None:
        """Remove a decode that is preempted; what is left of it, and its next context, stand in it."""
        passed = self.steps - job.begun
        self._leave(job)
        job.context += passed
        if job.again:
            self.again.remove(job)
        elif job.since >= 0:
            self.returning.remove(job)
        else:
            job.left -= passed
        if job.since < 0:
            job.since = now

    def _leave(self, job: Job) -> None:
        """Account a decode's time here and take it out."""
        job.ends = -1
        self.batch -= 1
        self.context -= job.context + self.steps - job.begun
        del self.members[job]
        if not job.again and job.since < 0:
            job.stalls += self.stalled - job.stalled
            job.gathering += self.gathered - job.gathered

    def held_tokens(self, job: Job) -> int:
        """Tokens whose KV a decode holds where it grows: those of its last step that began."""
        return max(job.admitted, job.context + self.steps - job.begun - 1)

    def held_bytes(self, size: SequenceBytes, begun: int) -> int:
        """Bytes that all decodes hold, ``begun`` steps after the last that has ended."""
        total, steps = 0, self.steps + begun - 1
        for job in self.members:
            total += size.of(max(job.admitted, job.context + steps - job.begun))
        return total
