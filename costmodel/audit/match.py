"""Two results against each other: only where their conditions match, and the one that is compared alone differs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from ..errors import InputError
from ..records import Figure, Record, Stated
from . import agreement
from .agreement import LENGTHS, Condition, in_words
from .runs import OF_FIGURES, Run, runs_of

#: Factors that 95 % of the ratios of such a figure lie between, were both runs made again; or why they are not known.
Intervals = Callable[[Figure], tuple[float, float] | str]
#: What a ratio beyond its interval says.
FASTER, SLOWER, NOISE = "faster", "slower", "within noise"
#: Metrics that say what was asked of a system, not what it did; how long a run took, its rates tell.
_NO_RESULTS = (*LENGTHS, "offered_rate", "duration", "benchmark_duration")
_TIMES, _RATES = ("second",), ("1/second", "token/second")


@dataclass(frozen=True)
class Ratio:
    """A figure of both results, in the SI unit of ``dimension``, and b over a; None with the ``reason``.

    ``low`` and ``high`` hold the ratio of 95 % of such pairs of runs, and ``verdict`` says whether b is faster, slower
    or within noise; None with the ``interval_reason``.
    """

    metric: str
    statistic: str | None
    dimension: str | None
    a: float
    b: float
    ratio: float | None
    reason: str | None = None
    low: float | None = None
    high: float | None = None
    verdict: str | None = None
    interval_reason: str | None = None


@dataclass(frozen=True)
class Matched:
    """Two results: ``comparable`` where all that decides matches but for what is ``varying``; ``reasons``: why not.

    ``absent``: conditions that one of them states; those that decide are ``reasons``, too. ``unstated``: what decides
    and neither states, which ``caveats`` say is taken to be the same.
    """

    a: str
    b: str
    varying: tuple[Condition, ...]
    matching: tuple[Condition, ...]
    mismatching: tuple[Condition, ...]
    absent: tuple[Condition, ...]
    unstated: tuple[str, ...]
    comparable: bool
    reasons: tuple[str, ...]
    caveats: tuple[str, ...]
    ratios: tuple[Ratio, ...]
    ratios_reason: str | None = None


def compare(
    a: Run | Record,
    b: Run | Record,
    varying: Collection[str] = (),
    given: Mapping[str, Stated] | None = None,
    intervals: Intervals | None = None,
) -> Matched:
    """Compare two results. ``varying``: conditions that differ by intent; ``given``: what the user states where they
    do not; ``intervals``: how far ratios move from run to run.

    Raises InputError for a name that is no condition, and for a record of several runs.
    """
    left, right = _run(a), _run(b)
    varied = [agreement.known(name) for name in varying]
    ours, theirs = (agreement.stated_by(run, given or {}) for run in (left, right))
    sides = agreement.beside(ours, theirs)
    both = [c for c in sides if c.a is not None and c.b is not None]
    matching = [c for c in both if agreement.alike(c)]
    mismatching = [c for c in both if c.name not in varied and c not in matching]
    neither = agreement.unstated(ours, theirs, varied)
    reasons = (
        *(f"{n}, which is to vary, is not stated by both" for n in varied if n not in {c.name for c in both}),
        *(f"{c.name} differs: {in_words(c.name, c.a)} against {in_words(c.name, c.b)}" for c in mismatching),
        *agreement.undecided(ours, theirs, varied),
    )
    found = tuple(_ratios(left, right, reasons, intervals))
    first, second = _names(a, b)
    return Matched(
        a=first,
        b=second,
        varying=tuple(c for c in sides if c.name in varied and c not in matching),
        matching=tuple(matching),
        mismatching=tuple(mismatching),
        absent=tuple(c for c in sides if c.name not in varied and c not in both),
        unstated=tuple(neither),
        comparable=not reasons,
        reasons=reasons,
        caveats=tuple(agreement.caveats((left, right), neither, [c for c in matching if c.name in varied])),
        ratios=found,
        ratios_reason=None if found else "no figure of one metric and statistic stands in both",
    )


def _run(result: Run | Record) -> Run:
    if isinstance(result, Run):
        return result
    runs = runs_of(result)
    if len(runs) != 1:
        named = "; ".join(run.name for run in runs[:5])
        raise InputError(
            f"{result.name} holds {len(runs)} runs ({named}): name one of them", where=result.where
        )
    return runs[0]


def _names(a: Run | Record, b: Run | Record) -> tuple[str, str]:
    """What tells two results apart: the names of their files, else where those lie, or what the runs state."""
    names = [one.record if isinstance(one, Run) else one.name for one in (a, b)]
    if names[0] == names[1]:
        names = [f"{one.record}: {one.name}" if isinstance(one, Run) else one.where for one in (a, b)]
    return names[0], names[1]


def _ratios(a: Run, b: Run, reasons: tuple[str, ...], intervals: Intervals | None) -> list[Ratio]:
    """Ratios of the figures that stand in both and are results."""
    pairs = [(figure, _beside(figure, b)) for figure in a.figures if figure.metric not in _NO_RESULTS]
    found = [(figure, _ratio(figure, other, reasons)) for figure, other in pairs if other]
    return [_with_interval(ratio, figure, intervals) for figure, ratio in found]


def _beside(figure: Figure, other: Run) -> Figure | None:
    """The figure of another run that is of the same, best by the same definition."""
    same = [
        f for f in other.all(figure.metric) if f.statistic == figure.statistic and f.per_gpu == figure.per_gpu
    ]
    return min(same, key=lambda f: len(_apart(figure, f)), default=None)


def _apart(figure: Figure, other: Figure) -> list[str]:
    """How the definitions of two figures differ."""
    sides = [
        Condition(key, figure.conditions.get(key), other.conditions.get(key))
        for key in dict.fromkeys((*figure.conditions, *other.conditions))
        if key in OF_FIGURES
    ]
    return [
        f"{c.name} differs: {in_words(c.name, c.a)} against {in_words(c.name, c.b)}"
        for c in sides
        if not agreement.alike(c)
    ]


def _ratio(figure: Figure, other: Figure, reasons: tuple[str, ...]) -> Ratio:
    made = Ratio(figure.metric, figure.statistic, figure.dimension, figure.value, other.value, None)
    if reasons:
        return replace(made, reason="conditions do not match")
    apart = _apart(figure, other)
    if figure.dimension is None or apart:
        return replace(made, reason="; ".join(apart) or "what it measures is not known")
    if not figure.value > 0:
        return replace(made, reason="the first is not above 0")
    return replace(made, ratio=other.value / figure.value)


def _with_interval(ratio: Ratio, figure: Figure, intervals: Intervals | None) -> Ratio:
    """A ratio with how far it would move from run to run, and what that says."""
    if ratio.ratio is None:
        return ratio
    factors = intervals(figure) if intervals else "the results do not hold the times of single requests"
    if isinstance(factors, str):
        return replace(ratio, interval_reason=factors)
    low, high = (ratio.ratio * factor for factor in factors)
    return replace(ratio, low=low, high=high, verdict=_verdict(ratio.dimension, low, high))


def _verdict(dimension: str | None, low: float, high: float) -> str | None:
    """What an interval of b over a says of b; None for what is neither a time nor a rate."""
    if dimension not in (*_TIMES, *_RATES):
        return None
    if low <= 1 <= high:
        return NOISE
    return FASTER if (high < 1) is (dimension in _TIMES) else SLOWER
