"""Reading a trace or a log of any known format, recognised by its content, one request at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from ...errors import InputError
from ..workload import Request
from .aiperf_logs import aiperf_log
from .bench_logs import bench_log, is_bench
from .files import opened
from .guidellm_logs import benchmarks_of, guidellm_log, is_report
from .jsonl import Record, jsonl_requests
from .logs import LoggedRequest, csv_log
from .reading import Notes, Reading
from .results import chosen, results_of
from .rows import csv_requests
from .stage_logs import has_stages, stage_log

_AS_RECORDED = Reading()


def read_trace(
    path: str | Path, how: Reading = _AS_RECORDED, notes: Notes | None = None
) -> Iterator[Request]:
    """Yield the requests of a trace, plain or gzip, as they arrive (seconds, not decreasing).

    Formats: CSV with ``arrival_s``, ``prompt_tokens`` (cached and uncached), ``output_tokens`` and, where
    known, ``cached_tokens`` or ``cached_prefix_tokens``, ``session_id``, ``request_id``; Azure's LLM
    inference CSV and BurstGPT's (rows without prompt or output tokens are skipped and counted); Mooncake's,
    AIPerf's and Bailian's JSONL; the logs that ``read_log`` reads.

    Memory does not grow with a trace, except for what ``how`` asks to remember (distinct hashes, sessions)
    and ids of requests, of which the first million are kept; a JSON log is kept whole, and put in order.
    What is not read goes to ``notes``. Raises InputError naming line, field and text, with all problems of
    the first bad row.
    """
    where, notes = str(path), notes or Notes()
    with opened(Path(path)) as file:
        found = _recognised(file, where)
        if found.kind == "csv":
            yield from csv_requests(found.lines, where, how, notes)
        elif found.kind == "jsonl":
            yield from jsonl_requests(found.lines, where, how, notes)
        else:
            yield from (logged.request for logged in _log(found, where, how, notes))


def read_log(
    path: str | Path,
    select: Mapping[str, str] | None = None,
    notes: Notes | None = None,
    *,
    timed: bool = True,
) -> Iterator[LoggedRequest]:
    """Yield the requests of a log with their measured times (seconds), by arrival.

    Formats: CSV with measured columns such as ``ttft_from_queued_s`` and ``tpot_s``, of one run or of the one
    that ``select`` picks by its columns; the results of ``vllm bench serve --save-result --save-detailed``, of
    SGLang's ``bench_serving --output-details`` and of GuideLLM, of several runs the one that ``select`` numbers
    (``run``, from 1); AIPerf's ``profile_export.jsonl``; JSONL with the times of vLLM's request metrics. ``timed``
    False: arrivals may be missing. Raises InputError as ``read_trace``, and for a trace without measurements.
    """
    where, notes = str(path), notes or Notes()
    how = Reading(select=select or {}, timed=timed)
    with opened(Path(path)) as file:
        yield from _log(_recognised(file, where), where, how, notes)


@dataclass(frozen=True)
class Trace:
    """A trace file as an iterable of requests: each pass reads it anew."""

    path: str | Path
    how: Reading = _AS_RECORDED
    notes: Notes | None = None

    def __iter__(self) -> Iterator[Request]:
        return read_trace(self.path, self.how, self.notes)


class _Found(NamedTuple):
    """What a file is, its lines from the first, and the objects that a result is made of."""

    kind: str
    lines: Iterator[str]
    runs: list[Record]


def _log(found: _Found, where: str, how: Reading, notes: Notes) -> Iterator[LoggedRequest]:
    """Yield the requests of a log. Raises InputError for a trace without measurements."""
    if found.kind == "csv":
        return csv_log(found.lines, where, how, notes)
    if found.kind == "aiperf":
        return aiperf_log(found.lines, where, how, notes)
    if found.kind == "stages":
        return stage_log(found.lines, where, how, notes)
    if found.kind == "jsonl":
        raise InputError("is a trace: it holds no measured times", where=where)
    runs = found.runs
    if found.kind == "guidellm":
        runs = benchmarks_of(runs[0], where)
    run, rest = chosen(runs, how, where)
    read = guidellm_log if found.kind == "guidellm" else bench_log
    return read(run, where, rest, notes)


def _recognised(file: Iterator[str], where: str) -> _Found:
    """Return the kind of a file, told by its first line, or by the whole of one JSON document."""
    first = next(file, "")
    lines, start = chain([first], file), first.strip()
    if not start.startswith(("{", "[")):
        return _Found("csv", lines, [])
    if start in ("{", "["):
        return _of_results("".join(lines), where)
    try:
        record = json.loads(first)
    except (ValueError, RecursionError):
        return _Found("jsonl", lines, [])  # its reader says what is wrong with the line
    if isinstance(record, dict) and "metadata" in record and "metrics" in record:
        return _Found("aiperf", lines, [])
    if isinstance(record, dict) and (is_bench(record) or is_report(record)):
        return _of_results("".join(lines), where)
    if isinstance(record, dict) and has_stages(record):
        return _Found("stages", lines, [])
    return _Found("jsonl", lines, [])


def _of_results(text: str, where: str) -> _Found:
    runs = results_of(text, where)
    if all(map(is_bench, runs)):
        return _Found("bench", iter(()), runs)
    if len(runs) == 1 and is_report(runs[0]):
        return _Found("guidellm", iter(()), runs)
    raise InputError(
        "is JSON of an unknown kind; expected a result of vllm bench serve, SGLang's bench_serving or GuideLLM, or "
        "JSONL with a request a line",
        where=where,
    )
