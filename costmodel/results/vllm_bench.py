"""Results of ``vllm bench serve`` and of ``benchmark_serving.py`` before it."""

from __future__ import annotations

from ..errors import shorten
from ..records.record import Record
from .bench import read_lengths, read_measures, state_load, state_requests
from .sheet import BY_ALIAS, Sheet
from .singles import check_singles
from .spread import add_spread

FORM = "vllm bench serve"
#: What the client speaks, which is not the engine: it says "vllm" or "openai" to any server.
_PROTOCOL = ("backend", "endpoint_type")
#: Aliases of conditions that mean something else here.
_NOT_CONDITIONS = {*_PROTOCOL, "seed", "label", "n", "mode", "load", "duration", "rate"}
#: Times of single requests that the server told, seconds.
_SERVER = {
    "server_queue_times": ("prefill_queue_time", None),
    "server_ttfts": ("ttft", "the server's receipt"),
}


def read_vllm(sheet: Sheet, name: str) -> Record:
    """Return the record of a result, aggregates with or without its single requests. Raises InputError."""
    sheet.state("model", sheet.text("model_id"), "model_id")
    completed = state_requests(sheet, sheet.count("num_prompts"))
    state_load(sheet, "Poisson")
    if sheet.has("ramp_up_strategy"):
        sheet.warn("the rate rose during the run (ramp_up_strategy): no single load was measured")
    read_lengths(sheet, completed)
    read_measures(sheet, completed)
    check_singles(sheet)
    for key, (metric, start) in _SERVER.items():
        add_spread(sheet, metric, key, {"ttft_from": start} if start else {})
    _state_metadata(sheet)
    if "engine_version" not in sheet.conditions:
        sheet.warn("the result states no engine version")
    date = sheet.text("date")
    return sheet.record(name, FORM, f"{FORM}, {_day(date)}" if date else FORM)


def _state_metadata(sheet: Sheet) -> None:
    """State what ``--metadata KEY=VALUE`` says, where a key is a name of a condition."""
    for key in [key for key in sheet.unread() if key not in _NOT_CONDITIONS]:
        name, value = BY_ALIAS.get(key), sheet.fields[key]
        if name is None or name in sheet.conditions:
            continue
        if sheet.state(name, value, key):
            sheet.take(key)
        elif not isinstance(value, dict | list):
            sheet.warn(f"{key}: {shorten(str(value))!r} states no {name}, and is not used")


def _day(date: str) -> str:
    """Return 20250806-143022 as a date and time; anything else as it stands."""
    digits = date.replace("-", "")
    if len(digits) != 14 or not digits.isdecimal():
        return date[:40]
    return f"{digits[:4]}-{digits[4:6]}-{digits[6:8]} {digits[8:10]}:{digits[10:12]}"
