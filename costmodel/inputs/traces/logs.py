"""Logs of benchmarks: requests with what was measured of them.

Logs are written as requests finish. They are as short as a benchmark, so they are kept and put in order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ...errors import InputError, shorten
from ..workload import Request
from .checks import NO_TIMES, Checks, Names
from .clocks import Seconds
from .jsonl import Record, record_of, text_of
from .layouts import MEASURED
from .reading import INFINITE, NO_HASHES, Notes, Reading
from .reuse import Sessions
from .rows import csv_rows

FAILED = "failed or cancelled"
_VLLM = Names("start_times", "input_lens", "output_lens")
_AIPERF = Names(
    "request_start_ns",
    "input_sequence_length",
    "output_sequence_length",
    session="x_correlation_id",
    ident="x_request_id",
)
_PER_SECOND = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0, "sec": 1.0}


class LoggedRequest(NamedTuple):
    """A request and its times in seconds, None where the log has none.

    ``ttft_s`` and ``e2e_s`` count from the client's sending, ``..._from_queued_s`` from when the engine
    queued it; both include ``queue_s``. ``tpot_s`` is the mean gap of tokens after the first.
    """

    request: Request
    ttft_s: float | None = None
    ttft_from_queued_s: float | None = None
    e2e_s: float | None = None
    e2e_from_queued_s: float | None = None
    tpot_s: float | None = None
    queue_s: float | None = None


class _Entry(NamedTuple):
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


def vllm_log(result: Record, where: str, how: Reading, notes: Notes) -> Iterator[LoggedRequest]:
    """Yield the requests of what ``vllm bench serve --save-result --save-detailed`` writes.

    Raises InputError where the arrays of single requests are missing or of different lengths.
    """
    notes.format = "vLLM benchmark result"
    lists = {key: value for key, value in result.items() if isinstance(value, list)}
    missing = [name for name in (_VLLM.prompt, _VLLM.output) if name not in lists]
    if missing:
        problem = f"has no {' and no '.join(missing)}: save the result with --save-detailed"
        raise InputError(problem, where=where)
    count = len(lists[_VLLM.prompt])
    read = [key for key in (*vars(_VLLM).values(), "ttfts", "itls", "latencies", "errors") if key in lists]
    uneven = [key for key in read if len(lists[key]) != count]
    if uneven:
        problems = [f"{key} has {len(lists[key])} entries, {_VLLM.prompt} {count}" for key in uneven]
        raise InputError(problems, where=where)
    entries = []
    for i in range(count):
        row = {key: lists[key][i] for key in read}
        if row.pop("errors", None):
            notes.skip(FAILED)
        else:
            entries.append(_vllm_entry(f"request {i + 1}", row, where))
    return _in_order(entries, _VLLM, 1.0, where, how, notes)


def _vllm_entry(at: str, row: Record, where: str) -> _Entry:
    gaps = row.get("itls")
    if not isinstance(gaps, list | None):
        raise InputError(f"{at}: itls is not a list of times", where=where)
    ttft = _number(at, "ttfts", row.get("ttfts"), where)
    e2e = _number(at, "latencies", row.get("latencies"), where)
    if e2e is None and ttft is not None and gaps is not None:
        e2e = ttft + sum(_number(at, "itls", gap, where) or 0.0 for gap in gaps)
    cells = {name: text_of(row[name]) for name in (_VLLM.prompt, _VLLM.output)}
    after = int(cells[_VLLM.output]) - 1 if cells[_VLLM.output].isdecimal() else 0
    tpot = (e2e - ttft) / after if e2e is not None and ttft is not None and after > 0 else None
    start = _number(at, _VLLM.arrival, row.get(_VLLM.arrival), where)
    return _Entry(at, start, cells, {"ttft_s": ttft, "e2e_s": e2e, "tpot_s": tpot})


def aiperf_log(lines: Iterator[str], where: str, how: Reading, notes: Notes) -> Iterator[LoggedRequest]:
    """Yield the requests of AIPerf's ``profile_export.jsonl``; those that failed or warmed up are skipped.

    Raises InputError at the first bad record.
    """
    notes.format, notes.has_sessions = "AIPerf profile export", True
    entries = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        record, at = record_of(line, number, where), f"line {number}"
        metadata, metrics = record.get("metadata"), record.get("metrics")
        if not isinstance(metadata, dict):
            raise InputError(f"{at}: metadata is not an object", where=where)
        if record.get("error") or metadata.get("was_cancelled"):
            notes.skip(FAILED)
        elif metadata.get("benchmark_phase") == "warmup":
            notes.skip("sent to warm up")
        elif not isinstance(metrics, dict):
            raise InputError(f"{at}: metrics is not an object", where=where)
        else:
            entries.append(_aiperf_entry(at, metadata, metrics, where))
    return _in_order(entries, _AIPERF, 1e9, where, how, notes)


def _aiperf_entry(at: str, metadata: Record, metrics: Record, where: str) -> _Entry:
    cells = {
        name: text_of(_value(metrics.get(name)))
        for name in (_AIPERF.prompt, _AIPERF.output)
        if name in metrics
    }
    cells |= {
        name: text_of(metadata[name]) for name in (_AIPERF.session, _AIPERF.ident) if metadata.get(name)
    }
    names = {"ttft_s": "time_to_first_token", "e2e_s": "request_latency", "tpot_s": "inter_token_latency"}
    measured = {ours: _metric(at, theirs, metrics.get(theirs), where) for ours, theirs in names.items()}
    start = metadata.get(_AIPERF.arrival)
    if start is not None and type(start) is not int:
        problem = f"{at}: {_AIPERF.arrival} {shorten(text_of(start))!r} is not a whole number of ns"
        raise InputError(problem, where=where)
    return _Entry(at, start, cells, measured)


def _value(metric: object) -> object:
    return metric.get("value") if isinstance(metric, dict) else metric


def _metric(at: str, name: str, metric: object, where: str) -> float | None:
    """Return a time in seconds from a value with its unit."""
    number = _number(at, name, _value(metric), where)
    if number is None:
        return None
    unit = metric.get("unit") if isinstance(metric, dict) else None
    if unit not in _PER_SECOND:
        raise InputError(f"{at}: unit {unit!r} of {name}; expected {', '.join(_PER_SECOND)}", where=where)
    return number / _PER_SECOND[unit]


def _number(at: str, name: str, value: object, where: str) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise InputError(f"{at}: {name} {shorten(text_of(value))!r} is not a time of 0 or more", where=where)
    return float(value)


def _in_order(
    entries: Sequence[_Entry], names: Names, per_second: float, where: str, how: Reading, notes: Notes
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
