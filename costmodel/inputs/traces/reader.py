"""Reading a trace or a log of any known format, recognised by its content, one request at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from ...errors import InputError
from ..workload import Request
from .files import opened
from .jsonl import Record, jsonl_requests
from .logs import LoggedRequest, aiperf_log, csv_log, vllm_log
from .reading import Notes, Reading
from .rows import csv_requests

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
        kind, lines, result = _recognised(file, where)
        if kind == "csv":
            yield from csv_requests(lines, where, how, notes)
        elif kind == "jsonl":
            yield from jsonl_requests(lines, where, how, notes)
        else:
            log = (
                vllm_log(result, where, how, notes)
                if kind == "vllm"
                else aiperf_log(lines, where, how, notes)
            )
            yield from (logged.request for logged in log)


def read_log(
    path: str | Path,
    select: Mapping[str, str] | None = None,
    notes: Notes | None = None,
    *,
    timed: bool = True,
) -> Iterator[LoggedRequest]:
    """Yield the requests of a log with their measured times (seconds), by arrival.

    Formats: CSV with measured columns such as ``ttft_from_queued_s`` and ``tpot_s``, of one run or of the one
    that ``select`` picks by its columns; the result of ``vllm bench serve --save-result --save-detailed``;
    AIPerf's ``profile_export.jsonl``. ``timed`` False: arrivals may be missing. Raises InputError as
    ``read_trace``, and for a trace without measurements.
    """
    where, notes = str(path), notes or Notes()
    how = Reading(select=select or {}, timed=timed)
    with opened(Path(path)) as file:
        kind, lines, result = _recognised(file, where)
        if kind == "csv":
            yield from csv_log(lines, where, how, notes)
        elif kind == "vllm":
            yield from vllm_log(result, where, how, notes)
        elif kind == "aiperf":
            yield from aiperf_log(lines, where, how, notes)
        else:
            raise InputError("is a trace: it holds no measured times", where=where)


@dataclass(frozen=True)
class Trace:
    """A trace file as an iterable of requests: each pass reads it anew."""

    path: str | Path
    how: Reading = _AS_RECORDED
    notes: Notes | None = None

    def __iter__(self) -> Iterator[Request]:
        return read_trace(self.path, self.how, self.notes)


def _recognised(file: Iterator[str], where: str) -> tuple[str, Iterator[str], Record]:
    """Return the kind of a file, its lines from the first, and the object that a vLLM result is."""
    first = next(file, "")
    lines, start = chain([first], file), first.strip()
    if not start.startswith(("{", "[")):
        return "csv", lines, {}
    if start in ("{", "["):
        return "vllm", lines, _result("".join(lines), where)
    try:
        record = json.loads(first)
    except (ValueError, RecursionError):
        return "jsonl", lines, {}  # its reader says what is wrong with the line
    if isinstance(record, dict) and "metadata" in record and "metrics" in record:
        return "aiperf", lines, {}
    if isinstance(record, dict) and ("input_lens" in record or "request_throughput" in record):
        return "vllm", lines, _result("".join(lines), where)
    return "jsonl", lines, {}


def _result(text: str, where: str) -> Record:
    try:
        result = json.loads(text)
    except (ValueError, RecursionError) as error:
        several = "; it may hold several results, keep one" if "Extra data" in str(error) else ""
        raise InputError(f"not JSON: {error}{several}", where=where) from None
    if not isinstance(result, dict) or not {"input_lens", "request_throughput"} & result.keys():
        raise InputError(
            "is JSON of an unknown kind; expected a result of vllm bench serve, or JSONL with a request a line",
            where=where,
        )
    return result
