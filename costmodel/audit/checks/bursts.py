"""Prompts that come together: whether they were computed in one pass or one after the other, and the least time."""

from __future__ import annotations

from collections.abc import Iterator

from ...records import Figure
from .. import words
from ..case import MEANS, Case
from ..finding import HOLDS, IMPOSSIBLE, SUSPICIOUS, Finding, Inversion
from ..runs import Run
from ..subject import Unknown
from .states import may_hit

#: Statistics that stand for the last prompt of a burst.
_LAST = ("max", "p100", "p99.9", "p99")
#: A mean of equal prompts below this part of the last one's TTFT needs unequal work.
_LEAST_PART = 0.45


def check_bursts(case: Case) -> Iterator[Finding]:
    """Compare the last TTFT of a burst, and the mean, with the least time of all its prompts."""
    for run in case.runs:
        count = _count(run)
        mean, last = run.get("ttft", *MEANS), last_of(run)
        if count is None or mean is None:
            continue
        yield from _least(case, run, mean, count, (count + 1) / 2, "in turn, on average half of the burst")
        if last is None:
            continue
        yield from _least(case, run, last, count, count, "the whole burst")
        yield from _order(mean, last, count)


def _count(run: Run) -> float | None:
    count, clients = run.number("burst"), run.number("concurrency")
    return count if count and count > 1 and not (clients and clients < count) else None


def last_of(run: Run) -> Figure | None:
    """Return the TTFT of the last prompt of a burst, or the whole run's time where one token is all they make."""
    found = run.get("ttft", *_LAST)
    if found is None and run.number("output_tokens") == 1:
        found = run.get("duration")
    return found


def _order(mean: Figure, last: Figure, count: float) -> Iterator[Finding]:
    part, told = mean.value / last.value, _arithmetic(mean, last, count)
    of = (mean.name, last.name)
    if part > 1.02:
        yield Finding("burst_order", IMPOSSIBLE, of, "the mean TTFT is above that of the last prompt", told)
    elif part < _LEAST_PART:
        said = "most prompts end long before equal ones in turn would: their work differs, or some are cached"
        yield Finding("burst_order", SUSPICIOUS, of, said, told)
    else:
        yield Finding("burst_order", HOLDS, of, _meaning(part, count), told)


def _arithmetic(mean: Figure, last: Figure, count: float) -> str:
    turn = (count + 1) / (2 * count)
    return (
        f"{mean.text} / {last.text} = {mean.value / last.value:.3g}; in turn ({count:g} + 1) / (2 x {count:g}) = "
        f"{turn:.3g}, together 1"
    )


def _meaning(part: float, count: float) -> str:
    turn = (count + 1) / (2 * count)
    if part > (1 + turn) / 2 + 0.1:
        return "prompts are computed together: every one waits for the last, and the mean is nearly the total"
    if part < turn + 0.1:
        return "prompts are computed one after the other: the mean is about half of the total"
    return "prompts are computed in groups: the mean is between half of the total and all of it"


def _least(
    case: Case, run: Run, figure: Figure, count: float, prompts: float, what: str
) -> Iterator[Finding]:
    subject, tokens = case.subject(run, figure), run.number("input_tokens", figure)
    machine = subject.machine
    gpus = machine.most_per_prompt
    hits = run.number("cached_share", figure) is None and may_hit(run.text("cache_state"))
    if not tokens or gpus is None or hits:
        return  # which part of the prompts was computed is not known
    if machine.split and machine.prefill:
        gpus *= machine.prefill
    share = run.number("cached_share", figure) or 0.0
    try:
        one = subject.prefill(int(tokens), int(min(share, 0.999) * tokens), gpus)
    except Unknown:
        return
    least = prompts * one.seconds
    told = f"{prompts:g} of {count:g} x {one.arithmetic} = {words.seconds(least)} against {figure.text}"
    if figure.value < least:
        said = f"ttft {figure.text} is {figure.value / least:.0%} of the least time of {what}"
        yield Finding("burst_below_bound", IMPOSSIBLE, (figure.name,), said, told)
    else:
        said = f"ttft {figure.text} is {figure.value / least:.3g} times the least time of {what}"
        yield Finding("burst_below_bound", HOLDS, (figure.name,), said, told)


def invert_bursts(case: Case) -> Iterator[Inversion]:
    """Say what part of the last TTFT the mean is, and at which rate a burst's prompts are computed."""
    for run in case.runs:
        count, mean, last = _count(run), run.get("ttft", *MEANS), last_of(run)
        if count is None or last is None or last.value <= 0:
            continue
        if mean is not None:
            part = mean.value / last.value
            yield Inversion("mean_over_last", part, (mean.name, last.name), _arithmetic(mean, last, count),
                            _LEAST_PART <= part <= 1.02, _meaning(part, count))  # fmt: skip
        tokens = run.number("input_tokens", last)
        if tokens:
            rate = count * tokens / last.value
            yield Inversion("tokens_per_s", rate, (last.name,), f"{count:g} x {tokens:g} / {last.text}", None,
                            f"the burst is computed at {rate:,.0f} prompt tokens/s")  # fmt: skip
