"""Prompts that a cache answered: repeated sets, times that only a cache explains, and ratios that give its share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ...records import Figure
from ...units import format_si
from ..case import Case
from ..finding import HOLDS, IMPOSSIBLE, INCONSISTENT, SUSPICIOUS, Finding, Inversion
from ..runs import Run, named
from ..subject import Least, Unknown
from .bounds import PREFILL, floor_of, uncached
from .states import cold, warm

REPEATED, BELOW, RATIO = "repeated_prompts", "cached_prompts", "cached_ratio"
#: A seed in words: of several runs.
_SAME = re.compile(r"same|every|each|fixed|all ")
#: Times and rates that fall and rise with the part of a prompt that is computed.
OF_PROMPTS = (*PREFILL, "input_throughput")
#: Conditions that say what a cache holds: figures that differ in no other have the same work but for it.
_OF_CACHE = ("cache_state", "seed", "warmup", "cached_tokens", "cached_share")
#: A ratio that repeats of one measurement do not reach, and how closely a share of tokens gives one of time.
_APART, _NEAR = 1.5, 0.05


def check_repeated(case: Case) -> Iterator[Finding]:
    """A cache stated as warm, or prompts drawn again from one seed with no word that the prefix cache is off."""
    held: dict[str, dict[str, None]] = {}
    drawn: dict[tuple[str, float | None], list[Run]] = {}
    for run in case.runs:
        state, figures = run.text("cache_state"), run.all(*OF_PROMPTS, "ttft_ratio")
        if not figures or cold(state) or _share(run, None) is not None:
            continue
        if warm(state):
            held.setdefault(state, {}).update(dict.fromkeys(named(figures)))
        elif "seed" in run.conditions:
            drawn.setdefault((run.text("seed"), run.number("input_tokens")), []).append(run)
    for state, names in held.items():
        said = f"the cache is stated as {state}: which share of the prompts it answered is not stated"
        yield Finding(
            REPEATED, SUSPICIOUS, tuple(names), said, f"cache_state {state}, cached_share not stated"
        )
    for (seed, _), runs in drawn.items():
        if len(runs) > 1 or _SAME.search(seed):
            of = dict.fromkeys(name for run in runs for name in named(run.all(*OF_PROMPTS, "ttft_ratio")))
            told = (
                f"{len(runs)} runs draw their prompts from"
                if len(runs) > 1
                else "runs draw their prompts from"
            )
            said = f"{told} one seed ({seed}): a prefix cache, not stated to be off, has them"
            yield Finding(
                REPEATED, SUSPICIOUS, tuple(of), said, f"seed {seed}, cache_state not stated as cold"
            )


def _share(run: Run, figure: Figure | None) -> float | None:
    """Cached share of the prompt as stated."""
    share, cached, tokens = (
        run.number(key, figure) for key in ("cached_share", "cached_tokens", "input_tokens")
    )
    return share if share is not None else cached / tokens if cached is not None and tokens else None


def check_cached(case: Case) -> Iterator[Finding]:
    """Times below the bound of a whole prompt: the least share that a cache must hold, or why coldness is refuted."""
    for run, figure in case.each(*OF_PROMPTS):
        try:
            floor = floor_of(case, run, figure)
            tokens, stated = uncached(run, figure)
        except Unknown:
            continue
        if floor.seconds < floor.fastest:
            yield _below(case, run, figure, floor.seconds, tokens, stated, floor.least)


def _below(
    case: Case, run: Run, figure: Figure, seconds: float, tokens: int, stated: int, whole: Least
) -> Finding:
    needed, _, least = needed_tokens(case, run, figure, seconds)
    what, told = (
        f"{figure.metric} {figure.text}",
        f"{format_si(seconds, 'second')} against {whole.arithmetic}",
    )
    if needed is None:
        said = f"{what} is too fast even for a prompt of which a cache holds all but one token"
        return Finding(BELOW, IMPOSSIBLE, (figure.name,), said, told)
    share = needed / tokens
    said = f"{what} is possible where a cache holds at least {needed:,} of {tokens:,} prompt tokens ({share:.1%})"
    told = f"{told}; with {needed:,} cached {least}"
    if cold(run.text("cache_state")):
        said = f"{said}, and the cache is stated as {run.text('cache_state')}: one of the two is wrong"
        return Finding(BELOW, IMPOSSIBLE, (figure.name,), said, told)
    if stated:
        return Finding(BELOW, INCONSISTENT, (figure.name,), f"{said}, more than the {stated:,} stated", told)
    return Finding(BELOW, SUSPICIOUS, (figure.name,), said, told)


def needed_tokens(case: Case, run: Run, figure: Figure, seconds: float) -> tuple[int | None, int, str]:
    """Return the fewest cached tokens with which a prompt takes no longer than ``seconds`` at least, of how many.

    None where all but one token are not enough; the last: the least time that is left. Raises Unknown.
    """
    tokens, stated = uncached(run, figure)
    subject = case.subject(run, figure)
    machine = subject.machine
    gpus = (machine.most_per_prompt if figure.metric in PREFILL else machine.gpus) or 1

    def least(cached: int) -> Least:
        return subject.prefill(tokens, cached, gpus)

    low, high = stated, tokens - 1
    if least(high).seconds > seconds:
        return None, tokens, ""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if least(middle).seconds <= seconds else (middle + 1, high)
    return low, tokens, least(low).arithmetic


@dataclass(frozen=True)
class Pair:
    """Two figures of the same work but for what a cache holds, and how many times longer the slow one takes."""

    slow: Figure
    fast: Figure
    ratio: float

    @property
    def share(self) -> float:
        """Share of the time that the fast one saves: that of the cached tokens, where products are all the time."""
        return 1 - 1 / self.ratio


def _pairs(case: Case) -> Iterator[tuple[Pair, Run]]:
    groups: dict[tuple[str, str | None, frozenset[tuple[str, object]]], list[Figure]] = {}
    for figure in case.record.figures:
        if figure.metric in OF_PROMPTS and figure.value > 0:
            stated = case.record.conditions_of(figure)
            rest = frozenset((key, value) for key, value in stated.items() if key not in _OF_CACHE)
            groups.setdefault((figure.metric, figure.statistic, rest), []).append(figure)
    for (metric, _, _), figures in groups.items():
        low, *_, high = (
            sorted(figures, key=lambda f: f.value) if len(figures) > 1 else (figures[0], figures[0])
        )
        slow, fast = (low, high) if metric == "input_throughput" else (high, low)
        ratio = high.value / low.value
        if ratio >= _APART:
            yield Pair(slow, fast, ratio), next(run for run in case.runs if fast in run.figures)


def _bounded(case: Case) -> set[str]:
    """Figures whose own bound gives their cached share: a ratio, which takes products for all the time, says less."""
    return {name for finding in check_cached(case) for name in finding.of}


def check_ratio(case: Case) -> Iterator[Finding]:
    """Two figures that differ only in what a cache may hold: their ratio against the cached share that is stated."""
    told_already = _bounded(case)
    for pair, run in _pairs(case):
        stated, of = _share(run, pair.fast), named((pair.slow, pair.fast))
        told = f"{pair.slow.text} and {pair.fast.text}: 1 - 1 / {pair.ratio:.4g} = {pair.share:.1%}"
        state = str(case.record.conditions_of(pair.fast).get("cache_state", "")).lower()
        if stated is not None and pair.share <= stated + _NEAR:
            said = f"the ratio needs {pair.share:.1%} of the prompt cached, and {stated:.1%} are stated"
            yield Finding(RATIO, HOLDS, of, said, told)
        elif stated is not None:
            said = f"the ratio needs {pair.share:.1%} of the prompt cached, and only {stated:.1%} are stated"
            yield Finding(RATIO, INCONSISTENT, of, said, told)
        elif warm(state) and not cold(state):
            yield Finding(
                RATIO, HOLDS, of, f"a cache that holds {pair.share:.1%} of the prompt explains it", told
            )
        elif pair.fast.name not in told_already:
            said = f"the same work differs {pair.ratio:.3g} times: a cache that held {pair.share:.1%} would explain it"
            yield Finding(RATIO, SUSPICIOUS, of, said, told)


def invert_ratio(case: Case) -> Iterator[Inversion]:
    """Say which cached share the ratio of two figures amounts to, if products are all their time."""
    told_already = _bounded(case)
    for pair, _ in _pairs(case):
        if pair.fast.name in told_already:
            continue
        told = f"1 - 1 / {pair.ratio:.4g}"
        said = f"a cache that holds {pair.share:.1%} of the prompt makes it {pair.ratio:.3g} times as fast"
        yield Inversion("cached_share", pair.share, named((pair.slow, pair.fast)), told, True, said)
