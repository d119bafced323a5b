"""Claims of ratios (ttft_reduction, throughput_ratio) against the pairs of figures that the same report gives."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import permutations

from ...records import Figure
from ...records.figures import meant
from ..case import Case
from ..finding import HOLDS, INCONSISTENT, Finding
from ..runs import named
from ..written import resolution

CHECK = "claimed_ratio"
_CLAIM = re.compile(r"(?P<what>.+)_(?P<kind>ratio|speedup|improvement|reduction|increase|change)")
#: What a claim is of two figures, ``a`` of this way and ``b`` of the other; a ratio may be meant either way round.
_KINDS: dict[str, Callable[[float, float], float]] = {
    "ratio": lambda a, b: a / b,
    "speedup": lambda a, b: b / a,
    "improvement": lambda a, b: b / a,
    "reduction": lambda a, b: 1 - a / b,
    "increase": lambda a, b: a / b - 1,
    "change": lambda a, b: a / b - 1,
}
_RATES = ("request_throughput", "output_throughput", "total_throughput", "input_throughput", "goodput")
#: Conditions that follow from how instances are laid out: a strategy brings its own.
_LAYOUT = {
    "topology",
    "gpus",
    "hardware",
    "tp",
    "instances",
    "nodes",
    "prefill_tp",
    "decode_tp",
    "link",
    "connector",
}
#: Conditions of what was asked, not of how it was done: a gain is claimed over another way, not another load.
_LOAD = {
    "workload",
    "model",
    "input_tokens",
    "output_tokens",
    "input_length",
    "output_length",
    "concurrency",
    "batch",
    "burst",
    "arrival_rate",
    "requests",
}
#: Relative miss up to which a claim is what two figures give.
_CLOSE = 0.03


def check_ratios(case: Case) -> Iterator[Finding]:
    """Compare each claim with every pair of figures of its metric that differ in one condition."""
    for claim in case.record.figures:
        shape = _CLAIM.fullmatch(claim.metric)
        if shape is None or claim.high is not None:
            continue
        pairs = [
            (_KINDS[shape["kind"]](a.value, b.value), a, b) for a, b in _pairs(case, claim, shape["what"])
        ]
        if pairs:
            found = _judged(claim, pairs)
            if found.grade == HOLDS or all(_same_run(claim, a, b) for _, a, b in pairs):
                yield found


def _same_run(claim: Figure, a: Figure, b: Figure) -> bool:
    """Whether a claim is of the run that two figures are of: what these have in common is what it states."""
    common = {key: value for key, value in a.conditions.items() if b.conditions.get(key) == value}
    about = {key: value for key, value in claim.conditions.items() if key not in _LAYOUT}
    varied = a.conditions.keys() - common.keys()
    return {k: v for k, v in common.items() if k not in _LAYOUT} == {
        k: v for k, v in about.items() if k not in varied
    }


def _judged(claim: Figure, pairs: list[tuple[float, Figure, Figure]]) -> Finding:
    if re.search("max|up to", f"{claim.statistic} {claim.note}"):
        best = max(pairs, key=lambda pair: pair[0])
    else:
        best = min(pairs, key=lambda pair: abs(pair[0] - claim.value))
    value, a, b = best
    told = f"{a.text} and {b.text} give {value:.4g} against {claim.text}"
    of = named((claim, a, b))
    if abs(value - claim.value) <= max(resolution(claim), _CLOSE * abs(claim.value)):
        return Finding(CHECK, HOLDS, of, f"{claim.metric} {claim.text} is what two figures give", told)
    said = f"{claim.metric} {claim.text} is of no two figures here; the nearest give {value:.3g}"
    return Finding(CHECK, INCONSISTENT, of, said, told)


def _pairs(case: Case, claim: Figure, what: str) -> list[tuple[Figure, Figure]]:
    metrics = _RATES if what in ("throughput", "request_rate", "capacity") else (meant(what).metric,)
    statistic = re.search(r"p\d{1,2}(?:\.\d+)?|mean", claim.statistic or "")
    figures = [
        figure
        for figure in case.record.figures
        if figure.metric in metrics
        and figure.value > 0
        and (not statistic or figure.statistic == statistic[0])
    ]
    return [(a, b) for a, b in permutations(figures, 2) if _comparable(a, b)]


def _comparable(a: Figure, b: Figure) -> bool:
    """Whether two figures are one quantity of one load, got in ways that differ in one condition."""
    if (a.metric, a.statistic, a.per_gpu) != (b.metric, b.statistic, b.per_gpu):
        return False
    keys = a.conditions.keys() | b.conditions.keys()
    differing = {key for key in keys if a.conditions.get(key) != b.conditions.get(key)}
    return bool(differing) and not differing & _LOAD and len(differing - _LAYOUT) <= 1
