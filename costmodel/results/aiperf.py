"""Summaries of AIPerf and of GenAI-Perf before it: an object of statistics and a unit for each metric."""

from __future__ import annotations

from ..records.record import Record
from .bench import TPOT, TTFT_FROM
from .distributions import add_distribution, inner, state_distribution
from .documents import Fields, object_of
from .sheet import Sheet

AIPERF, GENAI = "AIPerf", "GenAI-Perf"
_METRICS = {
    "request_latency": "e2e",
    "time_to_first_token": "ttft",
    "inter_token_latency": "tpot",
    "request_throughput": "request_throughput",
    "output_token_throughput": "output_throughput",
    "input_token_throughput": "input_throughput",
    "total_token_throughput": "total_throughput",
    "output_token_throughput_per_user": "user_throughput",
    "benchmark_duration": "benchmark_duration",
    "effective_concurrency": "requests_in_flight",
    "goodput": "request_goodput",
}
#: Units as these tools write them.
_UNITS = {
    "ms": "ms", "ns": "ns", "us": "us", "s": "s", "sec": "s", "seconds": "s", "requests/sec": "req/s",
    "tokens/sec": "tok/s", "tokens/sec/user": "tok/s", "requests": "",
}  # fmt: skip
#: Metrics with one value, whose mean is no mean.
_SINGLE = (
    "request_throughput",
    "output_throughput",
    "input_throughput",
    "total_throughput",
    "benchmark_duration",
    "request_goodput",
)
_NOTES = {
    "benchmark_duration": "from the first request's start to the last answer's end; rates count over the whole phase"
}
_DEFINED = {"ttft": {"ttft_from": TTFT_FROM}, "tpot": {"tpot_definition": TPOT}}
#: Where versions write the model, the number of requests under way, the rate and the kind of gaps.
_MODEL = (("models", "items", 0, "name"), ("endpoint", "model_names", 0), ("model_names", 0), ("model", 0))
_LOOP = (("concurrency",), ("loadgen", "concurrency"), ("perf_analyzer", "stimulus", "concurrency"))
_RATE = (
    ("rate",),
    ("request_rate",),
    ("loadgen", "request_rate"),
    ("perf_analyzer", "stimulus", "request_rate"),
)
_GAPS = (("type",), ("loadgen", "arrival_pattern"), ("loadgen", "request_rate_mode"))
_PROCESS = {
    "poisson": "Poisson",
    "gamma": "gamma gaps",
    "constant": "even gaps",
    "fixed_schedule": "times of a trace",
}


def is_summary(fields: Fields) -> bool:
    """Say whether an object is a summary: metrics with units beside what was asked for."""
    return "input_config" in fields and any(inner(fields, name, "unit") is not None for name in _METRICS)


def form_of(fields: Fields) -> str:
    """Return which of the two tools wrote a summary."""
    return AIPERF if {"aiperf_version", "error_summary", "was_cancelled"} & fields.keys() else GENAI


def read_aiperf(sheet: Sheet, name: str) -> Record:
    """Return the record of a summary. Raises InputError."""
    form, settings = form_of(sheet.fields), sheet.take("input_config")
    sheet.state("model", _first(settings, _MODEL), "input_config")
    _state_load(sheet, settings)
    _count(sheet)
    for side in ("input", "output"):
        key = f"{side}_sequence_length"
        state_distribution(sheet, side, key, sheet.take(key))
    for key, metric in _METRICS.items():
        found = sheet.take(key)
        unit = inner(found, "unit")
        if found is None:
            continue
        if not isinstance(unit, str) or unit not in _UNITS:
            sheet.note(f"{key}: unit {unit!r}; expected {', '.join(_UNITS)}")
        elif metric in _SINGLE:
            sheet.figure(metric, f"{key}.avg", inner(found, "avg"), _UNITS[unit], note=_NOTES.get(metric))
        else:
            add_distribution(sheet, metric, key, found, _UNITS[unit], conditions=_DEFINED.get(metric))
    if sheet.take("was_cancelled"):
        sheet.warn("the run was cancelled before its end")
    sheet.warn("the result states no engine version")
    version = sheet.text("aiperf_version")
    return sheet.record(name, form, f"{form} {version}" if version else form)


def _first(settings: object, paths: tuple[tuple[str | int, ...], ...]) -> object:
    return next((found for path in paths if (found := inner(settings, *path)) is not None), None)


def _state_load(sheet: Sheet, settings: object) -> None:
    """State the load of the profiled phase; older versions know one only."""
    phases = inner(settings, "phases")
    profiled = [one for one in phases if inner(one, "kind") != "warmup"] if isinstance(phases, list) else []
    load = profiled[-1] if profiled else settings
    if len(profiled) > 1:
        sheet.warn(f"{len(profiled)} phases: the load stated is that of the last")
    rate = sheet.checked("input_config, rate", _first(load, _RATE))
    loop = sheet.checked("input_config, concurrency", _first(load, _LOOP))
    told = _first(load, _GAPS)
    gaps = None if told is None else str(told)
    if rate:
        sheet.state("arrival_rate", rate, "input_config")
        process = _PROCESS.get(gaps or "", gaps or "gaps not stated")
        sheet.state(
            "arrival_process", process + (f", at most {loop:.0f} at a time" if loop else ""), "input_config"
        )
    elif loop:
        sheet.state("arrival_process", "closed loop", "input_config")
        sheet.state("concurrency", int(loop), "input_config")
    elif gaps in _PROCESS:
        sheet.state("arrival_process", _PROCESS[gaps], "input_config")


def _count(sheet: Sheet) -> None:
    done = sheet.checked("request_count.avg", inner(sheet.take("request_count"), "avg"))
    failed = sheet.checked("error_request_count.avg", inner(sheet.take("error_request_count"), "avg"))
    if done is not None:
        sheet.state("requests", int(done) or None, "request_count")
    if failed:
        sheet.warn(f"{failed:,.0f} requests failed; figures are of the others")


def is_request_line(line: str) -> bool:
    """Say whether a line is that of one request: its metrics beside metadata."""
    found = object_of(line)
    return isinstance(found.get("metadata"), dict) and isinstance(found.get("metrics"), dict)
