"""Limits on latency against what physics needs at least: no load, however light, meets one below that."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...records import Figure
from .. import words
from ..case import Case
from ..finding import HOLDS, IMPOSSIBLE, SUSPICIOUS, Finding
from ..runs import Run
from ..subject import Least, Subject, Unknown

CHECK = "objective_below_bound"
_MET = ("goodput", "slo_attainment")


def check_objectives(case: Case) -> Iterator[Finding]:
    """Compare limits on TTFT and TPOT with the least time of the stated prompt, and of a decode step."""
    for run in case.runs:
        for key, least in (("slo_ttft", _prompt), ("slo_tpot", _step)):
            limit, of = _limit(run, key)
            if limit is not None:
                yield from _judged(case, run, key, limit, of, least)


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
    if not tokens or gpus is None or run.number("cached_tokens") or run.number("cached_share"):
        raise Unknown("neither prompt tokens nor GPUs are stated, or a cache answers a part")
    return subject.prefill(int(tokens), 0, gpus)


def _step(subject: Subject, run: Run) -> Least:
    gpus = subject.machine.most_per_step
    if gpus is None:
        raise Unknown("the number of GPUs is not stated")
    return subject.decode(1.0, run.number("input_tokens") or 0.0, gpus)
