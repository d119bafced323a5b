"""JSONL with the times that an engine notes of each request: queued, scheduled, first token, last token.

vLLM has called them by other names from version to version; those that are there give the stages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...errors import InputError
from .checks import Names
from .jsonl import Record, record_of, text_of
from .logs import Entry, LoggedRequest, gaps_of, in_order, number_at
from .reading import Notes, Reading

_NAMES = Names("arrival_time", "prompt_tokens", "output_tokens", ident="request_id")
#: Names of the numbers of tokens and of times, the likeliest first.
_PROMPT = ("num_prompt_tokens", "prompt_tokens", "prompt_len", "input_tokens", "input_len")
_OUTPUT = (
    "num_generation_tokens",
    "num_output_tokens",
    "completion_tokens",
    "output_tokens",
    "generation_tokens",
    "output_len",
)
_QUEUED = ("queued_ts",)
_SCHEDULED = ("first_scheduled_time", "scheduled_ts")
_FIRST = ("first_token_time", "first_token_ts")
_LAST = ("last_token_time", "last_token_ts", "finished_time")
#: Stages that some versions give as they are, seconds.
_GIVEN = {
    "queue_s": ("queued_time", "time_in_queue"),
    "prefill_s": ("prefill_time",),
    "decode_s": ("decode_time",),
}
_E2E, _FIRST_LATENCY = "e2e_latency", "first_token_latency"


def has_stages(record: Record) -> bool:
    """Say whether an object tells stages of a request: when it was scheduled or queued, and its first token."""
    row = _flat(record)
    told = any(name in row for name in (*_SCHEDULED, *_QUEUED, *_GIVEN["queue_s"]))
    return told and any(name in row for name in (*_FIRST, *_GIVEN["prefill_s"]))


def stage_log(lines: Iterator[str], where: str, how: Reading, notes: Notes) -> Iterator[LoggedRequest]:
    """Yield the requests of a file with an object a line. Raises InputError at the first bad one."""
    notes.format = "engine's request metrics"
    entries = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            entries.append(_entry(f"line {number}", _flat(record_of(line, number, where)), where))
    return in_order(entries, _NAMES, 1.0, where, how, notes)


def _flat(record: Record) -> Record:
    """Return the fields of a request with those of its ``metrics`` or ``stats``, where they stand apart."""
    inner = next((found for key in ("metrics", "stats") if isinstance(found := record.get(key), Mapping)), {})
    return {**record, **inner}


def _entry(at: str, row: Record, where: str) -> Entry:
    cells = {}
    for name, known in ((_NAMES.prompt, _PROMPT), (_NAMES.output, _OUTPUT), (_NAMES.ident, (_NAMES.ident,))):
        value = next((row[key] for key in known if row.get(key) is not None), None)
        if value is not None:
            cells[name] = text_of(value)
    arrival = number_at(at, _NAMES.arrival, row.get(_NAMES.arrival), where)
    queued = _time(at, row, _QUEUED, where)
    measured = _stages(at, row, queued if queued is not None else arrival, where)
    first, last = measured.pop("first_s"), measured.pop("last_s")
    if queued is not None or arrival is None:  # the engine's own clock, of which arrival is not
        sent = _time(at, row, (_FIRST_LATENCY,), where)
        measured |= {"ttft_from_queued_s": first, "e2e_from_queued_s": last, "ttft_s": sent}
    else:
        measured |= {"ttft_s": first, "e2e_s": last}
    if measured.get("e2e_s") is None:
        measured["e2e_s"] = _time(at, row, (_E2E,), where)
    decode = measured["decode_s"]
    after = gaps_of(cells.get(_NAMES.output, ""))
    measured["tpot_s"] = decode / after if decode is not None and after > 0 else None
    return Entry(at, arrival, cells, measured)


def _stages(at: str, row: Record, start: float | None, where: str) -> dict[str, float | None]:
    """Return the stages of a request, and its first and last token counted from ``start``."""
    scheduled, first, last = (_time(at, row, names, where) for names in (_SCHEDULED, _FIRST, _LAST))
    found = {
        "queue_s": _between(at, "scheduled", start, scheduled, where),
        "prefill_s": _between(at, "first token", scheduled, first, where),
        "decode_s": _between(at, "last token", first, last, where),
        "first_s": _between(at, "first token", start, first, where),
        "last_s": _between(at, "last token", start, last, where),
    }
    for name, known in _GIVEN.items():
        given = _time(at, row, known, where)
        found[name] = given if found[name] is None else found[name]
    if found["first_s"] is None and found["queue_s"] is not None and found["prefill_s"] is not None:
        found["first_s"] = found["queue_s"] + found["prefill_s"]
    return found


def _time(at: str, row: Record, names: tuple[str, ...], where: str) -> float | None:
    name = next((name for name in names if row.get(name) is not None), None)
    return None if name is None else number_at(at, name, row[name], where)


def _between(at: str, what: str, earlier: float | None, later: float | None, where: str) -> float | None:
    if earlier is None or later is None:
        return None
    if later < earlier:
        raise InputError(
            f"{at}: {what} at {later:.12g} s, before {earlier:.12g} s: two clocks, or cut off", where=where
        )
    return later - earlier
