"""Limits on latency against what physics needs at least: no load, however light, meets one below that."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ...records import Figure
from ...records.flags import speculates
from .. import words
from ..case import Case
from ..finding import HOLDS, IMPOSSIBLE, INCONSISTENT, SUSPICIOUS, Finding
from ..runs import Run
from ..subject import Least, Subject, Unknown
from ..written import resolution
from .states import may_hit

CHECK, ATTAINED = "objective_below_bound", "attainment_above_percentile"
_MET = ("goodput", "slo_attainment")


def check_objectives(case: Case) -> Iterator[Finding]:
    """Compare limits on TTFT and TPOT with the least time of the stated prompt, and of a decode step."""
    for run in case.runs:
        for key, least in (("slo_ttft", _prompt), ("slo_tpot", _step)):
            limit, of = _limit(run, key)
            if limit is not None:
                yield from _judged(case, run, key, limit, of, least)


def check_attainment(case: Case) -> Iterator[Finding]:
    """A percentile above its limit leaves no more requests that meet it than the percentile says."""
    for run in case.runs:
        attained = run.get("slo_attainment")
        for key in ("slo_ttft", "slo_tpot") if attained else ():
            limit, _ = _limit(run, key)
            for figure in run.all(key.removeprefix("slo_")) if limit else ():
                met = _part(figure)
                if met is not None and attained and limit and figure.value > limit:
                    yield _attained(attained, figure, met, limit)


def _part(figure: Figure) -> float | None:
    """Part of the requests at or below a percentile."""
    found = re.fullmatch(r"p(\d{1,2}(?:\.\d+)?)", figure.statistic or "")
    return float(found[1]) / 100 if found else None


def _attained(attained: Figure, figure: Figure, met: float, limit: float) -> Finding:
    of = (attained.name, figure.name)
    told = f"{figure.statistic} {figure.text} is above {words.seconds(limit)}: at most {met:.4g} meet it"
    if attained.value > met + resolution(attained):
        said = f"{attained.value:.4g} of the requests are said to meet a limit that {1 - met:.2g} of them are above"
        return Finding(ATTAINED, INCONSISTENT, of, said, f"{told}, against {attained.value:.4g}")
    return Finding(ATTAINED, HOLDS, of, f"{attained.value:.4g} meet the limits", told)


def _limit(run: Run, key: str) -> tuple[float | None, Figure | None]:
    figure = run.get(key)
    return (figure.value, figure) if figure is not None else (run.number(key), None)


def _judged(
    case: Case,
    run: Run,
    key: str,
    limit: float,
    of: Figure | None,
    least: Callable[[Subject, Run], Least],
) -> Iterator[Finding]:
    met = [figure for figure in run.all(*_MET) if figure.value > 0]
    names = tuple(figure.name for figure in (*([of] if of else []), *met)) or tuple(
        f.name for f in run.figures
    )
    try:
        floor = least(case.subject(run, of), run)
    except Unknown:
        return
    told = f"{words.seconds(limit)} against {floor.arithmetic}"
    what = key.removeprefix("slo_").upper()
    if limit >= floor.seconds:
        said = f"the limit on {what} is {limit / floor.seconds:.3g} times the least time"
        yield Finding(CHECK, HOLDS, names, said, told)
    else:
        said = f"no request can meet the limit on {what}: it is {limit / floor.seconds:.0%} of the least time"
        yield Finding(CHECK, IMPOSSIBLE if met else SUSPICIOUS, names, said, told)


def _prompt(subject: Subject, run: Run) -> Least:
    tokens, gpus = run.number("input_tokens"), subject.machine.most_per_prompt
    cached = run.number("cached_tokens") or run.number("cached_share") or may_hit(run.text("cache_state"))
    if not tokens or gpus is None or cached:
        raise Unknown("neither prompt tokens nor GPUs are stated, or a cache answers a part")
    return subject.prefill(int(tokens), 0, gpus)


def _step(subject: Subject, run: Run) -> Least:
    gpus = subject.machine.most_per_step
    if speculates(run.conditions):
        raise Unknown("speculative decoding makes several tokens a step")
    if gpus is None:
        raise Unknown("the number of GPUs is not stated")
    return subject.decode(1.0, run.number("input_tokens") or 0.0, gpus)
