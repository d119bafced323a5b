"""One instance of the reference evaluator: its queue, its batch, its memory, one step at a time."""

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
from .prefix import PrefixCache
from .tasks import Prompt, Sequence_
from .tiers import Prefixes
from .timeline import PoolUse


class Instance:
    """Queue, batch and memory of one instance, and the step under way."""

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
        self.number, self.kind, self.times, self.pool = number, kind, times, pool
        self.mixes = schedule is Schedule.CHUNKED
        self.settings, self.cap = settings, cap
        self.cache = PrefixCache(pool.held_bytes(1))
        self.prefixes = Prefixes(self.cache, (), times)
        self.waiting: deque[Prompt] = deque()
        self.partial: list[Prompt] = []
        self.running: list[Sequence_] = []
        self.copied: list[Sequence_] = []
        self.inbound: deque[tuple[Sequence_, int, Instance]] = deque()
        self.busy = False
        self.used_bytes = 0
        self.committed = 0
        self.seats = 0
        self.pending_tokens = 0
        self.load = 0
        self.placed = 0
        self.context = 0
        self.link_free = 0.0
        self._entries = 0
        self._prompts: list[Prompt] = []
        self._decoding = False
        self._length = self._base = self._started = 0.0
        self._ended = -1.0
        self._blocked: tuple[Prompt, float] | None = None
        self._stalled = self._tokens = self._prefix = self._contexts = 0
        self._moved = self._chunk_compute = 0.0
        self._use = PoolUse("", 1, kind.gpus)

    @property
    def batch(self) -> int:
        """Running decodes."""
        return len(self.running)

    @property
    def queued(self) -> int:
        """Prompts that wait for their first step."""
        return len(self.waiting)

    # --- memory --------------------------------------------------------------------------------------

    def admitted_bytes(self, request: Request) -> int:
        """KV bytes a GPU that a request must find free to be admitted to where it decodes."""
        return self.pool.held_bytes(self.settings.admitted_tokens(request.isl, request.output_tokens))

    def context_at(self, now: float) -> int:
        """Tokens of all running decodes."""
        del now  # an instance stands where it is
        return self.context

    def fits(self, size: int, now: float) -> bool:
        """True when a sequence of ``size`` bytes a GPU finds memory and a seat."""
        del now
        return self.seats < self.settings.max_seqs and self.used_bytes + size <= self.pool.pool_bytes

    def hold(self, size: int) -> int:
        """Take the memory and the seat of a sequence; return its place in the order of entering."""
        self.used_bytes += size
        self.seats += 1
        self._entries += 1
        return self._entries

    def release(self, size: int) -> None:
        """Give back what ``hold`` took."""
        self.used_bytes -= size
        self.seats -= 1

    def may_pull(self) -> bool:
        """False while a preempted request waits: it comes before those from elsewhere."""
        return not self.waiting or self.waiting[0].fresh

    def held_by(self, tokens: int) -> float:
        """KV bytes that ``tokens`` hold on all GPUs of the instance."""
        return self.pool.held_bytes(tokens) * self.kind.gpus

    def _grow(self, now: float) -> bool:
        """Make room for the token that each decode adds, preempting the last to enter; say whether one was."""
        preempted = False
        while self.running:
            sizes = [self.pool.held_bytes(sequence.context) for sequence in self.running]
            grown = sum(sizes) - sum(sequence.held for sequence in self.running)
            if self.used_bytes + grown <= self.pool.pool_bytes:
                for sequence, size in zip(self.running, sizes):
                    sequence.held = size
                self.used_bytes += grown
                break
            present: list[Prompt | Sequence_] = [*self.running, *self.partial]
            self._preempt(max(present, key=lambda one: one.entered), now)
            preempted = True
        return preempted

    def _preempt(self, last: Prompt | Sequence_, now: float) -> None:
        """Drop the KV of a prompt or decode and put it at the head of the queue, to be computed again."""
        self.release(last.held)
        last.record.preempted += 1
        if isinstance(last, Prompt):
            self.partial.remove(last)
            self.pending_tokens += last.done
            if last.resumes is None and last.done:
                if not last.lost:
                    last.since = now
                last.lost = max(last.lost, last.done)
            last.done = 0
            prompt = last
        else:
            self.running.remove(last)
            self.context -= last.context
            if last.since is None:
                last.since = now
            cached = last.record.cached
            tokens = last.known - cached
            prompt = Prompt(last.record, False, tokens, cached, now, resumes=last)
            self.pending_tokens += tokens
        self.waiting.appendleft(prompt)

    # --- steps ---------------------------------------------------------------------------------------

    def join(self, sequence: Sequence_) -> None:
        """Add a decode to the batch."""
        self.running.append(sequence)
        self.context += sequence.context

    def begin(self, now: float) -> float | None:
        """Choose the next step and return its length, or None when there is nothing to do."""
        if self._blocked is not None:
            prompt, since = self._blocked
            prompt.record.admission += now - since
            self._blocked = None
        grows = self.settings.grows
        preempted = self.mixes and grows and self._grow(now)
        self._prompts = self._take(now, admits=not preempted)
        self._decoding = bool(self.running) and (self.mixes or not self._prompts)
        if self._decoding and grows and not self.mixes:
            self._grow(now)
            self._decoding = bool(self.running)
        if not self._prompts and not self._decoding:
            return None
        for prompt in self._prompts:
            record = prompt.record
            if record.p0 < 0:
                record.p0 = now
                record.queue = now - record.request.arrival_s - record.load - record.admission
        self.busy, self._started = True, now
        batch = len(self.running) if self._decoding else 0
        for sequence in self.running if batch else ():
            if sequence.since is not None:
                sequence.record.recompute += now - sequence.since
                sequence.since = None
        self._base = self.times.decode(batch, self.context) if batch else 0.0
        if self._prompts:
            chunks = [prompt.chunk for prompt in self._prompts]
            last = sum(prompt.taken == prompt.left for prompt in self._prompts)
            self._length = self.times.step(chunks, last, batch, self.context if batch else 0)
        else:
            self._length = self._base
        self._count(batch)
        return self._length

    def _take(self, now: float, *, admits: bool) -> list[Prompt]:
        """Take prompts into the coming step: partial ones first, then new ones while memory admits them."""
        planned = now
        if self.settings.lag and self._ended == now and (self.running or self.partial):
            planned = self._started  # this step was planned when the one before it began
        if self.cap is not None and self.mixes:
            return self._take_capped(now, planned, admits=admits)
        budget = self.settings.token_budget - (len(self.running) if self.mixes else 0)
        taken: list[Prompt] = []
        for prompt in self.partial:
            if budget <= 0:
                return taken
            prompt.taken = min(prompt.left, budget)
            budget -= prompt.taken
            taken.append(prompt)
        while admits and self.waiting:
            head = self.waiting[0]
            if (not self.mixes and taken and head.left > budget) or (self.mixes and budget <= 0):
                break
            if not self._admit(head, now, planned):
                break
            head.taken = min(head.left, budget) if self.mixes else head.left
            budget -= head.taken
            taken.append(head)
        return taken

    def _admit(self, head: Prompt, now: float, planned: float) -> bool:
        """Move the head of the queue in if memory allows; else note since when it is passed over."""
        if head.placed > planned:
            return False
        request, resumes = head.record.request, head.resumes
        if head.copies:
            size = self.pool.held_bytes(request.isl)
        else:
            size = self.pool.held_bytes(resumes.known) if resumes else self.admitted_bytes(request)
        if not self.fits(size, now):
            if head.fresh:
                self._blocked = (head, now)
            return False
        head.held, head.entered = size, self.hold(size)
        self.waiting.popleft()
        self.partial.append(head)
        return True

    def _take_capped(self, now: float, planned: float, *, admits: bool) -> list[Prompt]:
        """Take the largest candidate chunk of one prompt that keeps the mixed step within the cap."""
        if not self.partial and not (admits and self.waiting and self._admit(self.waiting[0], now, planned)):
            return []
        prompt = self.partial[0]
        assert self.cap is not None
        chunk = largest_chunk(
            self.times,
            self.cap,
            prompt.left,
            prompt.cached + prompt.done,
            len(self.running),
            self.context,
            self.settings.token_budget,
        )
        if chunk is None:
            return []
        prompt.taken = chunk
        return [prompt]

    def end(self, now: float) -> tuple[list[Sequence_], list[Prompt]]:
        """Account the step that ends now; return finished decodes and completed prompts."""
        self.busy, self._ended = False, now
        stall = self._length - self._base
        done = self._advance_decodes(now, stall) if self._decoding else []
        if not self._decoding:
            for sequence in self.running:
                if sequence.again:
                    sequence.record.seating += self._length
                elif sequence.since is None:
                    sequence.record.stalls += self._length
        completed = []
        total = sum(prompt.taken for prompt in self._prompts)
        for prompt in self._prompts:
            prompt.record.inflicted += self._stalled * stall * prompt.taken / total
            prompt.done += prompt.taken
            self.pending_tokens -= prompt.taken
            if prompt.lost and prompt.done >= prompt.lost:
                prompt.record.recompute += now - prompt.since
                prompt.record.redone += now - prompt.since
                prompt.lost = 0
            if prompt.left == 0:
                completed.append(prompt)
                self.partial.remove(prompt)
        self._prompts = []
        return done, completed

    def _advance_decodes(self, now: float, stall: float) -> list[Sequence_]:
        done, still = [], []
        for sequence in self.running:
            record = sequence.record
            if sequence.again:
                sequence.again = False
                record.handover += self._length
                record.first = now
            else:
                record.stalls += stall
                record.gathering += self._base
                sequence.left -= 1
            if sequence.left == 0:
                done.append(sequence)
                self.context -= sequence.context
                continue
            sequence.context += 1
            self.context += 1
            still.append(sequence)
        self.running = still
        return done

    # --- use -----------------------------------------------------------------------------------------

    def _count(self, batch: int) -> None:
        """Note what the step that begins does: GPU time by kind, tokens, contexts, bytes."""
        use, length = self._use, self._length
        self._stalled = 0
        if self._prompts:
            self._stalled = sum(s.since is None and not s.again for s in self.running)
        use.steps += 1
        use.busy_s += length
        if self._prompts and batch:
            use.mixed_s += length
            use.mixed_decode_s += self._base
        elif self._prompts:
            use.prefill_s += length
        else:
            use.decode_s += length
        tokens, rows, redone = batch, batch, 0
        for prompt in self._prompts:
            chunk, last = prompt.chunk, int(prompt.taken == prompt.left)
            tokens += chunk.tokens
            rows += last
            redone += chunk.tokens if prompt.resumes else min(chunk.tokens, max(0, prompt.lost - prompt.done))
            self._prefix += chunk.prefix
            if last and prompt.resumes is None:
                self._chunk_compute += self.times.alone(prompt.tokens, prompt.cached)[2]
        if redone:
            use.recompute_s += (length - self._base) * redone / (tokens - batch)
        if batch:
            self._tokens += batch
            self._contexts += self.context
        self._moved += self.times.token_bytes(tokens, rows)

    def add_use(self, use: PoolUse) -> None:
        """Add what this instance did to the use of its pool."""
        mine = self._use
        for name in (
            "busy_s", "prefill_s", "decode_s", "mixed_s", "mixed_decode_s", "recompute_s", "steps",
        ):  # fmt: skip
            setattr(use, name, getattr(use, name) + getattr(mine, name))
        decode = step_bound(self.kind, (), 0, self._tokens, self._contexts)
        use.compute_bound_s += self._chunk_compute + decode.compute_s
        cached = self.times.cached_bytes(self._tokens, self._contexts + self._prefix)
        use.memory_bound_s += (self._moved + cached) / self.kind.memory_peak
