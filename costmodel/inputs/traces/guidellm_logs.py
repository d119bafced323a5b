"""GuideLLM's ``benchmarks.json``: every benchmark has its requests, with what was measured of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...errors import InputError
from .checks import Names
from .jsonl import Record, text_of
from .logs import FAILED, Entry, LoggedRequest, in_order, number_at
from .reading import Notes, Reading

_NAMES = Names("request_start_time", "prompt_tokens", "output_tokens", ident="request_id")
#: The start of a request as versions up to 0.3 name it.
_OLD_START = "start_time"
_TIMES = {
    "ttft_s": ("time_to_first_token_ms", 1e3),
    "e2e_s": ("request_latency", 1.0),
    "tpot_s": ("inter_token_latency_ms", 1e3),
}


def is_report(result: Record) -> bool:
    """Say whether an object is a report of GuideLLM."""
    return isinstance(result.get("benchmarks"), list)


def benchmarks_of(report: Record, where: str) -> list[Record]:
    """Return the benchmarks of a report. Raises InputError where there is none, or one is no object."""
    found = report["benchmarks"]
    if not isinstance(found, list) or not found or not all(isinstance(one, dict) for one in found):
        raise InputError("benchmarks: expected a list of objects", where=where)
    return found


def guidellm_log(benchmark: Record, where: str, how: Reading, notes: Notes) -> Iterator[LoggedRequest]:
    """Yield the requests of a benchmark; those that failed or were cut off are skipped.

    Raises InputError where it holds none, or at the first bad one.
    """
    notes.format = "GuideLLM benchmark"
    groups = benchmark.get("requests")
    if not isinstance(groups, dict) or not isinstance(groups.get("successful"), list):
        raise InputError("holds no single requests (requests.successful): save them all", where=where)
    for status in ("errored", "incomplete"):
        for _ in groups.get(status) or ():
            notes.skip(FAILED)
    entries = [_entry(f"request {i}", row, where) for i, row in enumerate(groups["successful"], 1)]
    return in_order(entries, _NAMES, 1.0, where, how, notes)


def _entry(at: str, row: object, where: str) -> Entry:
    if not isinstance(row, Mapping):
        raise InputError(f"{at}: not an object", where=where)
    names = (_NAMES.prompt, _NAMES.output, _NAMES.ident)
    cells = {name: text_of(row[name]) for name in names if row.get(name) is not None}
    measured = {}
    for ours, (theirs, per_second) in _TIMES.items():
        number = number_at(at, theirs, row.get(theirs), where)
        measured[ours] = None if number is None else number / per_second
    start = next((name for name in (_NAMES.arrival, _OLD_START) if row.get(name) is not None), _NAMES.arrival)
    return Entry(at, number_at(at, start, row.get(start), where), cells, measured)
