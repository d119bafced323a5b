"""Running decodes of one replayed instance: what a run of steps changes for all of them, kept once.

Every decode step of an instance serves the whole batch. So a decode is known by the number of the step that ends
it, and what it has suffered is a difference of two running totals: nothing is touched for each request and step.
"""

from __future__ import annotations

import heapq

from ..memory.kv import SequenceBytes
from .timeline import Record


class Decode:
    """A running decode. Its first step here is number ``begun`` + 1, over ``context`` tokens; it ends with number
    ``ends``, or -1 once it has left. ``admitted``: tokens whose KV it took on entering; ``since``: of preemption.
    """

    __slots__ = (
        "admitted", "again", "begun", "context", "ends", "entered", "gathered", "left", "record", "since",
        "stalled",
    )  # fmt: skip

    def __init__(self, record: Record, left: int, context: int, again: bool) -> None:
        self.record, self.left, self.context, self.again = record, left, context, again
        self.admitted = self.entered = self.begun = 0
        self.ends = -1
        self.gathered = self.stalled = 0.0
        self.since = -1.0


class Batch:
    """The decodes that run on an instance.

    ``steps`` decode steps have ended, ``gathered`` seconds of them without prompts and ``stalled`` seconds that
    prompts added. ``context``: tokens of the next step. ``again``: decodes whose next step recomputes the last
    prompt token; ``returning``: preempted ones whose next step has not begun.
    """

    __slots__ = (
        "again", "context", "ending", "gathered", "joined", "members", "returning", "size", "stalled", "steps",
    )  # fmt: skip

    def __init__(self) -> None:
        self.size = self.context = self.steps = self.joined = 0
        self.gathered = self.stalled = 0.0
        self.ending: list[tuple[int, int, Decode]] = []
        self.members: dict[Decode, None] = {}
        self.again: list[Decode] = []
        self.returning: list[Decode] = []

    @property
    def stalling(self) -> int:
        """Decodes that a prompt's step keeps waiting."""
        return self.size - len(self.again) - len(self.returning)

    def join(self, decode: Decode) -> None:
        """Add a decode: it runs in the next decode step."""
        decode.begun = self.steps
        decode.ends = self.steps + decode.left
        if decode.again:
            decode.ends += 1
            self.again.append(decode)
        elif decode.since >= 0:
            self.returning.append(decode)
        decode.gathered, decode.stalled = self.gathered, self.stalled
        self.size += 1
        self.context += decode.context
        self.joined += 1
        self.members[decode] = None
        heapq.heappush(self.ending, (decode.ends, self.joined, decode))

    def until_end(self) -> int:
        """Decode steps until the next decode ends."""
        ending = self.ending
        while ending[0][2].ends != ending[0][0]:
            heapq.heappop(ending)
        return ending[0][0] - self.steps

    def begin(self, now: float) -> None:
        """A decode step begins: decodes that were preempted are back."""
        for decode in self.returning:
            decode.record.recompute += now - decode.since
            decode.since = -1.0
            decode.gathered, decode.stalled = self.gathered, self.stalled
        self.returning.clear()

    def advance(self, count: int, base: float, stall: float, now: float) -> None:
        """``count`` decode steps have ended by ``now``: ``base`` seconds of their own and ``stall`` of prompts."""
        self.steps += count
        self.context += count * self.size
        self.gathered += base
        self.stalled += stall
        if self.again:
            for decode in self.again:
                decode.again = False
                decode.record.handover += base + stall
                decode.record.first = now
                decode.begun, decode.context = self.steps, decode.context + 1
                decode.gathered, decode.stalled = self.gathered, self.stalled
            self.again.clear()

    def wait(self, seconds: float) -> None:
        """A step of prompts alone has kept everybody waiting."""
        self.stalled += seconds
        for decode in self.again:
            decode.record.seating += seconds

    def ended(self) -> list[Decode]:
        """Remove and return the decodes whose last step has ended."""
        ending, steps, done = self.ending, self.steps, []
        while ending and (ending[0][0] <= steps or ending[0][2].ends != ending[0][0]):
            ends, _, decode = heapq.heappop(ending)
            if decode.ends == ends:
                self._leave(decode)
                done.append(decode)
        return done

    def drop(self, decode: Decode, now: float) -> None:
        """Remove a decode that is preempted; what is left of it, and its next context, stand in it."""
        passed = self.steps - decode.begun
        self._leave(decode)
        decode.context += passed
        if decode.again:
            self.again.remove(decode)
        elif decode.since >= 0:
            self.returning.remove(decode)
        else:
            decode.left -= passed
        if decode.since < 0:
            decode.since = now

    def _leave(self, decode: Decode) -> None:
        """Account a decode's time here and take it out."""
        decode.ends = -1
        self.size -= 1
        self.context -= decode.context + self.steps - decode.begun
        del self.members[decode]
        if not decode.again and decode.since < 0:
            record = decode.record
            record.stalls += self.stalled - decode.stalled
            record.gathering += self.gathered - decode.gathered

    def held_tokens(self, decode: Decode) -> int:
        """Tokens whose KV a decode holds where it grows: those of its last step that began."""
        return max(decode.admitted, decode.context + self.steps - decode.begun - 1)

    def held_bytes(self, size: SequenceBytes, begun: int) -> int:
        """Bytes that all decodes hold, ``begun`` steps after the last that has ended."""
        total, steps = 0, self.steps + begun - 1
        for decode in self.members:
            total += size.of(max(decode.admitted, decode.context + steps - decode.begun))
        return total
