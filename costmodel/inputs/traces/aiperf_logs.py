"""AIPerf's ``profile_export.jsonl``: a request a line, with what was measured of it."""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import InputError, shorten
from .checks import Names
from .jsonl import Record, record_of, text_of
from .logs import FAILED, Entry, LoggedRequest, in_order, number_at
from .reading import Notes, Reading

_AIPERF = Names(
    "request_start_ns",
    "input_sequence_length",
    "output_sequence_length",
    session="x_correlation_id",
    ident="x_request_id",
)
_PER_SECOND = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0, "sec": 1.0}


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
    return in_order(entries, _AIPERF, 1e9, where, how, notes)


def _aiperf_entry(at: str, metadata: Record, metrics: Record, where: str) -> Entry:
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
    if start is not None and not (type(start) is int and 0 <= start < 2**63):
        problem = f"{at}: {_AIPERF.arrival} {shorten(text_of(start))!r} is not a whole number of ns"
        raise InputError(problem, where=where)
    return Entry(at, start, cells, measured)


def _value(metric: object) -> object:
    return metric.get("value") if isinstance(metric, dict) else metric


def _metric(at: str, name: str, metric: object, where: str) -> float | None:
    """Return a time in seconds from a value with its unit."""
    number = number_at(at, name, _value(metric), where)
    if number is None:
        return None
    unit = metric.get("unit") if isinstance(metric, dict) else None
    if not isinstance(unit, str) or unit not in _PER_SECOND:
        raise InputError(f"{at}: unit {unit!r} of {name}; expected {', '.join(_PER_SECOND)}", where=where)
    return number / _PER_SECOND[unit]
