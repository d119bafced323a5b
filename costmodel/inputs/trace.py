"""Recorded traces: one request a row, read one row at a time."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path

from ..errors import InputError, nearest, shorten
from .workload import LONGEST, Arrivals, Request, Slo, Workload

ARRIVAL, PROMPT, OUTPUT, CACHED = "arrival_s", "prompt_tokens", "output_tokens", "cached_tokens"
_REQUIRED = (ARRIVAL, PROMPT, OUTPUT)
#: Requests that ``recommend`` evaluates of a trace: enough for a P95, few enough for the exact evaluator.
EVALUATED = 4000
#: Plain decimal numbers: float() and int() also read separators and other scripts' digits.
_TIME = re.compile(r"\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_COUNT = re.compile(r"[0-9]{1,12}")
_LATEST_S, _CLOSEST_S = 1e10, 1e-9


def read_trace(path: str | Path, unread: list[str] | None = None) -> Iterator[Request]:
    """Yield the requests of a CSV trace in constant memory.

    Columns: ``arrival_s`` (seconds, not decreasing; equal times are legal), ``prompt_tokens`` (cached and
    uncached), ``output_tokens`` and, if known, ``cached_tokens``. The names of others are added to
    ``unread`` before the first request. Raises InputError naming line, column and text at the first bad row,
    or when the file has no row.
    """
    where = Path(path)
    try:
        if where.is_dir():
            raise InputError("is a folder; pass the CSV file itself", where=str(where))
        with where.open(newline="", encoding="utf-8-sig") as file:
            yield from _rows(file, str(where), [] if unread is None else unread)
    except FileNotFoundError:
        raise InputError("no such trace file", where=str(where)) from None
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 text: {error.reason} at byte {error.start}", where=str(where)) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(where)) from None


def _rows(file: Iterator[str], where: str, unread: list[str]) -> Iterator[Request]:
    lines = _lines(file, where)
    header = [name.strip() for name in next(lines, (1, []))[1]]
    if not header:
        raise InputError(f"is empty; expected a header with {', '.join(_REQUIRED)}", where=where)
    _check_header(header, where)
    index = {name: header.index(name) for name in (*_REQUIRED, CACHED) if name in header}
    unread += [name or f"number {i + 1}" for i, name in enumerate(header) if i not in index.values()]
    previous, count = -math.inf, 0
    for line, cells in lines:
        if not cells:
            continue
        if len(cells) != len(header):
            raise InputError(f"line {line}: {len(cells)} cells, the header has {len(header)}", where=where)
        request = _request({name: cells[i].strip() for name, i in index.items()}, where, line)
        if request.arrival_s < previous:
            raise InputError(
                f"line {line}: {ARRIVAL} {request.arrival_s:g} comes after {previous:g}; "
                "sort the trace by arrival",
                where=where,
            )
        previous, count = request.arrival_s, count + 1
        yield request
    if count == 0:
        raise InputError("has a header but no request", where=where)


def _lines(file: Iterator[str], where: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of each line."""
    reader = csv.reader(file)
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error as error:
        raise InputError(f"line {reader.line_num}: {error}", where=where) from None


def _check_header(header: Sequence[str], where: str) -> None:
    problems = []
    for name in _REQUIRED:
        if name not in header:
            match = nearest(name, [h for h in header if h])
            problems.append(f"missing column {name!r}" + (f"; nearest present: {match!r}" if match else ""))
    twice = [name for name in (*_REQUIRED, CACHED) if header.count(name) > 1]
    problems += [f"column {name!r} stands {header.count(name)} times" for name in twice]
    if problems:
        raise InputError(problems, where=where)


def _request(cells: dict[str, str], where: str, line: int) -> Request:
    problems: list[str] = []
    arrival = float(cells[ARRIVAL]) if _TIME.fullmatch(cells[ARRIVAL]) else math.inf
    if arrival > _LATEST_S:
        stands = shorten(cells[ARRIVAL])
        problems.append(f"line {line}: {ARRIVAL} {stands!r} is not a time from 0 s to {_LATEST_S:g} s")
    counts = {}
    for name, low in ((PROMPT, 1), (OUTPUT, 1), (CACHED, 0)):
        text = cells.get(name, "0")
        if not _COUNT.fullmatch(text) or not low <= int(text) <= LONGEST:
            problems.append(
                f"line {line}: {name} {shorten(text)!r} is not a whole number of at least {low} and at most "
                f"{LONGEST:,}"
            )
        else:
            counts[name] = int(text)
    if not problems and counts[CACHED] >= counts[PROMPT]:
        problems.append(
            f"line {line}: {CACHED} {counts[CACHED]} leaves no uncached token of {counts[PROMPT]} prompt tokens"
        )
    if problems:
        raise InputError(problems, where=where)
    return Request(arrival, counts[PROMPT] - counts[CACHED], counts[CACHED], counts[OUTPUT])


def trace_workload(path: str | Path, slo: Slo, count: int = EVALUATED) -> Workload:
    """Return a workload that replays the first ``count`` requests of a trace at their own rate.

    Only those are kept; the rest is still read, so that a bad row is found. Raises InputError for fewer
    than two requests or a trace in which all arrive at once.
    """
    unread: list[str] = []
    rows = read_trace(path, unread)
    kept = tuple(islice(rows, count))
    total = len(kept) + sum(1 for _ in rows)
    span = kept[-1].arrival_s - kept[0].arrival_s
    if len(kept) < 2 or span < len(kept) * _CLOSEST_S:
        raise InputError("needs at least two requests at different times", where=str(path))
    rate = (len(kept) - 1) / span
    gaps = [b.arrival_s - a.arrival_s for a, b in pairwise(kept)]
    mean = span / len(gaps)
    cv = math.sqrt(sum((g - mean) ** 2 for g in gaps) / len(gaps)) / mean
    part = "all" if total == len(kept) else f"the first {len(kept):,}"
    others = f"; columns not read: {', '.join(unread)}" if unread else ""
    return Workload(
        name=Path(path).name,
        arrivals=Arrivals(rate, cv),
        uncached=None,
        cached_tokens=0,
        output=None,
        slo=slo,
        chosen=f"{part} of {total:,} requests of {path}{others}",
        requests=kept,
        bursty_trace=varies(kept),
    )


def varies(requests: Sequence[Request]) -> bool:
    """Say whether the load of a trace varies more than its gaps and lengths explain.

    True where the squared variation of gaps exceeds 2, or where the dispersion of work (uncached tokens) over
    windows of 300 mean gaps exceeds 1.5 times what independent arrivals and lengths would give. Then no
    formula from means and variations describes the queue. Fewer than three windows: True, nothing shown.
    """
    gaps = [b.arrival_s - a.arrival_s for a, b in pairwise(requests)]
    gap_scv = _scv(gaps)
    work = [float(r.uncached_tokens) for r in requests]
    window = 300 * sum(gaps) / len(gaps)
    first, start, sums = requests[0].arrival_s, 0.0, [0.0]
    for request, tokens in zip(requests, work):
        while request.arrival_s - first >= start + window:  # from 0: late on the clock, floats are coarse
            start += window
            sums.append(0.0)
        sums[-1] += tokens
    sums.pop()  # the last window is cut short
    if gap_scv > 2 or len(sums) < 3:
        return True
    mean_work = sum(work) / len(work)
    mean_sum = sum(sums) / len(sums)
    variance = sum((s - mean_sum) ** 2 for s in sums) / (len(sums) - 1)
    return variance / (mean_sum * mean_work) > 1.5 * (gap_scv + _scv(work))


def _scv(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sum((v - mean) ** 2 for v in values) / len(values) / mean**2 if mean > 0 else 0.0
