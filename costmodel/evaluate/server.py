"""One instance of a replay: its queue, its memory, and the steps under way, many decode steps at a time.

Between two events a batch of decodes is constant, and its steps are one *run* with a known end. Whatever happens
to the instance meanwhile cuts the run short at the next step boundary, where a step begins as in the reference.
"""

from __future__ import annotations

from collections import deque

from ..serving.chunk_cap import Cap, largest_chunk
from ..serving.deployment import Settings
from ..serving.instance import InstanceKind
from ..serving.memory import KvPool
from ..serving.strategies import Schedule
from ..serving.table import StepTable
from ..serving.work import Chunk
from .busy import BusyBins
from .job import Job
from .pool import Pool
from .prefix import PrefixCache
from .tiers import Prefixes
from .use import Use


class Server(Pool):
    """Queue, batch and memory of one instance, and the step or run under way."""

    def __init__(
        self,
        number: int,
        kind: InstanceKind,
        times: StepTable,
        pool: KvPool,
        schedule: Schedule,
        settings: Settings,
        cap: Cap | None,
    ) -> None:
        super().__init__(times, pool, settings, mixes=schedule is Schedule.CHUNKED)
        self.number, self.kind, self.cap = number, kind, cap
        self.budget, self.lag = settings.token_budget, settings.lag
        self.cache = PrefixCache(pool.held_bytes(1))
        self.prefixes = Prefixes(self.cache, (), times)
        self.tier_free: list[float] = []
        self.waiting: deque[Job] = deque()
        self.partial: list[Job] = []
        self.copied: list[Job] = []
        self.inbound: deque[tuple[Job, Server]] = deque()
        # What routers see.
        self.pending_tokens = self.load = self.placed = self.committed = 0
        self.link_free = 0.0
        # The step with prompts under way; ``order`` of the end of whatever is under way.
        self.prompts: list[Job] = []
        self.order, self.stalling, self.base, self.ended_at = -1, 0, 0.0, -1.0
        self._blocked: Job | None = None
        self._since = 0.0
        self.use = Use()
        self.bins: BusyBins | None = None

    @property
    def queued(self) -> int:
        """Prompts that wait for their first step."""
        return len(self.waiting)

    # --- memory --------------------------------------------------------------------------------------

    def may_pull(self) -> bool:
        """False while a preempted request waits: it comes before those from elsewhere."""
        return not self.waiting or self.waiting[0].fresh

    def _grow(self, now: float) -> bool:
        """Make room for the token that each decode adds, preempting the last to enter; say whether one was."""
        preempted = False
        while self.batch:
            grown = self.slope * (self.batch - len(self.again))
            if self.used + grown > self.room and not self.linear:
                self.used, grown = self._exactly(0), self._exactly(1) - self._exactly(0)
            if self.used + grown <= self.room:
                self.used += grown
                break
            self._preempt(max((*self.members, *self.partial), key=lambda job: job.entered), now)
            preempted = True
        self.peak = self.used
        return preempted

    def _preempt(self, last: Job, now: float) -> None:
        """Drop the KV of a prompt or decode and put it at the head of the queue, to be computed again."""
        last.preempted += 1
        if last.ends < 0:
            self.release(last.held)
            self.partial.remove(last)
            self.pending_tokens += last.done
            if not last.resumes and last.done:
                if not last.lost:
                    last.since = now
                last.lost = max(last.lost, last.done)
        else:
            self._free(last)
            self.drop(last, now)
            last.resumes, last.copies, last.placed = True, False, now
            last.tokens = last.context - last.cached
            self.pending_tokens += last.tokens
        last.done = 0
        self.waiting.appendleft(last)

    # --- steps ---------------------------------------------------------------------------------------

    def begin(self, now: float) -> float:
        """Choose what to do next; return when it ends, or -1 when there is nothing to do."""
        if self._blocked is not None:
            self._blocked.admission += now - self._since
            self._blocked = None
        admits = True
        if self.mixes and self.batch and self.grows:
            admits = not self._grow(now)
        if (self.waiting or self.partial) and (prompts := self._take(now, admits)):
            return self._begin_prompts(prompts, now)
        # Where a preempted request is now ahead of one that was passed over, look again after one step.
        overtaken = not self.mixes and self.batch > 0 and self.grows and self._grow(now)
        return self._begin_run(now, once=overtaken) if self.batch else -1.0

    def _begin_run(self, now: float, *, once: bool) -> float:
        batch, count = self.batch, self.steps_left()
        if self.returning:
            self.bring_back(now)
        if once or self.again or (self.lag and self.waiting) or (self.cap is not None and self.partial):
            count = 1
        if self.grows:
            each = self.slope * batch
            self.peak = self.used + each * (count - 1)
            if self.peak > self.room:
                count = 1 + int((self.room - self.used) // each)
                self.peak = self.used + each * (count - 1)
        self.busy, self.started, self.count = True, now, count
        self.length = self.times.run(batch, self.context, count)
        return now + self.length

    def cut(self, now: float) -> float:
        """Let the run under way end at the first step boundary from now on; return when."""
        self.count, self.length = self.times.until(self.batch, self.context, self.count, now - self.started)
        if self.grows:
            self.peak = self.used + self.slope * self.batch * (self.count - 1)
        return self.started + self.length

    def _begin_prompts(self, prompts: list[Job], now: float) -> float:
        """Begin a step of prompts, beside the decodes where they mix."""
        times, use, batch = self.times, self.use, self.batch if self.mixes else 0
        if not batch and len(prompts) == 1 and (job := prompts[0]).taken == job.tokens and job.since < 0:
            return self._begin_alone(job, prompts, now)
        tokens, last, redone = batch, batch, 0
        chunks: list[Chunk] = []
        for job in prompts:
            if job.p0 < 0:
                job.p0 = now
                job.queue = now - job.placed - job.admission
            taken, done = job.taken, job.done
            prefix = job.cached + done
            tokens += taken
            chunks.append(Chunk(taken, prefix))
            use.prefix += prefix
            if job.resumes or job.lost:
                redone += taken if job.resumes else min(taken, max(0, job.lost - done))
            if done + taken == job.tokens:
                last += 1
                if not job.resumes:
                    use.compute_s += times.alone(job.tokens, job.cached)[2]
        if batch:
            if self.returning:
                self.bring_back(now)
            base = times.decode(batch, self.context)
            length = times.step(chunks, last - batch, batch, self.context)
            use.mixed_s += length
            use.mixed_decode_s += base
            use.tokens += batch
            use.contexts += self.context
        else:
            base = 0.0
            length = times.step(chunks, last, 0, 0)
            use.prefill_s += length
        if redone:
            use.recompute_s += (length - base) * redone / (tokens - batch)
        use.prompt_steps += 1
        use.moved += times.token_bytes(tokens, last)
        self.stalling = self.batch - len(self.again) - len(self.returning)
        self.base, self.length = base, length
        self.prompts, self.busy, self.started, self.count = prompts, True, now, 0
        return now + length

    def _begin_alone(self, job: Job, prompts: list[Job], now: float) -> float:
        """Begin a step of one whole prompt: what most steps are, at a fifth less time for a whole replay."""
        job.p0 = now
        job.queue = now - job.placed - job.admission
        length, moved, compute = self.times.alone(job.tokens, job.cached)
        use = self.use
        use.prefix += job.cached
        use.prompt_steps += 1
        use.moved += moved
        use.compute_s += compute
        use.prefill_s += length
        self.stalling = self.batch - len(self.again) - len(self.returning) if self.batch else 0
        self.base, self.length = 0.0, length
        self.prompts, self.busy, self.started, self.count = prompts, True, now, 0
        return now + length

    def _take(self, now: float, admits: bool) -> list[Job]:
        """Take prompts into the coming step: partial ones first, then new ones while memory admits them."""
        mixes, planned = self.mixes, now
        if self.lag and self.ended_at == now and (self.batch or self.partial):
            planned = self.started  # this step was planned when the one before it began
        if self.cap is not None and mixes:
            return self._take_capped(now, planned, admits)
        budget = self.budget - self.batch if mixes else self.budget
        taken: list[Job] = []
        for job in self.partial:
            if budget <= 0:
                return taken
            job.taken = min(job.tokens - job.done, budget)
            budget -= job.taken
            taken.append(job)
        waiting = self.waiting
        while admits and waiting:
            head = waiting[0]
            left = head.tokens
            if (budget <= 0 if mixes else taken and left > budget) or not self._admit(head, now, planned):
                break
            head.taken = left if left <= budget or not mixes else budget
            budget -= head.taken
            taken.append(head)
        return taken

    def _admit(self, head: Job, now: float, planned: float) -> bool:
        """Move the head of the queue in if memory allows; else note since when it is passed over."""
        if head.placed > planned:
            return False
        if head.resumes:
            tokens = head.context
        elif head.copies or self.grows:
            tokens = head.isl
        else:
            tokens = head.isl + head.outputs
        size = self.bytes_of(tokens)
        fits = self.seats < self.max_seqs
        if fits and self.used + size > self.room:
            if not self.linear:
                self.used = self.peak = self._exactly(int(self.mixes))  # mixed steps have grown already
            fits = self.used + size <= self.room
        if not fits:
            if head.fresh:
                self._blocked, self._since = head, now
            return False
        self.hold(head, size)
        self.waiting.popleft()
        self.partial.append(head)
        return True

    def _take_capped(self, now: float, planned: float, admits: bool) -> list[Job]:
        """Take the largest candidate chunk of one prompt that keeps the mixed step within the cap."""
        if not self.partial and not (admits and self.waiting and self._admit(self.waiting[0], now, planned)):
            return []
        job, cap = self.partial[0], self.cap
        assert cap is not None
        left, prefix = job.tokens - job.done, job.cached + job.done
        chunk = largest_chunk(self.times, cap, left, prefix, self.batch, self.context, self.budget)
        if chunk is None:
            return []
        job.taken = chunk
        return [job]

    def end(self, now: float) -> tuple[list[Job], list[Job]]:
        """Account the run or step that ends now; return decodes that have ended, and completed prompts."""
        self.busy, self.ended_at = False, now
        if self.bins is not None:
            self.bins.add(self.started, now)
        count, batch = self.count, self.batch
        completed = []
        if count:
            self.count, use = 0, self.use
            use.decode_s += self.length
            use.runs[batch] = use.runs.get(batch, 0) + count
            use.contexts += count * self.context + batch * (count * (count - 1) // 2)
            if self.grows:
                self.used = self.peak = self.used + self.slope * batch * (count - 1)
            self.advance(count, self.length, 0.0, now)
        else:
            if batch:
                if self.mixes:
                    self.advance(1, self.base, self.length - self.base, now)
                else:
                    self.wait(self.length)
            completed = self._end_prompts(now)
        if not batch or self.ending[0][0] > self.steps:
            return [], completed
        done = self.ended()
        for job in done:
            self._free(job)
        return done, completed

    def _end_prompts(self, now: float) -> list[Job]:
        prompts, completed = self.prompts, []
        if self.stalling:
            total = sum([job.taken for job in prompts])
            stalled = self.stalling * (self.length - self.base) / total
            for job in prompts:
                job.inflicted += stalled * job.taken
        for job in prompts:
            job.done += job.taken
            self.pending_tokens -= job.taken
            if job.lost and job.done >= job.lost:
                job.recompute += now - job.since
                job.redone += now - job.since
                job.lost, job.since = 0, -1.0
            if job.done == job.tokens:
                completed.append(job)
                self.partial.remove(job)
        return completed
