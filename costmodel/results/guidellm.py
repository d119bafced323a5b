"""Reports of GuideLLM, ``benchmarks.json``: a benchmark a load, schemas of 0.2 and 0.3 and of those since."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..records.record import Record
from .bench import TPOT, TTFT_FROM
from .distributions import add_distribution, inner, state_distribution
from .documents import Entry, Fields
from .sheet import Sheet

FORM = "GuideLLM"
#: Metrics of GuideLLM: ours, the unit, and what a reader must know of them.
_TIMES: dict[str, tuple[str, str, str | None]] = {
    "request_latency": ("e2e", "s", None),
    "time_to_first_token_ms": ("ttft", "ms", None),
    "inter_token_latency_ms": ("itl", "ms", "every gap of a request counts as that request's mean gap"),
    "time_per_output_token_ms": (
        "time_per_output_token_ms",
        "ms",
        "GuideLLM's own: a request over all its output tokens, from its start or from token 1, by version",
    ),
}
#: Rates, of which only the mean over the run says something: the rest is of single moments.
_RATES = {
    "requests_per_second": ("request_throughput", "req/s"),
    "output_tokens_per_second": ("output_throughput", "tok/s"),
    "prompt_tokens_per_second": ("input_throughput", "tok/s"),
    "tokens_per_second": ("total_throughput", "tok/s"),
    "request_concurrency": ("requests_in_flight", ""),
    "request_goodput": ("request_goodput", "req/s"),
}
_TWICE = "GuideLLM 0.2 counts the tokens of prompts twice in it"
_DEFINED = {"ttft": {"ttft_from": TTFT_FROM}, "itl": {"tpot_definition": TPOT}}
#: Percentiles as GuideLLM names them, where it is not the usual way.
PERCENTILES = {"p001": "p0.1", "p01": "p1", "p05": "p5", "p999": "p99.9"}
#: Requests whose figures are told: those that succeeded.
GOOD = "successful"


def is_report(fields: Fields) -> bool:
    """Say whether an object is a report."""
    return isinstance(fields.get("benchmarks"), list)


def benchmarks_of(report: Entry) -> list[Entry]:
    """Return the benchmarks of a report; entries that are no objects are empty, which their reader refuses."""
    found = report.fields["benchmarks"]
    assert isinstance(found, list)
    at = f"{report.at}, " if report.at else ""
    return [
        Entry(one if isinstance(one, dict) else {}, f"{at}benchmark {i}") for i, one in enumerate(found, 1)
    ]


def read_guidellm(report: Fields, sheet: Sheet, name: str) -> Record:
    """Return the record of one benchmark of a report. Raises InputError."""
    metrics = sheet.take("metrics")
    if not isinstance(metrics, dict):
        sheet.note("metrics: not an object; expected a benchmark of GuideLLM")
        metrics = {}
    version = inner(report, "metadata", "guidellm_version")
    settings = inner(sheet.fields, "config") or inner(sheet.fields, "args")
    sheet.take("config"), sheet.take("args")
    sheet.state("model", _model(sheet), "model")
    _state_load(sheet, inner(settings, "strategy"))
    _count(sheet, metrics)
    if inner(settings, "warmup_number") or inner(settings, "warmup_duration"):
        sheet.state("warmup", "requests at the start are left out", "warmup")
    for side, key in (("input", "prompt_token_count"), ("output", "output_token_count")):
        state_distribution(sheet, side, f"metrics.{key}", _good(metrics, key))
    for key, (metric, unit, note) in _TIMES.items():
        add_distribution(
            sheet,
            metric,
            f"metrics.{key}",
            _good(metrics, key),
            unit,
            PERCENTILES,
            _DEFINED.get(metric),
            note,
        )
    _read_rates(sheet, metrics)
    sheet.figure("duration", "duration", sheet.take("duration"), "s")
    _pass_over(sheet)
    sheet.warn("the result states no engine version")
    return sheet.record(name, FORM, f"{FORM} {version}" if isinstance(version, str) else FORM)


def _model(sheet: Sheet) -> object:
    """Where versions write the model's name."""
    found = inner(sheet.fields, "config", "backend", "model") or inner(sheet.take("worker"), "backend_model")
    return found or inner(sheet.take("benchmarker"), "backend", "model")


def _good(metrics: Mapping[str, Any], key: str) -> object:
    return inner(metrics, key, GOOD)


def _read_rates(sheet: Sheet, metrics: Mapping[str, Any]) -> None:
    twice = _counts_prompts_twice(metrics)
    for key, (metric, unit) in _RATES.items():
        name, note = (key, _TWICE) if twice and metric == "total_throughput" else (metric, None)
        mean = inner(_good(metrics, key), "mean")
        sheet.figure(name, f"metrics.{key}.mean", mean, unit, "mean" if not unit else None, note=note)


def _counts_prompts_twice(metrics: Mapping[str, Any]) -> bool:
    """Whether all tokens a second are those of 0.2, which adds a prompt at the first token and again one by one."""
    rate, tokens, prompt, output = (
        inner(_good(metrics, key), "mean")
        for key in ("requests_per_second", "tokens_per_second", "prompt_token_count", "output_token_count")
    )
    if not all(isinstance(number, int | float) for number in (rate, tokens, prompt, output)):
        return False
    once, twice = rate * (prompt + output), rate * (2 * prompt + output - 1)
    return bool(abs(tokens - twice) < abs(tokens - once))


def _state_load(sheet: Sheet, strategy: object) -> None:
    kind, rate = inner(strategy, "type_"), inner(strategy, "rate")
    if kind in ("concurrent", "synchronous"):
        sheet.state("arrival_process", "closed loop", "strategy")
        sheet.state(
            "concurrency", 1 if kind == "synchronous" else inner(strategy, "streams"), "strategy.streams"
        )
    elif kind == "throughput":
        sheet.state("arrival_process", "all at once", "strategy")
    elif kind in ("constant", "poisson"):
        sheet.state("arrival_process", "even gaps" if kind == "constant" else "Poisson", "strategy")
        number = sheet.checked("strategy.rate", rate)
        if number:
            sheet.state("arrival_rate", number, "strategy.rate")
    elif isinstance(kind, str):
        sheet.state("arrival_process", kind, "strategy")


def _count(sheet: Sheet, metrics: Mapping[str, Any]) -> None:
    """State how many requests succeeded, of which figures are, and warn of those that failed or were cut off."""
    totals = sheet.take("request_totals") or metrics.get("request_totals")
    numbers = {
        key: sheet.checked(f"request_totals.{key}", inner(totals, key))
        for key in ("successful", "errored", "incomplete")
    }
    if numbers["successful"]:
        sheet.state("requests", int(numbers["successful"]), "request_totals.successful")
    for key, words in (("errored", "failed"), ("incomplete", "were cut off at the end")):
        if numbers[key]:
            sheet.warn(f"{numbers[key]:,.0f} requests {words}; figures are of the others")
    if numbers["successful"] == 0:
        sheet.warn("no request completed: the result measures nothing, and its zeros are not read")


def _pass_over(sheet: Sheet) -> None:
    """Leave out of what is unread the parts that hold settings or requests: they are long, and replay reads those."""
    for key in (
        "requests",
        "run_stats",
        "scheduler_state",
        "scheduler_metrics",
        "request_loader",
        "request_samples",
    ):
        sheet.take(key)
