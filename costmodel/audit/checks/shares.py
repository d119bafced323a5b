"""Claims of shares (kv_transfer_share_of_p95_ttft) against the parts and wholes that the same report gives."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...records import Figure
from ...records.figures import meant
from ...units import format_si
from ..case import MEANS, Case
from ..finding import HOLDS, INCONSISTENT, Finding, not_computable
from ..runs import Run, named
from ..written import resolution

CHECK = "claimed_share"
_CLAIM = re.compile(r"(?P<parts>.+)_share_of_(?P<whole>.+)")
#: A wait is in either queue, where a report does not say which.
_QUEUES = ("prefill_queue_time", "decode_queue_time")
_WAITS = ("queue", "queues", "queueing", "queuing", "queue_time")


def check_shares(case: Case) -> Iterator[Finding]:
    """Compare each claim with every run that it is about: shares of percentiles are ratios of percentiles."""
    for claim in case.record.figures:
        shape = _CLAIM.fullmatch(claim.metric)
        if shape is None:
            continue
        whole, own = _whole(shape["whole"])
        parts = [metric for word in shape["parts"].split("_and_") for metric in _part(word)]
        yield from _of_claim(case, claim, parts, whole, _statistics(claim, own))


def _part(word: str) -> tuple[str, ...]:
    return _QUEUES if word in _WAITS else (meant(word).metric,)


def _whole(word: str) -> tuple[str, str | None]:
    found = meant(word)
    return found.metric, found.statistic


def _statistics(claim: Figure, own: str | None) -> tuple[str | None, ...]:
    """Statistic of part and whole: named in the metric or in the claim's statistic, else means."""
    inside = re.search(r"p\d{1,2}(?:\.\d+)?", claim.statistic or "")
    told = own or (inside[0] if inside else None)
    return (told,) if told else MEANS


def _of_claim(
    case: Case, claim: Figure, parts: list[str], whole: str, statistics: tuple[str | None, ...]
) -> Iterator[Finding]:
    lacking = dict.fromkeys(parts)
    computed = False
    about = [run for run in case.runs if claim in run.figures]
    for run in about:
        total = run.get(whole, *statistics)
        stated = [figure for part in parts if (figure := run.get(part, *statistics)) is not None]
        if total is None or not total.value or not stated:
            continue
        lacking = {part: None for part in lacking if part not in {figure.metric for figure in stated}}
        finding = _compared(claim, run, stated, total, complete=len(stated) == len(parts))
        if finding is not None:
            computed = True
            yield finding
    if not computed:
        which = statistics[0] or "mean"
        reason = f"no run states {' and '.join(lacking or parts)} beside {whole} ({which})"
        yield not_computable(CHECK, (claim.name,), f"{claim.metric} {claim.text}", reason)


def _compared(
    claim: Figure, run: Run, stated: list[Figure], total: Figure, *, complete: bool
) -> Finding | None:
    """A run's share against the claimed range; None where parts are missing and what is there is no contradiction."""
    share = sum(figure.value for figure in stated) / total.value
    low, high = _range(claim)
    if low <= share <= high:
        grade, verdict = HOLDS, "inside"
    elif share > high or complete:
        grade, verdict = INCONSISTENT, "outside"
    else:
        return None
    if grade == HOLDS and not complete:
        return None
    above = " + ".join(f"{_ms(figure)}" for figure in stated)
    above = f"({above})" if len(stated) > 1 else above
    arithmetic = f"{above} / {_ms(total)} = {share:.1%} {verdict} {claim.text}"
    said = f"{run.name}: {share:.1%} of {total.statistic or 'mean'} {total.metric}, {verdict} the claimed {claim.text}"
    return Finding(CHECK, grade, (claim.name, *named(stated), total.name), said, arithmetic)


def _range(claim: Figure) -> tuple[float, float]:
    """The claimed range, widened by its rounding; open on one side where the statistic says so."""
    open_ = resolution(claim)
    low, high = claim.value - open_, (claim.high if claim.high is not None else claim.value) + open_
    told = claim.statistic or ""
    if re.search(r"(?i)\bmax|upper|up to|at most", told):
        low = 0.0
    if re.search(r"(?i)\bmin|lower|at least", told):
        high = 1.0
    return low, high


def _ms(figure: Figure) -> str:
    return format_si(figure.value, "second", 5)
