"""Offered load against what is finished and against what the GPUs can do: is there a steady state at all?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ...records import Figure
from ...units import format_si
from .. import words
from ..case import MEANS, Case
from ..finding import HOLDS, IMPOSSIBLE, INCONSISTENT, SUSPICIOUS, Finding
from ..runs import Run
from ..subject import NARROW, Subject, Unknown
from .definitions import tokens_of
from .identities import mean_e2e
from .states import may_hit

CHECK, MORE, CAPACITY = "overload", "more_than_offered", "above_capacity"
#: A finished rate within this of what a run can finish keeps up.
_KEEPS_UP = 0.97
#: How far a finished rate may exceed the offered one: of requests, and of tokens over nominal lengths.
_OVER, _OVER_BY_TOKENS = 0.05, 0.15


@dataclass(frozen=True)
class Load:
    """Requests a second that a run offers and finishes, how many it sends (None: not stated), and in words."""

    run: Run
    offered: float
    finished: float
    of: tuple[str, ...]
    told: str
    open_: float

    @property
    def count(self) -> float | None:
        """Requests of the run: as stated, else what it finishes in its duration."""
        duration = self.run.get("duration")
        return self.run.number("requests") or (self.finished * duration.value if duration else None)

    @property
    def steady(self) -> float:
        """What a run that keeps up finishes a second, until the answer of its last request: n / (n / rate + tail)."""
        tail = max((f.value for f in self.run.all("e2e") if f.statistic != "std"), default=None)
        found = mean_e2e(self.run)
        tail = tail if tail is not None or found is None else found[0]
        if not self.count or tail is None:
            return self.offered
        return self.count / (self.count / self.offered + tail)

    @property
    def wait(self) -> float | None:
        """Mean time in which a request is answered where they are finished at an even rate, s."""
        return self.count / 2 * (1 / self.finished - 1 / self.offered) if self.count else None

    @property
    def backlog(self) -> float:
        """Requests that are sent and not finished when the last one is sent, at an even rate."""
        return (self.count or 0.0) * (1 - self.finished / self.offered)


def check_offered(case: Case) -> Iterator[Finding]:
    """Requests offered a second against finished, less what a run's end takes: is there a steady state at all?"""
    for run in case.runs:
        offered, told = _offered(run)
        if not offered:
            continue
        for rate, of, how, open_ in _finished(run):
            if rate > 0:
                yield _judged(Load(run, offered, rate, (*told, *of), how, open_))
                break
        good = run.get("goodput")
        if good is not None and not good.per_gpu and good.value > offered * (1 + _OVER):
            said = f"goodput {good.text} is more than is offered: requests are good only where they were sent"
            told_ = f"{good.value:.4g}/s against {offered:.4g}/s offered"
            yield Finding(MORE, INCONSISTENT, (*told, good.name), said, told_)


def _offered(run: Run) -> tuple[float | None, tuple[str, ...]]:
    figure = run.get("offered_rate")
    return (figure.value, (figure.name,)) if figure else (run.number("arrival_rate"), ())


def _finished(run: Run) -> Iterator[tuple[float, tuple[str, ...], str, float]]:
    rate = run.get("request_throughput")
    if rate is not None and not rate.per_gpu:
        yield rate.value, (rate.name,), f"{rate.value:.4g}", _OVER
    for side in ("input", "output"):
        tokens, each = run.get(f"{side}_throughput"), tokens_of(run, side)
        if tokens is not None and each and not tokens.per_gpu:
            yield tokens.value / each, (tokens.name,), f"({tokens.value:.5g} / {each:g})", _OVER_BY_TOKENS


def _judged(load: Load) -> Finding:
    share, steady = load.finished / load.offered, load.steady
    told = f"offered {load.offered:.4g}/s over finished {load.told}/s: utilisation {1 / share:.3g}"
    if share > 1 + max(
        load.open_, 3 / math.sqrt(load.count) if load.count else 0.0
    ):  # three deviations of Poisson
        said = f"{share:.3g} times the offered requests are finished: more are answered than are sent"
        return Finding(MORE, INCONSISTENT, load.of, said, told)
    if steady < load.offered:
        told += f"; {load.count:,.0f} requests and the wait for the last answer leave {steady:.4g}/s"
    if load.finished >= _KEEPS_UP * steady:
        said = f"{share:.0%} of the offered requests are finished a second, as they come"
        said += " and as the last ones end" if share < _KEEPS_UP else ""
        return Finding(CHECK, HOLDS, load.of, said, told)
    tails = [f.name for f in load.run.figures if f.metric in ("ttft", "e2e", "prefill_queue_time")]
    of, against = (*load.of, *tails), _contradicted(load)
    if against is None:
        said = f"{share:.0%} of the offered rate is finished: the run is at its limit, or too short for its ramps"
        return Finding(CHECK, SUSPICIOUS, of, said, told)
    said = (
        f"{share:.0%} of the offered rate is finished, so waits grow as long as the run lasts: {against[0]}"
    )
    return Finding(CHECK, INCONSISTENT, of, said, f"{told}; {against[1]}")


def _contradicted(load: Load) -> tuple[str, str] | None:
    """Stated times far shorter than what even an overload of the run makes of them: in words, and how long that is."""
    found, ttft, wait = mean_e2e(load.run), load.run.get("ttft", *MEANS), load.wait
    if wait is None:
        return None
    told = (
        f"{load.count:,.0f} / 2 x (1 / {load.finished:.4g} - 1 / {load.offered:.4g}) = {words.seconds(wait)}"
    )
    if found is not None and found[0] < wait / 2:
        return f"a mean answer would take {words.seconds(wait)}, not {words.seconds(found[0])}", told
    most = load.run.number("concurrency") or load.run.number("max_num_seqs")
    if most and load.backlog > most * (load.run.number("instances") or 1) and ttft and ttft.value < wait / 2:
        said = (
            f"{load.backlog:,.0f} requests are left at the end, and {most:g} are under way at most; the mean TTFT of "
            f"{ttft.text} has not the wait of the others, or the offered rate was not sent"
        )
        return said, told
    return None


def check_capacity(case: Case) -> Iterator[Finding]:
    """Rates that were finished or called good against the least GPU time of their prompts and outputs."""
    for run, figure in case.each("request_throughput", "goodput"):
        subject, of = case.subject(run, figure), (figure.name,)
        gpus = 1 if figure.per_gpu else subject.machine.gpus
        try:
            need, told = _gpu_seconds(run, figure, subject, None)
        except Unknown:
            continue
        if gpus is None:
            continue
        busy = figure.value * need / gpus
        arithmetic = f"{figure.text} x {told} / {gpus} GPUs = {busy:.3g}"
        if busy <= 1:
            said = f"{figure.text} needs {busy:.0%} of the GPUs' time at peak"
            yield Finding(CAPACITY, HOLDS, of, said, arithmetic)
            continue
        grade, cause = _excused(run, figure, subject, gpus)
        said = f"{figure.text} needs {busy:.3g} times the GPUs' time at peak rates{cause}"
        yield Finding(CAPACITY, grade, of, said, arithmetic)


def _excused(run: Run, figure: Figure, subject: Subject, gpus: int) -> tuple[str, str]:
    """The grade of a rate above capacity, and what that is not stated, or stated without its share, would allow it."""
    counted = (
        run.number("cached_tokens", figure) is not None or run.number("cached_share", figure) is not None
    )
    if not counted and may_hit(str(figure.conditions.get("cache_state") or run.text("cache_state"))):
        return SUSPICIOUS, ": the cache, which is stated as on, answered prompts in part"
    for dtype in NARROW if subject.stated_dtype is None else ():
        try:
            need, _ = _gpu_seconds(run, figure, subject, dtype)
        except Unknown:
            continue
        if figure.value * need <= gpus:
            return INCONSISTENT, f"; {dtype} weights, not stated, would do"
    return IMPOSSIBLE, ""


def _gpu_seconds(run: Run, figure: Figure, subject: Subject, dtype: str | None) -> tuple[float, str]:
    """Least GPU seconds of a request: its prompt, and its outputs' products in batches of any size."""
    tokens, osl = run.number("input_tokens", figure), run.number("output_tokens", figure)
    if not tokens or figure.value <= 0:
        raise Unknown("prompt tokens are not stated")
    share = run.number("cached_share", figure) or (run.number("cached_tokens", figure) or 0.0) / tokens
    prompt = subject.prefill(int(tokens), int(min(share, 0.999) * tokens), 1, dtype)
    each = subject.prefill(64, 0, 1, dtype).seconds / 64 if osl else 0.0
    total = prompt.seconds + each * (osl or 0.0)
    return total, f"{format_si(total, 'second')} of a GPU ({tokens:g} prompt and {osl or 0:g} output tokens)"
