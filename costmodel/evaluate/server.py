"""One instance of a replay: its queue, its memory, and the steps under way, many decode steps at a time.

Between two events a batch of decodes is constant, and its steps are one *run* with a known end. Whatever happens
to the instance meanwhile cuts the run short at the next step boundary, where a step begins as in the reference.
"""

from __future__ import annotations

from collections import deque

from ..inputs.workload import Request
from ..serving.bound import step_bound
from ..serving.chunk_cap import Cap, largest_chunk
from ..serving.deployment import Settings
from ..serving.instance import InstanceKind
from ..serving.memory import KvPool
from ..serving.strategies import Schedule
from ..serving.table import StepTable
from ..serving.work import Chunk
from .batch import Batch, Decode
from .prefix import PrefixCache
from .timeline import PoolUse, Record


class Prompt:
    """A prompt on its way through an instance; fields as in the reference's, ``begun`` once it had a step."""

    __slots__ = (
        "cached", "copies", "done", "entered", "held", "lost", "placed", "record", "resumes", "since", "taken",
        "tokens",
    )  # fmt: skip

    def __init__(
        self, record: Record, copies: bool, tokens: int, cached: int, placed: float, resumes: Decode | None = None
    ) -> None:
        self.record, self.copies, self.tokens, self.cached = record, copies, tokens, cached
        self.placed, self.resumes = placed, resumes
        self.done = self.taken = self.entered = self.held = self.lost = 0
        self.since = 0.0

    @property
    def fresh(self) -> bool:
        """True for one that was never preempted."""
        return self.resumes is None and not self.lost


class Server:
    """Queue, batch and memory of one instance, and the step or run under way."""

    def __init__(
        self,
        number: int,
        place: int,
        kind: InstanceKind,
        times: StepTable,
        pool: KvPool,
        schedule: Schedule,
        settings: Settings,
        cap: Cap | None,
    ) -> None:
        self.number, self.place, self.kind, self.times, self.pool = number, place, kind, times, pool
        self.mixes = schedule is Schedule.CHUNKED
        self.settings, self.cap = settings, cap
        self.grows, self.lag, self.budget = settings.grows, settings.lag, settings.token_budget
        self.size = pool.sequence
        self.room = pool.pool_bytes
        self.cache = PrefixCache(pool.held_bytes(1))
        self.decodes = Batch()
        self.waiting: deque[Prompt] = deque()
        self.partial: list[Prompt] = []
        self.copied: list[Decode] = []
        self.inbound: deque[tuple[Decode, int, Server]] = deque()
        # What routers see.
        self.pending_tokens = self.load = self.placed = self.committed = 0
        self.link_free = 0.0
        # Memory: an upper bound of what is held where windows forget, else exactly that; ``peak`` at a run's end.
        # ``fixed``: of those that do not decode here.
        self.used = self.peak = self.fixed = self.seats = self.entries = 0
        self.slope, self.linear = self.size.most_per_token, self.size.linear
        # The step or run under way: ``count`` decode steps, or 0 of a step with prompts; ``order`` of its end.
        self.busy = False
        self.order = -1
        self.started = self.length = self.base = 0.0
        self.ended = -1.0
        self.count = 0
        self.prompts: list[Prompt] = []
        self.stalling = 0
        self._blocked: Prompt | None = None
        self._since = 0.0
        self.use = PoolUse("", 1, kind.gpus)
        self._tokens = self._contexts = self._prefix = 0
        self._moved = self._compute = 0.0

    # --- what a router sees at a moment -------------------------------------------------------------

    @property
    def batch(self) -> int:
        """Running decodes."""
        return self.decodes.size

    @property
    def queued(self) -> int:
        """Prompts that wait for their first step."""
        return len(self.waiting)

    def admitted_bytes(self, request: Request) -> int:
        """KV bytes a GPU that a request must find free to be admitted to where it decodes."""
        tokens = request[1] + request[2]
        return self.size.of(tokens if self.grows else tokens + request[3])

    def begun(self, now: float) -> int:
        """Decode steps of the run under way that have begun by now."""
        if not self.busy or self.count < 2:
            return self.count
        decodes = self.decodes
        steps, seconds = self.times.until(decodes.size, decodes.context, self.count, now - self.started)
        return steps + 1 if self.started + seconds <= now and steps < self.count else steps

    def context_at(self, now: float) -> int:
        """Tokens of all running decodes after the last step that has ended by now."""
        decodes = self.decodes
        return decodes.context + max(0, self.begun(now) - 1) * decodes.size

    def fits(self, size: int, now: float) -> bool:
        """True when a sequence of ``size`` bytes a GPU finds memory and a seat now, whatever run is under way."""
        if self.seats >= self.settings.max_seqs:
            return False
        if self.peak + size <= self.room:
            return True
        more = self.slope * self.decodes.size * max(0, self.begun(now) - 1) if self.grows else 0
        if self.used + more + size <= self.room:
            return True
        return not self.linear and self._exactly(self.begun(now)) + size <= self.room

    # --- memory --------------------------------------------------------------------------------------

    def hold(self, size: int) -> int:
        """Take the memory and the seat of a sequence; return its place in the order of entering."""
        self.used += size
        self.peak += size
        self.fixed += size
        self.seats += 1
        self.entries += 1
        return self.entries

    def release(self, size: int) -> None:
        """Give back what ``hold`` took, of a sequence that does not decode here."""
        self.used -= size
        self.peak -= size
        self.fixed -= size
        self.seats -= 1

    def join(self, decode: Decode) -> None:
        """Let a sequence that holds what it was admitted with decode."""
        self.fixed -= self.size.of(decode.admitted)
        self.decodes.join(decode)

    def leave(self, decode: Decode) -> None:
        """Give back what a decode holds."""
        size = self.size.of(self.decodes.held_tokens(decode) if self.grows else decode.admitted)
        self.used -= size
        self.peak -= size
        self.seats -= 1

    def may_pull(self) -> bool:
        """False while a preempted request waits: it comes before those from elsewhere."""
        return not self.waiting or self.waiting[0].fresh

    def _exactly(self, begun: int) -> int:
        """Bytes held, sequence by sequence, ``begun`` steps after the last that has ended."""
        return self.fixed + (self.decodes.held_bytes(self.size, begun) if self.grows else 0)

    def _grow(self, now: float) -> bool:
        """Make room for the token that each decode adds, preempting the last to enter; say whether one was."""
        decodes, preempted = self.decodes, False
        while decodes.size:
            grown = self.slope * (decodes.size - len(decodes.again))
            if self.used + grown > self.room and not self.linear:
                self.used, grown = self._exactly(0), self._exactly(1) - self._exactly(0)
            if self.used + grown <= self.room:
                self.used += grown
                break
            self._preempt(max((*decodes.members, *self.partial), key=lambda s: s.entered), now)
            preempted = True
        self.peak = self.used
        return preempted

    def _preempt(self, last: Prompt | Decode, now: float) -> None:
        """Drop the KV of a prompt or decode and put it at the head of the queue, to be computed again."""
        record = last.record
        record.preempted += 1
        if isinstance(last, Prompt):
            self.release(last.held)
            self.partial.remove(last)
            self.pending_tokens += last.done
            if last.resumes is None and last.done:
                if not last.lost:
                    last.since = now
                last.lost = max(last.lost, last.done)
            last.done = 0
            prompt = last
        else:
            self.leave(last)
            self.decodes.drop(last, now)
            tokens = last.context - record.cached
            prompt = Prompt(record, False, tokens, record.cached, now, last)
            self.pending_tokens += tokens
        self.waiting.appendleft(prompt)

    # --- steps ---------------------------------------------------------------------------------------

    def begin(self, now: float) -> float:
        """Choose what to do next; return when it ends, or -1 when there is nothing to do."""
        if self._blocked is not None:
            self._blocked.record.admission += now - self._since
            self._blocked = None
        decodes, mixes = self.decodes, self.mixes
        preempted = mixes and self.grows and decodes.size > 0 and self._grow(now)
        prompts = self._take(now, not preempted) if self.waiting or self.partial else []
        if prompts:
            return self._begin_prompts(prompts, now)
        if not decodes.size:
            return -1.0
        if self.grows and not mixes:
            self._grow(now)
            if not decodes.size:
                return -1.0
        return self._begin_run(now)

    def _begin_run(self, now: float) -> float:
        decodes = self.decodes
        count = decodes.until_end()
        if decodes.returning:
            decodes.begin(now)
        if decodes.again or (self.lag and self.waiting) or (self.cap is not None and self.partial):
            count = 1
        if self.grows:
            each = self.slope * decodes.size
            if self.used + each * (count - 1) > self.room:
                count = 1 + int((self.room - self.used) // each) if each else count
            self.peak = self.used + each * (count - 1)
        self.busy, self.started, self.count = True, now, count
        self.length = self.times.run(decodes.size, decodes.context, count)
        return now + self.length

    def cut(self, now: float) -> float:
        """Let the run under way end at the first step boundary from now on; return when."""
        decodes = self.decodes
        self.count, self.length = self.times.until(
            decodes.size, decodes.context, self.count, now - self.started
        )
        if self.grows:
            self.peak = self.used + self.slope * decodes.size * (self.count - 1)
        return self.started + self.length

    def _begin_prompts(self, prompts: list[Prompt], now: float) -> float:
        decodes, times, use = self.decodes, self.times, self.use
        batch = decodes.size if self.mixes else 0
        tokens, last, redone, chunks = batch, 0, 0, []
        for prompt in prompts:
            record, taken = prompt.record, prompt.taken
            if record.p0 < 0:
                record.p0 = now
                record.queue = now - record.request[0] - record.admission
            prefix, ends = prompt.cached + prompt.done, int(prompt.done + taken == prompt.tokens)
            chunks.append(Chunk(taken, prefix))
            tokens, last, self._prefix = tokens + taken, last + ends, self._prefix + prefix
            self._compute += times.chunk_compute_s(taken, prefix, ends)
            if prompt.resumes is not None or prompt.lost:
                redone += taken if prompt.resumes else min(taken, max(0, prompt.lost - prompt.done))
        if batch:
            if decodes.returning:
                decodes.begin(now)
            self.base = times.decode(batch, decodes.context)
            self.length = times.step(chunks, last, batch, decodes.context)
            use.mixed_s += self.length
            use.mixed_decode_s += self.base
            self._tokens += batch
            self._contexts += decodes.context
        else:
            self.base = 0.0
            self.length = times.prefill(*chunks[0]) if len(chunks) == last == 1 else times.step(chunks, last, 0, 0)
            use.prefill_s += self.length
        if redone:
            use.recompute_s += (self.length - self.base) * redone / (tokens - batch)
        use.steps += 1
        use.busy_s += self.length
        self._moved += times.token_bytes(tokens, batch + last)
        self.stalling = decodes.stalling if decodes.size else 0
        self.prompts, self.busy, self.started, self.count = prompts, True, now, 0
        return now + self.length

    def _take(self, now: float, admits: bool) -> list[Prompt]:
        """Take prompts into the coming step: partial ones first, then new ones while memory admits them."""
        mixes, planned = self.mixes, now
        if self.lag and self.ended == now and (self.decodes.size or self.partial):
            planned = self.started  # this step was planned when the one before it began
        if self.cap is not None and mixes:
            return self._take_capped(now, planned, admits)
        budget = self.budget - (self.decodes.size if mixes else 0)
        taken: list[Prompt] = []
        for prompt in self.partial:
            if budget <= 0:
                return taken
            prompt.taken = min(prompt.tokens - prompt.done, budget)
            budget -= prompt.taken
            taken.append(prompt)
        waiting = self.waiting
        while admits and waiting:
            head = waiting[0]
            left = head.tokens - head.done
            if budget <= 0 if mixes else taken and left > budget:
                break
            if not self._admit(head, now, planned):
                break
            head.taken = min(left, budget) if mixes else left
            budget -= head.taken
            taken.append(head)
        return taken

    def _admit(self, head: Prompt, now: float, planned: float) -> bool:
        """Move the head of the queue in if memory allows; else note since when it is passed over."""
        if head.placed > planned:
            return False
        request = head.record.request
        if head.copies:
            size = self.size.of(request[1] + request[2])
        else:
            size = self.size.of(head.resumes.context) if head.resumes else self.admitted_bytes(request)
        fits = self.seats < self.settings.max_seqs and self.used + size <= self.room
        if not fits and not self.linear and self.seats < self.settings.max_seqs:
            self.used = self.peak = self._exactly(int(self.mixes))  # mixed steps have grown already
            fits = self.used + size <= self.room
        if not fits:
            if head.fresh:
                self._blocked, self._since = head, now
            return False
        head.held, head.entered = size, self.hold(size)
        self.waiting.popleft()
        self.partial.append(head)
        return True

    def _take_capped(self, now: float, planned: float, admits: bool) -> list[Prompt]:
        """Take the largest candidate chunk of one prompt that keeps the mixed step within the cap."""
        if not self.partial and not (admits and self.waiting and self._admit(self.waiting[0], now, planned)):
            return []
        prompt = self.partial[0]
        assert self.cap is not None
        left, prefix = prompt.tokens - prompt.done, prompt.cached + prompt.done
        decodes = self.decodes
        chunk = largest_chunk(
            self.times, self.cap, left, prefix, decodes.size, decodes.context, self.budget
        )
        if chunk is None:
            return []
        prompt.taken = chunk
        return [prompt]

    def end(self, now: float) -> list[Prompt]:
        """Account the run or step that ends now; return completed prompts. Decodes that ended stay to be taken."""
        self.busy, self.ended = False, now
        count = self.count
        if count:
            self.count = 0
            self._end_run(count, now)
            return []
        decodes, prompts = self.decodes, self.prompts
        stall, total = self.length - self.base, 0
        if decodes.size:
            if self.mixes:
                decodes.advance(1, self.base, stall, now)
            else:
                decodes.wait(self.length)
        for prompt in prompts:
            total += prompt.taken
        completed = []
        for prompt in prompts:
            taken, record = prompt.taken, prompt.record
            if self.stalling:
                record.inflicted += self.stalling * stall * taken / total
            prompt.done += taken
            self.pending_tokens -= taken
            if prompt.lost and prompt.done >= prompt.lost:
                record.recompute += now - prompt.since
                record.redone += now - prompt.since
                prompt.lost = 0
            if prompt.done == prompt.tokens:
                completed.append(prompt)
                self.partial.remove(prompt)
        return completed

    def _end_run(self, count: int, now: float) -> None:
        decodes, use, length = self.decodes, self.use, self.length
        size, context = decodes.size, decodes.context
        use.steps += count
        use.busy_s += length
        use.decode_s += length
        self._tokens += count * size
        self._contexts += count * context + size * count * (count - 1) // 2
        self._moved += count * self.times.token_bytes(size, size)
        if self.grows:
            self.used = self.peak = self.used + self.slope * size * (count - 1)
        decodes.advance(count, length, 0.0, now)

    def add_use(self, use: PoolUse) -> None:
        """Add what this instance did to the use of its pool."""
        mine = self.use
        for name in (
            "busy_s", "prefill_s", "decode_s", "mixed_s", "mixed_decode_s", "recompute_s", "steps",
        ):  # fmt: skip
            setattr(use, name, getattr(use, name) + getattr(mine, name))
        decode = step_bound(self.kind, (), 0, self._tokens, self._contexts)
        use.compute_bound_s += self._compute + decode.compute_s
        cached = self.times.cached_bytes(self._tokens, self._contexts + self._prefix)
        use.memory_bound_s += (self._moved + cached) / self.kind.memory_peak
