"""Offered load against what is finished and against what the GPUs can do: is there a steady state at all?"""

from __future__ import annotations

from collections.abc import Iterator

from ...records import Figure
from ...units import format_si
from ..case import Case
from ..finding import HOLDS, IMPOSSIBLE, INCONSISTENT, SUSPICIOUS, Finding
from ..runs import Run
from ..subject import Subject, Unknown

CHECK = "overload"
#: A finished rate within this of the offered one keeps up; a run's ramps cost a short one some of it.
_KEEPS_UP, _SHORT = 0.97, 0.9
#: Requests below which the last answers are a good part of a run.
_MANY = 50


def check_offered(case: Case) -> Iterator[Finding]:
    """Requests offered a second against finished: where fewer are finished, waits grow with the run's length."""
    for run in case.runs:
        offered, told = _offered(run)
        for finished, of, how in _finished(run):
            if offered and finished > 0:
                yield _kept_up(run, offered, finished, (*told, *of), how)
                break


def _offered(run: Run) -> tuple[float | None, tuple[str, ...]]:
    figure = run.get("offered_rate")
    return (figure.value, (figure.name,)) if figure else (run.number("arrival_rate"), ())


def _finished(run: Run) -> Iterator[tuple[float, tuple[str, ...], str]]:
    rate = run.get("request_throughput")
    if rate is not None and not rate.per_gpu:
        yield rate.value, (rate.name,), f"{rate.value:.4g}"
    for metric, key in (("input_throughput", "input_tokens"), ("output_throughput", "output_tokens")):
        tokens, each = run.get(metric), run.number(key)
        if tokens is not None and each and not tokens.per_gpu:
            yield tokens.value / each, (tokens.name,), f"({tokens.value:.5g} / {each:g})"


def _kept_up(run: Run, offered: float, finished: float, of: tuple[str, ...], how: str) -> Finding:
    share = finished / offered
    told = f"offered {offered:.4g}/s over finished {how}/s: utilisation {offered / finished:.3g}"
    if share >= _KEEPS_UP:
        return Finding(
            CHECK, HOLDS, of, f"{share:.0%} of the offered requests are finished as they come", told
        )
    tails = [f for f in run.figures if f.metric in ("ttft", "e2e", "prefill_queue_time")]
    of = (*of, *(f.name for f in tails))
    if share >= _SHORT or (run.number("requests") or _MANY) < _MANY:
        said = (
            f"{share:.0%} of the offered rate is finished: a run too short for its ramps, or one at its limit"
        )
        return Finding(CHECK, SUSPICIOUS, of, said, told)
    said = (
        f"a pool is overloaded: {share:.0%} of the offered rate is finished, so waits grow as long as the run lasts "
        "and no percentile or mean of TTFT is a property of the system"
    )
    return Finding(CHECK, INCONSISTENT, of, said, told)


def check_capacity(case: Case) -> Iterator[Finding]:
    """Rates that were finished or called good against the least GPU time of their prompts and outputs."""
    for run, figure in case.each("request_throughput", "goodput"):
        subject, of = case.subject(run, figure), (figure.name,)
        try:
            need, told = _gpu_seconds(run, figure, subject)
        except Unknown:
            continue
        gpus = 1 if figure.per_gpu else subject.machine.gpus
        if gpus is None:
            continue
        busy = figure.value * need / gpus
        arithmetic = f"{figure.text} x {told} / {gpus} GPUs = {busy:.3g}"
        if busy > 1:
            said = f"{figure.text} needs {busy:.3g} times the GPUs' time at peak rates"
            yield Finding("above_capacity", IMPOSSIBLE, of, said, arithmetic)
        else:
            yield Finding(
                "above_capacity",
                HOLDS,
                of,
                f"{figure.text} needs {busy:.0%} of the GPUs' time at peak",
                arithmetic,
            )


def _gpu_seconds(run: Run, figure: Figure, subject: Subject) -> tuple[float, str]:
    """Least GPU seconds of a request: its prompt, and its outputs' products in batches of any size."""
    tokens, osl = run.number("input_tokens", figure), run.number("output_tokens", figure)
    if not tokens or figure.value <= 0:
        raise Unknown("prompt tokens are not stated")
    share = run.number("cached_share", figure) or 0.0
    prompt = subject.prefill(int(tokens), int(min(share, 0.999) * tokens), 1)
    each = subject.prefill(64, 0, 1).seconds / 64 if osl else 0.0
    total = prompt.seconds + each * (osl or 0.0)
    return total, f"{format_si(total, 'second')} of a GPU ({tokens:g} prompt and {osl or 0:g} output tokens)"
