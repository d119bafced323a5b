"""A finished request as spans of time, and lanes on which spans of many requests do not overlap."""

from __future__ import annotations

from typing import NamedTuple

from .timeline import Record


class Span(NamedTuple):
    """A stage of a request, on which instance (counted over all pools), from and to when in seconds."""

    stage: str
    on: int
    start_s: float
    end_s: float


def spans(record: Record) -> list[Span]:
    """Return the stages of a finished request: without a gap from its arrival to its end, some of them empty.

    A copy counts to the instance that it leaves. Decode includes being computed again after a preemption.
    """
    source, p1 = record.prefill_on, record.p1
    before = [
        Span("queue", source, record.request.arrival_s, record.p0),
        Span("prefill", source, record.p0, p1),
    ]
    if not record.copied:
        return [*before, Span("decode", source, p1, record.end)]
    return [
        *before,
        Span("wait for memory", source, p1, record.reserved),
        Span("copy", source, record.reserved, record.copied),
        Span("wait for a step", record.decode_on, record.copied, record.d0),
        Span("decode", record.decode_on, record.d0, record.end),
    ]


class Lanes:
    """Lanes of one instance; each is used again as soon as it is free."""

    def __init__(self) -> None:
        self._free_s: list[float] = []

    def take(self, start_s: float, end_s: float) -> int:
        """Return the first lane that is free from ``start_s`` on, a new one where none is; it is taken till ``end_s``.

        Taken in order of their starts, spans need as many lanes as overlap at most.
        """
        free = self._free_s
        for lane, since in enumerate(free):
            if since <= start_s:
                free[lane] = end_s
                return lane
        free.append(end_s)
        return len(free) - 1
