"""Which single assumption, taken otherwise, brings TTFT, TPOT and E2E to what was measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from ..audit.subject import Unknown
from ..errors import CostmodelError
from ..serving.memory import KvPool
from ..units import format_si
from .detail import Detail
from .offered import Offered
from .predict import Row
from .replays import Played, Replays

FIGURES = ("ttft", "tpot", "e2e")
#: Values about an estimate that are tried, and token budgets.
_ABOUT = (0.6, 0.9, 1.1, 1.4, 2.0)
_BUDGETS = (512, 2048, 8192)
_SHARES = (0.3, 0.6, 0.9)
#: Times that what is between two values tried is looked at again.
_AGAIN = 2


@dataclass(frozen=True)
class Reconciled:
    """An assumption at the value where all figures fit. ``figures``: predicted seconds there, by measure."""

    name: str
    value: float
    said: str
    figures: dict[str, float]


@dataclass(frozen=True)
class Reconciliation:
    """Assumptions that were tried, one at a time, and those at which TTFT, TPOT and E2E all fit, the nearest first."""

    tried: tuple[str, ...]
    fitting: tuple[Reconciled, ...]
    said: str


@dataclass(frozen=True)
class _Trial:
    """An assumption: values to begin with, its replay at a value, and what to say of one."""

    name: str
    values: Sequence[float]
    played: Callable[[float], Played]
    told: Callable[[float], str]
    whole: bool = False


def reconcile(replays: Replays, rows: Sequence[Row], detail: Detail | None) -> Reconciliation | None:
    """Return what reconciles the means of TTFT, TPOT and E2E; None where they fit, or not all of them are known."""
    means = {r.measure: r for r in rows if r.statistic in ("mean", None) and r.measure in FIGURES and r.low_s}
    if set(means) != set(FIGURES) or all(row.inside for row in means.values()):
        return None
    trials = list(_trials(replays, means))
    found = [each for trial in trials if (each := _best(trial, means)) is not None]
    if (constant := _constant(replays, means, detail)) is not None:
        found.append(constant)
    tried = (*(trial.name for trial in trials), "front end")
    fitting = tuple(sorted(found, key=lambda each: _off(each.figures, means)))
    if not fitting:
        return Reconciliation(tried, (), f"no single one of {', '.join(tried)} makes TTFT, TPOT and E2E fit")
    return Reconciliation(tried, fitting, "; or ".join(each.said for each in fitting))


def _off(figures: dict[str, float], means: dict[str, Row]) -> float:
    """How far predicted figures are from measured ones, as a sum of squared logarithms."""
    return sum(math.log(max(figures[m], 1e-12) / row.measured_s) ** 2 for m, row in means.items())


def _fits(figures: dict[str, float], means: dict[str, Row]) -> bool:
    """Whether all bands, moved along with their figures, hold what was measured."""
    for measure, row in means.items():
        assert row.predicted_s and row.low_s and row.high_s
        low, high = (figures[measure] * end / row.predicted_s for end in (row.low_s, row.high_s))
        if not (
            (row.measured_low_s or row.measured_s) <= high and (row.measured_high_s or row.measured_s) >= low
        ):
            return False
    return True


def _figures(played: Played) -> dict[str, float]:
    return {measure: played.value(measure, "mean") or 0.0 for measure in FIGURES}


def _best(trial: _Trial, means: dict[str, Row]) -> Reconciled | None:
    """The value at which the figures are nearest, between those tried, too; None where they do not fit there."""
    known: dict[float, dict[str, float]] = {}

    def look(value: float) -> None:
        value = float(round(value)) if trial.whole else value
        if value in known:
            return
        try:
            known[value] = _figures(trial.played(value))
        except (CostmodelError, Unknown):
            return

    for value in trial.values:
        look(value)
    for _ in range(_AGAIN if known else 0):
        at = min(known, key=lambda value: _off(known[value], means))
        ordered = sorted(known)
        place = ordered.index(at)
        for other in ordered[max(0, place - 1) : place] + ordered[place + 1 : place + 2]:
            look((at + other) / 2)
    if not known:
        return None
    at = min(known, key=lambda value: _off(known[value], means))
    return Reconciled(trial.name, at, trial.told(at), known[at]) if _fits(known[at], means) else None


def _trials(replays: Replays, means: dict[str, Row]) -> Iterator[_Trial]:
    ran, load = replays.ran, replays.load
    own, assumed = ran.deployment, {each.name for each in ran.assumed}
    settings, running = own.settings, _running(replays, means)

    def limited(**changed: int | bool) -> Played:
        return replays.played(load, replace(own, settings=replace(settings, **changed)))  # type: ignore[arg-type]

    if "max_seqs" in assumed:
        yield _Trial(
            "max_num_seqs",
            [max(1.0, by * running) for by in _ABOUT],
            lambda value: limited(max_seqs=max(1, round(value))),
            lambda value: _said(f"about {value:,.0f} sequence slots", "max_num_seqs"),
            whole=True,
        )
    if "token_budget" in assumed:
        yield _Trial(
            "max_num_batched_tokens",
            _BUDGETS,
            lambda value: limited(token_budget=round(value)),
            lambda value: _said(f"a token budget of about {value:,.0f}", "max_num_batched_tokens"),
            whole=True,
        )
    if "lag" in assumed:
        yield _Trial(
            "lag", [float(not settings.lag)], lambda value: limited(lag=bool(value)),
            lambda value: _said(f"steps planned {'a step ahead' if value else 'as they begin'}", "it"),
        )  # fmt: skip
    if not any(each.name == "kv_cache_tokens" for each in ran.taken):
        requests = load.requests
        held = sum(r.isl + r.output_tokens / 2 for r in requests) / len(requests)
        yield _Trial(
            "KV pool", [by * running * held for by in _ABOUT], lambda value: _pooled(replays, value),
            lambda value: _said(f"a KV pool of about {value:,.0f} tokens", "the KV pool"),
        )  # fmt: skip
    if not any(request.cached_tokens for request in load.requests):
        yield _Trial(
            "cached share", _SHARES, lambda value: replays.played(_hit(load, value)),
            lambda value: _said(f"about {value:.0%} of every prompt in the cache", "cached tokens"),
        )  # fmt: skip


def _said(what: str, unstated: str) -> str:
    return f"with {what} TTFT, TPOT and E2E all fit; the result does not state {unstated}"


def _running(replays: Replays, means: dict[str, Row]) -> float:
    """Sequences running on an instance, by Little: requests a second times the time from first token to last."""
    load, count = replays.load, len(replays.load.requests)
    e2e, ttft = means["e2e"].measured_s, means["ttft"].measured_s
    if load.concurrency:
        rate = load.concurrency / e2e
    else:
        arrivals = [request.arrival_s for request in load.requests]
        rate = count / (max(arrivals) - min(arrivals) + e2e)
    return max(
        1.0, rate * (e2e - ttft) / len(replays.ran.deployment.pool(replays.ran.strategy.pools[0].role))
    )


def _pooled(replays: Replays, tokens: float) -> Played:
    own = replays.ran.deployment

    def sized(pool: KvPool) -> KvPool:
        return replace(pool, pool_bytes=tokens * pool.sequence.most_per_token)

    moved = replace(own, prefill_pool=sized(own.prefill_pool), decode_pool=sized(own.decode_pool))
    return replays.played(replays.load, moved)


def _hit(load: Offered, share: float) -> Offered:
    requests = []
    for request in load.requests:
        hits = min(int(share * request.isl), request.isl - 1)
        requests.append(request._replace(uncached_tokens=request.isl - hits, cached_tokens=hits))
    return replace(load, requests=tuple(requests))


def _constant(replays: Replays, means: dict[str, Row], detail: Detail | None) -> Reconciled | None:
    """A time before every first token: the median of differences, request by request where those are known."""
    predicted, measured = replays.nominal.seconds("ttft"), detail.seconds.get("ttft", []) if detail else []
    if len(predicted) == len(measured) and measured:
        seconds = median(there - here for here, there in zip(predicted, measured))
    else:
        seconds = means["ttft"].measured_s - (means["ttft"].predicted_s or 0.0)
    if seconds <= 0:
        return None
    figures = {m: (row.predicted_s or 0.0) + (seconds if m != "tpot" else 0.0) for m, row in means.items()}
    if not _fits(figures, means):
        return None
    told = f"with a constant {format_si(seconds, 'second')} before every first token"
    return Reconciled(
        "front end", seconds, f"{told} TTFT, TPOT and E2E all fit; the result does not state it", figures
    )
