"""What a figure may be set beside, and what not: of every kind of counterpart, the reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..records.machine import machine_of
from ..records.scenario import AT_ONCE
from .absent import absent_of
from .case import Case
from .finding import Finding
from .subject import Unknown


@dataclass(frozen=True)
class Counterpart:
    """Figures that a record may (or may not) be compared with, and why."""

    what: str
    reasons: tuple[str, ...]
    record: str = ""


@dataclass(frozen=True)
class Verdict:
    """A kind of counterpart; ``against`` empty: comparable, because of ``because``."""

    what: str
    because: str
    against: tuple[str, ...]


_Rule = Callable[[Case], Iterator[Verdict]]


def compared(
    case: Case, findings: Sequence[Finding]
) -> tuple[tuple[Counterpart, ...], tuple[Counterpart, ...]]:
    """Return what a record is comparable with, and what not; ``findings``: unit slips of its figures count."""
    verdicts = [verdict for rule in RULES for verdict in rule(case)]
    verdicts += _slips(findings)
    name = case.record.name
    yes = tuple(Counterpart(v.what, (v.because,), name) for v in verdicts if not v.against)
    no = tuple(Counterpart(v.what, v.against, name) for v in verdicts if v.against)
    return yes, no


def _stated(case: Case, *keys: str) -> str:
    """The first of these conditions that all figures share, or that any of them states."""
    record = case.record
    for key in keys:
        for conditions in (record.conditions, *(f.conditions for f in record.figures)):
            if key in conditions:
                return str(conditions[key])
    return ""


def _has(case: Case, *metrics: str) -> bool:
    return any(figure.metric in metrics for figure in case.record.figures)


_LOAD = ("ttft", "tpot", "itl", "e2e", "request_throughput", "output_throughput", "total_throughput",
         "input_throughput", "throughput", "goodput", "slo_attainment")  # fmt: skip
_RATES = (
    "request_throughput",
    "output_throughput",
    "total_throughput",
    "input_throughput",
    "throughput",
    "goodput",
)


def _mlperf(case: Case) -> Iterator[Verdict]:
    """MLPerf results have a scenario, and a data set and limits of their own: the word alone may mean another run."""
    if not _has(case, *_LOAD):
        return
    scenarios = _all_stated(case, "scenario")
    told = ", ".join(scenarios)
    source = f"{case.record.source} {case.record.title} {_stated(case, 'workload')} {told}"
    own = bool(re.search(r"(?i)mlperf", source))
    if not scenarios:
        reason = "no scenario is stated: it may be neither Offline nor Server"
        yield Verdict("MLPerf Offline and Server", "", (reason,))
    elif own or re.search(r"(?i)\b(offline|server)\b", told):
        for kind in ("Offline", "Server"):
            yield _scenario(
                kind, [each for each in scenarios if re.search(rf"(?i)\b{kind}\b", each)], told, own
            )


def _scenario(kind: str, named: list[str], told: str, own: bool) -> Verdict:
    what = f"MLPerf {kind}"
    if named and own:
        return Verdict(what, f"the scenario is {', '.join(named)}", ())
    if named:
        return Verdict(what, "", (f"the scenario is {told!r}, and nothing says that it is MLPerf's",))
    return Verdict(what, "", (f"the scenario is {told!r}, not {kind}",))


def _all_stated(case: Case, key: str) -> list[str]:
    """All values of a condition, of the record and of its figures."""
    record = case.record
    found = [conditions[key] for conditions in (record.conditions, *(f.conditions for f in record.figures))
             if key in conditions]  # fmt: skip
    return list(dict.fromkeys(str(each) for each in found))


#: How requests come, and what that is beside the loops of other results.
_CAPPED, _AT_ONCE = "capped", "at once"
_LOOPS = {
    "open": "the loop was open: queues form differently",
    "closed": "the loop was closed: queues form differently",
    _CAPPED: "a rate and a limit on requests under way are stated: requests come at the rate, up to the limit",
    _AT_ONCE: "all requests come at once: they wait for each other as in neither loop",
}


def loop_of(case: Case) -> str | None:
    """Return "open", "closed", "capped" or "at once"; None where a report does not say how requests come."""
    process = f"{_stated(case, 'arrival_process')} {_stated(case, 'scenario')}".lower()
    clients, rate = _stated(case, "concurrency"), _stated(case, "arrival_rate")
    if re.search(r"closed|one at a time|single.?stream", process):
        return "closed"
    if clients and rate:
        return _CAPPED
    if clients or re.search(r"concurrency", process):
        return "closed"
    if AT_ONCE.search(_stated(case, "arrival_process")):
        return _AT_ONCE
    return "open" if rate or re.search(_OPEN, process) else None


_OPEN = r"open|poisson|burst|trace|gamma|server|constant rate|uniform"


def _loops(case: Case) -> Iterator[Verdict]:
    if not _has(case, *_LOAD):
        return
    found = loop_of(case)
    for kind, told in (("closed", "clients wait for their answer before they ask again"),
                       ("open", "requests come at a rate, whatever the system does")):  # fmt: skip
        what = f"{kind}-loop results"
        if found is None:
            reason = "neither concurrency nor an arrival rate tells whether the loop was open or closed"
            yield Verdict(what, "", (reason,))
        elif found == kind:
            yield Verdict(what, told, ())
        else:
            yield Verdict(what, "", (_LOOPS[found],))


def _ttft(case: Case) -> Iterator[Verdict]:
    if not _has(case, "ttft"):
        return
    start = _stated(case, "ttft_from").lower()
    for kind, told in (
        ("arrival", r"arriv|client|send|sent|request"),
        ("scheduling", r"sched|engine|queued|first step"),
    ):
        what = f"TTFT counted from {kind}"
        if not start:
            yield Verdict(
                what,
                "",
                ("from when TTFT counts is not stated: from arrival it has the queue, from scheduling not",),
            )
        elif re.search(told, start):
            yield Verdict(what, f"TTFT counts from {start}", ())
        else:
            yield Verdict(what, "", (f"TTFT counts from {start}",))


def _tpot(case: Case) -> Iterator[Verdict]:
    if not _has(case, "tpot", "itl"):
        return
    told = _stated(case, "tpot_definition")
    kinds = {"TPOT, (E2E - TTFT) / (OSL - 1) of each request": r"osl|request|e2e|tpot",
             "ITL, all gaps between tokens": r"gap|itl|token.to.token|tbt"}  # fmt: skip
    for what, pattern in kinds.items():
        own = _has(case, "tpot" if what.startswith("TPOT") else "itl")
        if told and re.search(pattern, told.lower()):
            yield Verdict(what, f"defined as {told}", ())
        elif told:
            yield Verdict(what, "", (f"it is defined as {told}",))
        elif own:
            yield Verdict(what, "", ("its definition is not stated, and both names are used for both",))
        else:
            other = "ITL" if what.startswith("TPOT") else "TPOT"
            yield Verdict(what, "", (f"the report gives {other}: one long gap weighs differently in each",))


def _statistics(case: Case) -> Iterator[Verdict]:
    without = [
        f.name
        for f in case.record.figures
        if f.statistic is None and f.metric in ("ttft", "tpot", "itl", "e2e")
    ]
    if without:
        reason = (
            f"the statistic is not stated ({', '.join(without[:4])}{', ...' if len(without) > 4 else ''})"
        )
        yield Verdict("means or percentiles of latency", "", (reason,))


def _per_gpu(case: Case) -> Iterator[Verdict]:
    if not _has(case, *_RATES):
        return
    counts = {machine_of(run.conditions).gpus for run in case.runs}
    what = "rates per GPU of other systems"
    if None in counts:
        yield Verdict(what, "", ("the number of GPUs is not stated",))
    else:
        yield Verdict(
            what, f"{', '.join(str(c) for c in sorted(c for c in counts if c))} GPUs are stated", ()
        )


def _tokens_counted(case: Case) -> Iterator[Verdict]:
    """Throughput that names its tokens says what it counts; the bare word does not."""
    told = _stated(case, "throughput_counts")
    if told and _has(case, "throughput", "total_throughput", "output_throughput"):
        yield Verdict(f"throughput of {told} tokens", f"it counts {told} tokens", ())
    elif _has(case, "throughput"):
        reason = "it is not stated whether throughput counts input, output or both"
        yield Verdict("output tokens a second", "", (reason,))


def _cache(case: Case) -> Iterator[Verdict]:
    if not _has(case, "ttft", "prefill_time", "input_throughput", "total_throughput", "request_throughput"):
        return
    state = _stated(case, "cache_state", "cached_share", "cached_tokens").lower()
    cold = bool(re.search(r"cold|off|disabled|none|no\b|^0(\.0)?$|flushed|unique", state))
    for kind in ("cold-cache results", "results with prefix hits"):
        if not state:
            yield Verdict(
                kind, "", ("the state of the prefix cache is not stated: hits take prompts out of the work",)
            )
        elif cold == kind.startswith("cold"):
            yield Verdict(kind, f"the cache is stated as {state}", ())
        else:
            yield Verdict(kind, "", (f"the cache is stated as {state}",))


def _builds(case: Case) -> Iterator[Verdict]:
    engine = _stated(case, "engine")
    version = ", ".join(_all_stated(case, "engine_version")) or _stated(case, "engine_build")
    engines = _all_stated(case, "engine")
    if len(engines) > 1:
        reason = f"{', '.join(engines)} differ in their schedulers and kernels, whatever else is equal"
        yield Verdict("its engines with each other", "", (reason,))
        return
    release = engine if version and version in engine else f"{engine or 'the engine'} {version}".strip()
    unbuilt = [each.reason for each in absent_of(case.record) if each.condition == "engine version"]
    if version and unbuilt:
        reason = unbuilt[0] if unbuilt[0].startswith("the engine") else f"its version is {unbuilt[0]}"
        yield Verdict(f"runs of {release}", "", (reason,))
    elif not version:
        what = f"other runs of {engine}" if engine else "runs of a named engine"
        reason = "the engine's version is not stated: schedulers and kernels change between releases"
        yield Verdict(what, "", (reason,))
    else:
        yield Verdict(f"runs of {release}", f"version {version} is stated", ())


def _needs(case: Case) -> Iterator[Verdict]:
    """What a prediction takes."""
    run = case.runs[0] if case.runs else None
    if run is None or not _has(case, *_LOAD, "prefill_time", "decode_step_time", "kv_transfer_time"):
        return
    subject = case.subject(run)
    missing = []
    try:
        _ = subject.model
    except Unknown as why:
        missing.append(str(why))
    if subject.machine.gpu is None:
        missing.append(str(subject.machine.reason))
    elif subject.machine.gpus is None and _has(case, *_LOAD):
        missing.append("the number of GPUs is not stated")
    if _has(case, *_LOAD):
        for key, words in (("input_tokens", "prompt tokens"), ("output_tokens", "output tokens")):
            missing += [] if _stated(case, key) else [f"{words} are not stated as a number"]
        if loop_of(case) is None:
            missing.append("neither concurrency nor an arrival rate is stated")
    yield Verdict(
        "a prediction of this model", "model, hardware, lengths and load are stated", tuple(missing)
    )


def _streams(case: Case) -> Iterator[Verdict]:
    """The rate of one request, and that of all requests together, are not the same quantity."""
    alone = _has(case, "user_throughput") or (
        _has(case, "output_throughput") and _stated(case, "concurrency", "batch") == "1"
    )
    together = (
        _has(case, "output_throughput", "total_throughput") and _stated(case, "concurrency", "batch") != "1"
    )
    if alone and not together:
        yield Verdict(
            "aggregate throughput of many requests", "", ("it is the rate of one request at a time",)
        )
    if together and not alone:
        yield Verdict("tokens a second of one request", "", ("it is the rate of all requests together",))


def _predictions(case: Case) -> Iterator[Verdict]:
    """A prediction holds for the engine release that its model was fitted to."""
    who, version = _stated(case, "predicted_by"), _stated(case, "engine_version", "engine_build")
    if not who:
        return
    engine = _stated(case, "engine") or "the engine"
    release = f"runs of {engine} {version}".strip()
    reason = f"{who} predicts; which release of {engine} it was fitted to is not stated"
    yield Verdict(f"measured {release}", "", (reason,))


RULES: tuple[_Rule, ...] = (
    _mlperf, _loops, _ttft, _tpot, _statistics, _per_gpu, _tokens_counted, _cache, _builds, _needs,
    _streams, _predictions,
)  # fmt: skip


def _slips(findings: Sequence[Finding]) -> list[Verdict]:
    slipped = [
        f
        for f in findings
        if f.id in ("binary_as_decimal", "both_directions", "sparse_peak") and f.grade != "holds"
    ]
    whats = {"binary_as_decimal": "sizes and bandwidths in decimal GB", "both_directions": "bandwidths per direction",
             "sparse_peak": "shares of dense peaks"}  # fmt: skip
    return [Verdict(whats[f.id], "", (f.said,)) for f in slipped]
