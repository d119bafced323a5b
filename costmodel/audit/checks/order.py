"""What statistics of one metric owe each other: percentiles in order, shares of at most all, gaps and tokens alike."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from ...records import Figure
from ..case import MEANS, Case
from ..finding import HOLDS, IMPOSSIBLE, INCONSISTENT, SUSPICIOUS, Finding, Inversion
from ..runs import Run, named
from ..written import rounding

_SHARES = ("slo_attainment", "cache_hit_rate", "sm_utilization", "posting_share")
#: Relative difference up to which a gap and a token are the same, and beyond which rates contradict each other.
_SAME, _APART = 0.1, 0.15


def check_order(case: Case) -> Iterator[Finding]:
    """A higher percentile is no lower, a mean lies between the ends, and seldom beyond the 99th percentile."""
    for run in case.runs:
        for metric in dict.fromkeys(figure.metric for figure in run.figures):
            of_metric = {f.statistic: f for f in run.all(metric) if f.statistic}
            ranked = sorted((rank, f) for s, f in of_metric.items() if (rank := _rank(s)) is not None)
            yield from _ordered([figure for _, figure in ranked])
            yield from _mean(of_metric)


def _rank(statistic: str | None) -> float | None:
    if statistic in ("min", "max"):
        return 0.0 if statistic == "min" else 100.0
    found = re.fullmatch(r"p(\d{1,2}(?:\.\d+)?)", statistic or "")
    return float(found[1]) if found else None


def _ordered(figures: list[Figure]) -> Iterator[Finding]:
    if len(figures) < 2:
        return
    for low, high in pairwise(figures):
        if low.value > high.value * (1 + rounding(high) + rounding(low)):
            said = f"{low.statistic} of {low.metric} is above {high.statistic}"
            told = f"{low.text} against {high.text}"
            yield Finding("percentile_order", IMPOSSIBLE, named((low, high)), said, told)
            return
    told = ", ".join(f"{figure.statistic} {figure.text}" for figure in figures)
    said = f"statistics of {figures[0].metric} are in order"
    yield Finding("percentile_order", HOLDS, named(figures), said, told)


def _mean(of_metric: dict[str, Figure]) -> Iterator[Finding]:
    mean = of_metric.get("mean")
    if mean is None:
        return
    for end, sign in (("min", 1), ("max", -1)):
        bound = of_metric.get(end)
        if bound is not None and sign * mean.value < sign * bound.value * (1 - sign * 0.01):
            said = f"the mean of {mean.metric} is beyond its {end}"
            told = f"{mean.text} against {bound.text}"
            yield Finding("percentile_order", IMPOSSIBLE, named((mean, bound)), said, told)
    tail = of_metric.get("p99")
    if tail is not None and mean.value > 1.02 * tail.value:
        said = f"the mean of {mean.metric} is above p99: few requests weigh as much as all others"
        told = f"{mean.text} against {tail.text}"
        yield Finding("percentile_order", SUSPICIOUS, named((mean, tail)), said, told)


def check_ranges(case: Case) -> Iterator[Finding]:
    """A share of a whole is at most all of it; cached tokens are at most the prompt."""
    for _, figure in case.each(*_SHARES):
        most = figure.value if figure.high is None else figure.high
        if most > 1 + rounding(figure):
            said = f"{figure.metric} {figure.text} is more than all"
            yield Finding("share_of_a_whole", IMPOSSIBLE, (figure.name,), said, f"{most:.4g} against 1")
    for run in case.runs:
        cached, tokens = run.number("cached_tokens"), run.number("input_tokens")
        if cached and tokens and cached > tokens:
            told = f"{cached:,.0f} of {tokens:,.0f} tokens"
            names = tuple(figure.name for figure in run.figures)
            yield Finding("share_of_a_whole", IMPOSSIBLE, names, "more is cached than the prompt has", told)


def check_gaps(case: Case) -> Iterator[Finding]:
    """Mean ITL is mean TPOT where each event of a stream brings one token."""
    for run in case.runs:
        gap, token = run.get("itl", "mean"), run.get("tpot", "mean")
        if gap is None or token is None or not token.value:
            continue
        ratio, told = gap.value / token.value, f"{gap.text} / {token.text}"
        of = named((gap, token))
        if abs(ratio - 1) <= _SAME:
            yield Finding("gap_per_token", HOLDS, of, "a gap brings one token", f"{told} = {ratio:.3g}")
        elif ratio > 1:
            said = f"an event of the stream brings {ratio:.3g} tokens: ITL is no time of a token here"
            yield Finding("gap_per_token", SUSPICIOUS, of, said, f"{told} = {ratio:.3g}")
        else:
            said = "gaps are shorter than tokens take: requests with many tokens weigh more, or some are not counted"
            yield Finding("gap_per_token", SUSPICIOUS, of, said, f"{told} = {ratio:.3g}")


def invert_gaps(case: Case) -> Iterator[Inversion]:
    """Say how many tokens an event of the stream brings."""
    for run in case.runs:
        gap, token = run.get("itl", "mean"), run.get("tpot", "mean")
        if gap is not None and token is not None and token.value:
            ratio = gap.value / token.value
            yield Inversion("tokens_per_event", ratio, named((gap, token)), f"{gap.text} / {token.text}",
                            ratio >= 1 - _SAME, "tokens that an event of the stream brings")  # fmt: skip


def check_streams(case: Case) -> Iterator[Finding]:
    """Tokens a second of one request are 1 / TPOT; of all together at most clients / TPOT."""
    for run in case.runs:
        token = run.get("tpot", *MEANS, "p50")
        if token is None or not token.value:
            continue
        yield from _one(run, token)
        yield from _all(run, token)


def _one(run: Run, token: Figure) -> Iterator[Finding]:
    rate = run.get("user_throughput")
    if rate is None or not rate.value:
        return
    product = rate.value * token.value
    told = f"{rate.text} x {token.text} = {product:.3g} tokens"
    grade = HOLDS if abs(product - 1) <= _SAME else INCONSISTENT
    said = "a request's rate is 1 / TPOT" if grade == HOLDS else f"a request's rate is {product:.3g} / TPOT"
    yield Finding("streams", grade, named((rate, token)), said, told)


def _all(run: Run, token: Figure) -> Iterator[Finding]:
    rate, clients = run.get("output_throughput"), run.number("concurrency")
    if rate is None or not clients or rate.per_gpu or run.number("output_tokens") or token.statistic == "p50":
        return  # Little's law says more where lengths are stated
    busy = rate.value * token.value
    told = f"{rate.text} x {token.text} = {busy:.4g} decodes of {clients:g} clients"
    of = named((rate, token))
    if busy <= clients * 1.05:
        yield Finding(
            "streams", HOLDS, of, f"{busy / clients:.0%} of the clients are decoding at a time", told
        )
    else:
        grade = IMPOSSIBLE if busy > clients * (1 + _APART) else INCONSISTENT
        said = f"{busy:.4g} requests would decode at a time, of {clients:g} clients"
        yield Finding("streams", grade, of, said, told)
