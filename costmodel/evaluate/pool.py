"""KV memory of one replayed instance, and how far the decodes of its run under way have come."""

from __future__ import annotations

from ..inputs.workload import Request
from ..serving.deployment import Settings
from ..serving.memory import KvPool
from ..serving.table import StepTable
from .batch import Batch
from .job import Job


class Pool(Batch):
    """The KV pool of an instance, and what decodes in it.

    ``used`` bytes a GPU: an upper bound of what is held where windows forget, else exactly that; ``peak`` at the
    end of the run under way; ``fixed``: of those that do not decode here. A run is ``count`` decode steps from
    ``started`` on, ``length`` seconds in all; a step with prompts has a count of 0.
    """

    def __init__(self, times: StepTable, pool: KvPool, settings: Settings, *, mixes: bool) -> None:
        super().__init__()
        self.times, self.pool, self.settings, self.mixes = times, pool, settings, mixes
        self.grows, self.max_seqs = settings.grows, settings.max_seqs
        self.room, self.size = pool.pool_bytes, pool.sequence
        self.bytes_of = self.size.function()
        self.slope, self.linear = self.size.most_per_token, self.size.linear
        self.used = self.peak = self.fixed = self.seats = self.entries = 0
        self.busy = False
        self.count = 0
        self.started = self.length = 0.0

    def admitted_bytes(self, request: Request) -> int:
        """KV bytes a GPU that a request must find free to be admitted to where it decodes."""
        tokens = request[1] + request[2]
        return self.bytes_of(tokens if self.grows else tokens + request[3])

    def begun(self, now: float) -> int:
        """Decode steps of the run or mixed step under way that have begun by now."""
        if not self.busy or self.count < 2:
            return self.count or int(self.busy and self.mixes)
        steps, seconds = self.times.until(self.batch, self.context, self.count, now - self.started)
        return steps + 1 if self.started + seconds <= now and steps < self.count else steps

    def context_at(self, now: float) -> int:
        """Tokens of all running decodes after the last step that has ended by now."""
        return self.context + max(0, self.begun(now) - 1) * self.batch

    def fits(self, size: int, now: float) -> bool:
        """True when a sequence of ``size`` bytes a GPU finds memory and a seat now, whatever run is under way."""
        if self.seats >= self.max_seqs:
            return False
        return self.peak + size <= self.room or self.held_at(now) + size <= self.room

    def held_at(self, now: float) -> int:
        """Bytes held now, whatever run is under way."""
        if not self.grows:
            return self.used
        begun = self.begun(now)
        return (
            self.used + self.slope * self.batch * max(0, begun - 1) if self.linear else self._exactly(begun)
        )

    def hold(self, job: Job, size: int) -> None:
        """Take the memory and the seat of a sequence."""
        self.used += size
        self.peak += size
        self.fixed += size
        self.seats += 1
        self.entries = job.entered = self.entries + 1
        job.held = size

    def release(self, size: int) -> None:
        """Give back what ``hold`` took, of a sequence that does not decode here."""
        self.used -= size
        self.peak -= size
        self.fixed -= size
        self.seats -= 1

    def join(self, job: Job) -> None:
        """Let a sequence that holds what it was admitted with decode."""
        self.fixed -= job.held
        self.join_batch(job)

    def _free(self, job: Job) -> None:
        """Give back what a decode holds."""
        size = self.bytes_of(self.held_tokens(job)) if self.grows else job.held
        self.used -= size
        self.peak -= size
        self.seats -= 1

    def _exactly(self, begun: int) -> int:
        """Bytes held, sequence by sequence, ``begun`` steps after the last that has ended."""
        return self.fixed + self.held_bytes(self.size, begun) if self.grows else self.used
