"""The fast way through a CSV trace: a chunk by whole columns, where nothing in it is odd."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import le, lt, sub

from ..workload import LONGEST, Request
from .checks import Checks
from .clocks import LATEST_S, plain
from .layouts import Table


class OddError(Exception):
    """Something in a chunk needs a careful look, which says what."""


def whole_columns(rows: Sequence[Sequence[str]], table: Table, checks: Checks) -> Iterator[Request]:
    """Return the requests of a chunk of at least one row, after all of it is checked.

    Raises OddError, before anything is noted, where the careful way might find fault with a row.
    """
    try:
        columns = list(zip(*rows, strict=True))
        if len(columns) != len(table.header) or any(len(set(columns[i])) > 1 for i in table.runs):
            raise OddError
        names = checks.names
        prompts = _counts(columns[table.place(names.prompt)], 1)
        outputs = _counts(columns[table.place(names.output)], 1)
        cached = _cached(columns, table, checks, prompts)
        times = _times(columns, table, checks, len(rows))
    except (ValueError, TypeError):
        raise OddError from None
    if names.ident and not checks.ids.add(columns[table.place(names.ident)]):
        raise OddError
    checks.previous = times[-1]
    if cached is None:
        return map(Request, times, prompts, [0] * len(times), outputs)
    return map(Request, times, map(sub, prompts, cached), cached, outputs)


def _times(columns: Sequence[Sequence[str]], table: Table, checks: Checks, count: int) -> list[float]:
    if checks.names.arrival not in table.header:
        return [0.0] * count
    times = checks.clock.many(columns[table.place(checks.names.arrival)])
    # comparisons with nan are false, and one with inf fails
    if not (checks.previous <= times[0] and times[-1] <= LATEST_S and all(map(le, times, times[1:]))):
        raise OddError
    return times


def _cached(
    columns: Sequence[Sequence[str]], table: Table, checks: Checks, prompts: Sequence[int]
) -> list[int] | None:
    name = checks.names.cached or checks.names.hits
    if not name:
        return None
    cached = _counts(columns[table.place(name)], 0)
    if checks.names.hits:
        return [min(hit, prompt - 1) for hit, prompt in zip(cached, prompts)]
    if not all(map(lt, cached, prompts)):
        raise OddError
    return cached


def _counts(texts: Sequence[str], least: int) -> list[int]:
    if not plain(texts):
        raise OddError
    counts = list(map(int, texts))
    if min(counts) < least or max(counts) > LONGEST:
        raise OddError
    return counts
