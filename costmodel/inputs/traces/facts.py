"""A first pass over a trace: every row is checked, and a few numbers are kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .reader import read_trace
from .reading import Notes, Reading


@dataclass(frozen=True)
class TraceFacts:
    """What a trace holds.

    ``span_s``: seconds from the first arrival to the last. ``rate``: requests/s over it; None where there
    are no arrival times, fewer than two requests, or all arrive at once. ``skipped``: rows that are no
    request, by reason. ``unread``: columns or keys that are not read.
    """

    format: str
    requests: int
    span_s: float
    rate: float | None
    mean_prompt_tokens: float
    mean_cached_tokens: float
    mean_output_tokens: float
    skipped: dict[str, int]
    unread: tuple[str, ...]
    has_arrivals: bool
    has_blocks: bool
    has_sessions: bool


def check_trace(path: str | Path, how: Reading | None = None) -> TraceFacts:
    """Read a trace from end to end, in constant memory, and return its facts. Raises InputError as read_trace."""
    notes = Notes()
    count, first, last = 0, 0.0, 0.0
    uncached, cached, output = 0, 0, 0
    for request in read_trace(path, how or Reading(), notes):
        last = request[0]
        if count == 0:
            first = last
        count += 1
        uncached += request[1]
        cached += request[2]
        output += request[3]
    span = last - first
    return TraceFacts(
        format=notes.format,
        requests=count,
        span_s=span,
        rate=(count - 1) / span if span > 0 and notes.has_arrivals else None,
        mean_prompt_tokens=(uncached + cached) / count,
        mean_cached_tokens=cached / count,
        mean_output_tokens=output / count,
        skipped=dict(notes.skipped),
        unread=tuple(notes.unread),
        has_arrivals=notes.has_arrivals,
        has_blocks=notes.has_blocks,
        has_sessions=notes.has_sessions,
    )
