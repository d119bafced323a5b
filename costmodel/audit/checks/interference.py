"""Decodes held up by whole prompts: in how many gaps that shows, and from which rate on a percentile has it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from ...records import Figure
from ..case import Case
from ..finding import HOLDS, INCONSISTENT, SUSPICIOUS, Finding, Inversion
from ..runs import Run
from ..subject import Unknown

CHECK = "stalls_in_percentile"
#: A gap this many times the usual one is a stall.
STALLED = 2.0
_USUAL = ("p50", "mean", None)


def check_stalls(case: Case) -> Iterator[Finding]:
    """A prompt stalls one gap of each decode, each chunk of it one: a percentile has stalls if enough gaps have."""
    stalls = [figure for _, figure in case.each("stall_time")]
    for run in case.runs:
        gap, share = usual_gap(run), stalled_share(case, run)
        if gap is None or share is None:
            continue
        for tail in run.all("itl", "tpot"):
            beyond = _beyond(tail.statistic)
            if beyond is not None and tail.metric == gap.metric and tail is not gap:
                yield from _judged(run, gap, tail, share, beyond, stalls)


def usual_gap(run: Run) -> Figure | None:
    """Return the usual gap between tokens of a run: its median, else its mean."""
    return run.get("itl", *_USUAL) or run.get("tpot", *_USUAL)


def stalled_share(case: Case, run: Run) -> float | None:
    """Return the share of a decode's gaps with prompt tokens: prompts x chunks a second over gaps a second."""
    gap, rate = usual_gap(run), run.number("arrival_rate")
    if gap is None or not rate or case.subject(run).machine.split:
        return None
    instances = run.number("instances") or 1
    return rate / instances * _chunks(run) * gap.value


def _chunks(run: Run) -> int:
    tokens, budget = run.number("input_tokens"), run.number("max_num_batched_tokens")
    return math.ceil(tokens / budget) if tokens and budget else 1


def _beyond(statistic: str | None) -> float | None:
    found = re.fullmatch(r"p(\d\d(?:\.\d+)?)", statistic or "")
    beyond = 1 - float(found[1]) / 100 if found else 1.0
    return beyond if beyond <= 0.1 + 1e-9 else None


def _judged(
    run: Run, gap: Figure, tail: Figure, share: float, beyond: float, stalls: list[Figure]
) -> Iterator[Finding]:
    of = (gap.name, tail.name, *(figure.name for figure in stalls))
    told = (
        f"{run.number('arrival_rate'):g}/s x {_chunks(run)} x {gap.text} = {share:.2%} of gaps, beyond "
        f"{tail.statistic} are {beyond:.3g}"
    )
    shows, must = tail.value >= STALLED * gap.value, share > beyond
    known = [figure for figure in stalls if figure.value >= STALLED * gap.value]
    if must and not shows and known:
        said = f"{tail.statistic} {tail.text} shows no stall, though {share:.1%} of gaps have one"
        yield Finding(CHECK, INCONSISTENT, of, said, told)
    elif must and shows:
        yield Finding(CHECK, HOLDS, of, f"{tail.statistic} is a gap with a prompt in it", told)
    elif not must and not shows:
        said = f"{tail.statistic} cannot show stalls of {share:.2%} of gaps: it says nothing of how long they are"
        yield Finding(CHECK, HOLDS, of, said, told)
    elif not must and tail.value >= 10 * gap.value:
        said = f"prompts are in {share:.2%} of gaps only: something else makes {tail.statistic} {tail.text}"
        yield Finding(CHECK, SUSPICIOUS, of, said, told)


def check_chunk_gaps(case: Case) -> Iterator[Finding]:
    """A tail that must hold gaps with full chunks is no shorter than the least time of such a step."""
    for run in case.runs:
        gap, rate = usual_gap(run), run.number("arrival_rate")
        tokens, budget = run.number("input_tokens"), run.number("max_num_batched_tokens")
        subject = case.subject(run)
        gpus = subject.machine.most_per_step
        if (
            gap is None
            or not rate
            or not tokens
            or not budget
            or tokens < budget
            or subject.machine.split
            or not gpus
        ):
            continue
        full = rate / (run.number("instances") or 1) * (tokens // budget) * gap.value
        for tail in run.all("itl"):
            beyond = _beyond(tail.statistic)
            if beyond is None or full <= beyond:
                continue
            try:
                least = subject.prefill(int(budget), 0, gpus)
            except Unknown:
                continue
            told = f"full chunks in {full:.1%} of gaps; {least.arithmetic} against {tail.text}"
            if tail.value < least.seconds:
                said = f"{tail.statistic} {tail.text} is shorter than a step with a full chunk, which more gaps have"
                yield Finding("chunk_in_percentile", INCONSISTENT, (tail.name, gap.name), said, told)
            else:
                said = f"{tail.statistic} is {tail.value / least.seconds:.3g} times the least step with a full chunk"
                yield Finding("chunk_in_percentile", HOLDS, (tail.name, gap.name), said, told)


def invert_stalls(case: Case) -> Iterator[Inversion]:
    """Say which share of gaps has a stall, and from which rate of prompts on the 99th percentile is one."""
    stalls = [figure.name for _, figure in case.each("stall_time")]
    seen: set[str] = set()
    for run in case.runs:
        gap, share = usual_gap(run), stalled_share(case, run)
        if gap is None:
            continue
        if share is not None and run.all("itl"):
            told = f"{run.number('arrival_rate'):g}/s x {_chunks(run)} x {gap.text}"
            yield Inversion("stalled_share", share, (gap.name,), told, share <= 1,
                            "the share of a decode's gaps that has prompt tokens in it")  # fmt: skip
        if stalls and gap.name not in seen:
            seen.add(gap.name)
            rate = 0.01 / gap.value / _chunks(run)
            yield Inversion("arrival_rate_per_s", rate, (gap.name, *stalls), f"1 % / {gap.text}", None,
                            f"from {rate:.3g} prompts a second on p99 is a stall, below it is not")  # fmt: skip
