"""Why requests of a replay waited: sequence slots or KV memory that were full, prompts that were computed, a step."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import inf
from typing import NamedTuple

from ..evaluate.timeline import Record
from ..serving.deployment import Deployment
from ..serving.memory import KvPool
from ..serving.strategies import Role

#: What a wait is for, the first that holds: nothing else would end it sooner.
SLOTS, MEMORY, PROMPTS, STEP = "slots", "memory", "prompts", "step under way"
CAUSES = (SLOTS, MEMORY, PROMPTS, STEP)
#: Accounts of waits that have a cause.
WAITS = ("queue_s", "admission_s")


@dataclass(frozen=True)
class _Sums:
    """Seconds that each cause held on one instance, from the first event until each event."""

    times: tuple[float, ...]
    sums: Mapping[str, tuple[float, ...]]

    def between(self, start: float, end: float) -> dict[str, float]:
        """Seconds of each cause in a span of time."""
        first, last = self._at(start), self._at(end)
        found = {name: after - before for name, before, after in zip(self.sums, first, last)}
        found[STEP] += max(0.0, end - start - sum(found.values()))
        return found

    def _at(self, time: float) -> list[float]:
        """The sums at a time, on the line between the events about it."""
        times = self.times
        place = min(max(bisect_right(times, time), 1), len(times) - 1) if len(times) > 1 else 0
        before = max(place - 1, 0)
        width = times[place] - times[before]
        share = min(max((time - times[before]) / width, 0.0), 1.0) if width > 0 else 0.0
        return [sums[before] + share * (sums[place] - sums[before]) for sums in self.sums.values()]


class Causes:
    """Causes of the waits of a replay; ``records``: all of its requests."""

    def __init__(self, records: Sequence[Record], deployment: Deployment) -> None:
        self._settings = deployment.settings
        prefills = len(deployment.pool(Role.PREFILL))
        on = dict.fromkeys(number for r in records for number in (r.prefill_on, r.decode_on) if number >= 0)
        self._sums = {
            number: self._of_instance(
                records, number, deployment.prefill_pool if number < prefills else deployment.decode_pool
            )
            for number in on
        }

    def of(self, record: Record, account: str, offset: float = 0.0) -> dict[str, float]:
        """Seconds by cause of an account of a request; ``offset``: seconds after its arrival that do not count."""
        found = dict.fromkeys(CAUSES, 0.0)
        if account == "admission_s" and record.route == "remote":
            found[STEP] += record.d0 - record.copied  # it has its seat
        for on, start, end in _spans(record, account, offset):
            for name, seconds in self._sums[on].between(start, end).items():
                found[name] += seconds
        return found

    def _of_instance(self, records: Sequence[Record], number: int, pool: KvPool) -> _Sums:
        """Which cause would hold a request up there at any time, as seconds summed up to each event."""
        here = [r for r in records if number in (r.prefill_on, r.decode_on)]
        sizes = [self._settings.admitted_tokens(r.request.isl, r.request.output_tokens) for r in here]
        room = pool.pool_bytes / pool.sequence.most_per_token - sum(sizes) / len(sizes)
        changes = sorted(change for record in here for change in self._changes(record, number))
        state, causes = _State(room if pool.sequence.linear else inf), []
        for change, after in zip(changes, (*changes[1:], changes[-1])):
            state.add(change)
            causes.append(self._cause(state, (change.at + after.at) / 2))
        times = [change.at for change in changes]
        lengths = [after - before for before, after in pairwise(times)]
        sums = {
            name: tuple(accumulate((s if c == name else 0.0 for s, c in zip(lengths, causes)), initial=0.0))
            for name in CAUSES
        }
        return _Sums(tuple(times), sums)

    def _cause(self, state: _State, at: float) -> str:
        if state.seated >= self._settings.max_seqs:
            return SLOTS
        if state.passed_over or state.held + state.growth * at > state.room:
            return MEMORY
        return PROMPTS if state.computed else STEP

    def _changes(self, record: Record, number: int) -> Iterable[_Change]:
        """When a request changes what an instance holds; its KV grows evenly while it decodes, where KV grows."""
        remote, request = record.route == "remote", record.request
        if record.prefill_on == number:
            end = record.copied if remote else record.end
            yield from _span(record.p0, end, seated=1, held=float(request.isl))
            yield from _span(record.p0, record.p1, computed=1)
            yield from _span(record.p0 - record.admission, record.p0, passed_over=1)
        if remote and record.decode_on == number:
            yield from _span(record.reserved, record.end, seated=1, held=float(request.isl))
            yield from _span(record.p1, record.reserved, passed_over=1)
        if record.decode_on == number:
            begun, taken = (record.d0, record.reserved) if remote else (record.p1, record.p0)
            if not self._settings.grows:
                yield from _span(taken, record.end, held=float(request.output_tokens))
            elif record.end > begun:
                growth = request.output_tokens / (record.end - begun)
                yield _Change(begun, growth=growth, held=-growth * begun)
                yield _Change(record.end, growth=-growth, held=growth * begun)


class _Change(NamedTuple):
    """What changes ``at`` a time: tokens held are ``held`` and ``growth`` times that time."""

    at: float
    seated: int = 0
    computed: int = 0
    passed_over: int = 0
    held: float = 0.0
    growth: float = 0.0


@dataclass
class _State:
    """What an instance holds: sequences, prompts under way, requests passed over at the head of the line, and tokens.

    ``room``: tokens held above which the next request does not fit.
    """

    room: float
    seated: int = 0
    computed: int = 0
    passed_over: int = 0
    held: float = 0.0
    growth: float = 0.0

    def add(self, change: _Change) -> None:
        self.seated += change.seated
        self.computed += change.computed
        self.passed_over += change.passed_over
        self.held += change.held
        self.growth += change.growth


def _span(
    start: float, end: float, *, seated: int = 0, computed: int = 0, passed_over: int = 0, held: float = 0.0
) -> Iterable[_Change]:
    """Both ends of what holds from ``start`` to ``end``, seconds."""
    if end > start:
        yield _Change(start, seated, computed, passed_over, held)
        yield _Change(end, -seated, -computed, -passed_over, -held)


def _spans(record: Record, account: str, offset: float) -> list[tuple[int, float, float]]:
    """Instances where a request waited, from when to when, in seconds."""
    start, at_head = record.request.arrival_s + offset, record.p0 - record.admission
    if account == "queue_s":
        return [(record.prefill_on, start, max(start, at_head))]
    found = [(record.prefill_on, at_head, record.p0)]
    if record.route == "remote":
        found.append((record.decode_on, record.p1, record.reserved))
    return found
