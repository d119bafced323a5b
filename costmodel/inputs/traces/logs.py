"""Logs of benchmarks: requests with what was measured of them.

Logs are written as requests finish. They are as short as a benchmark, so they are kept and put in order.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ...errors import InputError, shorten
from ..workload import LONGEST, Request
from .checks import NO_TIMES, Checks, Names
from .clocks import Seconds
from .jsonl import text_of
from .layouts import MEASURED
from .reading import INFINITE, NO_HASHES, Notes, Reading
from .reuse import Sessions
from .rows import csv_rows

FAILED = "failed or cancelled"
#: Whole numbers of JSON may be larger than floats.
_LARGEST = sys.float_info.max


class LoggedRequest(NamedTuple):
    """A request and its times in seconds, None where the log has none.

    ``ttft_s`` and ``e2e_s`` count from the client's sending, ``..._from_queued_s`` from when the engine
    queued it; both include ``queue_s``. ``tpot_s`` is the mean gap of tokens after the first. ``prefill_s``: from when
    the engine scheduled it to its first token, ``decode_s``: from there to the last.
    """

    request: Request
    ttft_s: float | None = None
    ttft_from_queued_s: float | None = None
    e2e_s: float | None = None
    e2e_from_queued_s: float | None = None
    tpot_s: float | None = None
    queue_s: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None


class Entry(NamedTuple):
    """One request of a log before it is put in order: where it stands, when it began, what it says."""

    at: str
    start: float | None
    cells: Mapping[str, str]
    measured: Mapping[str, float | None]


def csv_log(file: Iterator[str], where: str, how: Reading, notes: Notes) -> Iterator[LoggedRequest]:
    """Yield the requests of a CSV with measured columns. Raises InputError at the first bad row."""
    for request, cells in csv_rows(file, where, how, notes):
        present = [name for name in MEASURED if name in cells]
        if not present:
            raise InputError(f"has no measured column; expected any of {', '.join(MEASURED)}", where=where)
        measured = {name: _cell(name, cells[name], request, where) for name in present}
        yield LoggedRequest(request, **measured)


def _cell(name: str, text: str, request: Request, where: str) -> float | None:
    time = Seconds().one(text) if text else None
    if text and time is None:
        at = f"the request of arrival {request.arrival_s:.12g} s"
        raise InputError(f"{at}: {name} {shorten(text)!r} is not a time in seconds", where=where)
    return time


def number_at(at: str, name: str, value: object, where: str) -> float | None:
    """Return a time of 0 or more, None where there is none. Raises InputError for anything else."""
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= _LARGEST:
        raise InputError(f"{at}: {name} {shorten(text_of(value))!r} is not a time of 0 or more", where=where)
    return float(value)


def gaps_of(output: str) -> int:
    """Return the gaps between so many output tokens; 0 for a text that is no number of tokens, as checks will say."""
    return int(output) - 1 if output.isdecimal() and len(output) < 13 and 0 < int(output) <= LONGEST else 0


def in_order(
    entries: Sequence[Entry], names: Names, per_second: float, where: str, how: Reading, notes: Notes
) -> Iterator[LoggedRequest]:
    """Yield requests by their starts; the first arrives at 0."""
    notes.has_arrivals = all(entry.start is not None for entry in entries)
    problems = []
    if how.prefix == INFINITE:
        problems.append(NO_HASHES)
    if how.sessions and not names.session:
        problems.append(f"{notes.format} has no sessions")
    if how.select:
        problems.append("has no columns to select rows by")
    if how.timed and not notes.has_arrivals:
        problems.append(f"has no {names.arrival} for some or all requests. {NO_TIMES}")
    if not entries and not problems:
        problems.append("has no request that succeeded" if notes.skipped else "has no request")
    if problems:
        raise InputError(problems, where=where)
    if notes.has_arrivals:
        entries = sorted(entries, key=lambda entry: entry.start or 0)
    first = entries[0].start or 0
    checks = Checks(where, names, Seconds(), notes, skips_empty=True, timed=how.timed)
    sessions = Sessions() if how.sessions else None
    for entry in entries:
        cells = dict(entry.cells)
        if notes.has_arrivals and entry.start is not None:
            cells[names.arrival] = repr(float((entry.start - first) / per_second))
        request = checks.request(entry.at, cells)
        if request is not None:
            if sessions is not None:
                request = sessions.turn(request, cells.get(names.session, ""))
            yield LoggedRequest(request, **entry.measured)
