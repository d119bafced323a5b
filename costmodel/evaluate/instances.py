"""One instance of the reference evaluator: its queue, its batch, its memory, one step at a time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from ..serving.bound import step_bound
from ..serving.chunk_cap import Cap, largest_chunk
from ..serving.deployment import Settings
from ..serving.instance import InstanceKind
from ..serving.memory import KvPool
from ..serving.step import StepTimes
from ..serving.strategies import Schedule
from ..serving.work import Chunk
from .timeline import PoolUse, Record


@dataclass(slots=True, eq=False)
class Prompt:
    """A prompt on its way through an instance: tokens done so far, and whether its KV leaves afterwards."""

    record: Record
    instance: Instance
    copies: bool
    done: int = 0
    taken: int = 0

    @property
    def left(self) -> int:
        """Uncached tokens still to compute."""
        return self.record.request.uncached_tokens - self.done

    @property
    def chunk(self) -> Chunk:
        """The part taken into the current step."""
        return Chunk(self.taken, self.record.request.cached_tokens + self.done)


@dataclass(slots=True, eq=False)
class Sequence_:
    """A running decode. ``again``: its next step recomputes the last prompt token."""

    record: Record
    again: bool
    left: int = field(init=False)
    context: int = field(init=False)

    def __post_init__(self) -> None:
        request = self.record.request
        self.left = request.output_tokens - 1
        self.context = request.isl if self.again else request.isl + 1


class Instance:
    """Queue, batch and memory of one instance, and the step under way."""

    def __init__(
        self,
        kind: InstanceKind,
        times: StepTimes,
        pool: KvPool,
        schedule: Schedule,
        settings: Settings,
        cap: Cap | None,
    ) -> None:
        self.kind, self.times, self.pool = kind, times, pool
        self.schedule, self.settings, self.cap = schedule, settings, cap
        self.waiting: deque[Prompt] = deque()
        self.partial: list[Prompt] = []
        self.running: list[Sequence_] = []
        self.copied: list[Record] = []
        self.inbound: deque[tuple[Record, Instance]] = deque()
        self.busy = False
        self.used_bytes = 0.0
        self.seats = 0
        self.pending_tokens = 0
        self.placed = 0
        self.context = 0
        self.link_free = 0.0
        self._prompts: list[Prompt] = []
        self._decoding = False
        self._length = self._base = self._started = 0.0
        self._blocked: tuple[Prompt, float] | None = None
        self._stalled = self._tokens = self._prefix = self._contexts = 0
        self._moved = self._chunk_compute = 0.0
        self._use = PoolUse("", 1, kind.gpus)

    # --- memory --------------------------------------------------------------------------------------

    def fits(self, tokens: int) -> bool:
        """True when a sequence of ``tokens`` finds memory and a seat."""
        free = self.pool.pool_bytes - self.used_bytes
        return self.seats < self.settings.max_seqs and self.pool.held_bytes(tokens) <= free

    def hold(self, tokens: int) -> None:
        """Take the memory and the seat of a sequence of ``tokens``."""
        self.used_bytes += self.pool.held_bytes(tokens)
        self.seats += 1

    def release(self, tokens: int) -> None:
        """Give back what ``hold`` took."""
        self.used_bytes -= self.pool.held_bytes(tokens)
        self.seats -= 1
        if self.seats == 0:
            self.used_bytes = 0.0  # no rounding error outlives an empty instance

    def held_by(self, tokens: int) -> float:
        """KV bytes that ``tokens`` hold on all GPUs of the instance."""
        return self.pool.held_bytes(tokens) * self.kind.gpus

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
        self._prompts = self._take(now)
        self._decoding = bool(self.running) and not (self._prompts and self.schedule is Schedule.WHOLE)
        if not self._prompts and not self._decoding:
            return None
        for prompt in self._prompts:
            if prompt.done == 0:
                record = prompt.record
                record.p0 = now
                record.queue = now - record.request.arrival_s - record.admission
        self.busy, self._started = True, now
        batch = len(self.running) if self._decoding else 0
        self._base = self.times.decode(batch, self.context) if batch else 0.0
        if self._prompts:
            chunks = [prompt.chunk for prompt in self._prompts]
            last = sum(prompt.taken == prompt.left for prompt in self._prompts)
            self._length = self.times.step(chunks, last, batch, self.context if batch else 0)
        else:
            self._length = self._base
        self._count(batch)
        return self._length

    def _take(self, now: float) -> list[Prompt]:
        """Take prompts into the coming step: partial ones first, then new ones while memory admits them."""
        if self.schedule is Schedule.DECODE_ONLY:
            return []
        if self.cap is not None and self.schedule is Schedule.CHUNKED:
            return self._take_capped(now)
        whole = self.schedule is Schedule.WHOLE
        budget = self.settings.token_budget - (0 if whole else len(self.running))
        taken: list[Prompt] = []
        for prompt in self.partial:
            if budget <= 0:
                return taken
            prompt.taken = min(prompt.left, budget)
            budget -= prompt.taken
            taken.append(prompt)
        while self.waiting:
            head = self.waiting[0]
            if (whole and taken and head.left > budget) or (not whole and budget <= 0):
                break
            if not self._admit(head, now):
                break
            head.taken = head.left if whole else min(head.left, budget)
            budget -= head.taken
            taken.append(head)
        return taken

    def _admit(self, head: Prompt, now: float) -> bool:
        """Move the head of the queue in if memory allows; else note since when it is passed over."""
        request = head.record.request
        tokens = request.isl if head.copies else request.isl + request.output_tokens
        if not self.fits(tokens):
            self._blocked = (head, now)
            return False
        self.hold(tokens)
        self.waiting.popleft()
        self.partial.append(head)
        return True

    def _take_capped(self, now: float) -> list[Prompt]:
        """Take the largest candidate chunk of one prompt that keeps the mixed step within the cap."""
        if not self.partial and not (self.waiting and self._admit(self.waiting[0], now)):
            return []
        prompt = self.partial[0]
        assert self.cap is not None
        fixed = prompt.record.request.cached_tokens + prompt.done
        chunk = largest_chunk(
            self.times,
            self.cap,
            prompt.left,
            fixed,
            len(self.running),
            self.context,
            self.settings.token_budget,
        )
        if chunk is None:
            return []
        prompt.taken = chunk
        return [prompt]

    def end(self, now: float) -> tuple[list[Record], list[Prompt]]:
        """Account the step that ends now; return finished decodes and completed prompts."""
        self.busy = False
        stall = self._length - self._base
        done = self._advance_decodes(now, stall) if self._decoding else []
        if not self._decoding:
            for sequence in self.running:
                sequence.record.stalls += self._length
        completed = []
        total = sum(prompt.taken for prompt in self._prompts)
        for prompt in self._prompts:
            prompt.record.inflicted += self._stalled * stall * prompt.taken / total
            prompt.done += prompt.taken
            self.pending_tokens -= prompt.taken
            if prompt.left == 0:
                completed.append(prompt)
                self.partial.remove(prompt)
        self._prompts = []
        return done, completed

    def _advance_decodes(self, now: float, stall: float) -> list[Record]:
        done, still = [], []
        for sequence in self.running:
            record = sequence.record
            if sequence.again:
                sequence.again = False
                record.handover += self._length
                record.first = now
                if sequence.left == 0:
                    done.append(record)
                    self.context -= sequence.context
                    continue
            else:
                record.stalls += stall
                record.gathering += self._base
                sequence.left -= 1
                if sequence.left == 0:
                    done.append(record)
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
        self._stalled = sum(not s.again for s in self.running) if self._prompts else 0
        use.steps += 1
        use.busy_s += length
        if self._prompts and batch:
            use.mixed_s += length
            use.mixed_decode_s += self._base
        elif self._prompts:
            use.prefill_s += length
        else:
            use.decode_s += length
        tokens, rows = batch, batch
        for prompt in self._prompts:
            chunk, last = prompt.chunk, int(prompt.taken == prompt.left)
            tokens += chunk.tokens
            rows += last
            self._prefix += chunk.prefix
            self._chunk_compute += step_bound(self.kind, (chunk,), last, 0, 0).compute_s
        if batch:
            self._tokens += batch
            self._contexts += self.context
        self._moved += self.times.token_bytes(tokens, rows)

    def add_use(self, use: PoolUse) -> None:
        """Add what this instance did to the use of its pool."""
        mine = self._use
        for name in ("busy_s", "prefill_s", "decode_s", "mixed_s", "mixed_decode_s", "steps"):
            setattr(use, name, getattr(use, name) + getattr(mine, name))
        decode = step_bound(self.kind, (), 0, self._tokens, self._contexts)
        use.compute_bound_s += self._chunk_compute + decode.compute_s
        cached = self.times.cached_bytes(self._tokens, self._contexts + self._prefix)
        use.memory_bound_s += (self._moved + cached) / self.kind.memory_peak
