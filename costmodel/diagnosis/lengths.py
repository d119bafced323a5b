"""Lengths of requests: drawn where a result states how they vary, and checked where it lists them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random
from statistics import mean

from ..audit.runs import Run
from ..errors import InputError
from ..records import Stated
from .detail import Detail

SIDES = ("input", "output")
#: How far what a user states and the requests may lie apart: lengths, and rates, which depend on where a run begins.
_LENGTHS, _RATES = 0.02, 0.2
_LONGEST = 10_000_000


def drawn(run: Run, side: str, count: int) -> list[int] | None:
    """Return so many lengths by the mean and deviation of a run (lognormal), or its range (even); None: neither.

    The same draws for the same run; prompts and outputs are independent.
    """
    key, random = f"{side}_tokens", Random(f"{side} lengths")
    known = {word: f.value for word in ("mean", "std", "min", "max") if (f := run.get(key, word))}
    middle, deviation = known.get("mean"), known.get("std")
    if middle is None or middle < 1:
        return None
    if deviation is not None:
        variance = math.log1p((deviation / middle) ** 2)
        found = [
            random.lognormvariate(math.log(middle) - variance / 2, math.sqrt(variance)) for _ in range(count)
        ]
    elif "min" in known and "max" in known:
        found = [random.uniform(known["min"], known["max"]) for _ in range(count)]
    else:
        return None
    low, high = known.get("min", 1.0), known.get("max", _LONGEST)
    scale = middle / mean(found)
    return [max(1, round(min(max(scale * length, low), high))) for length in found]


def check_given(given: Mapping[str, Stated], detail: Detail) -> None:
    """Check what a user states against requests that are listed one by one. Raises InputError where they differ."""
    requests = [each.request for each in detail.requests]
    means = {
        "input_tokens": mean(r.isl for r in requests),
        "output_tokens": mean(r.output_tokens for r in requests),
    }
    cached = mean(r.cached_tokens for r in requests)
    if cached:
        means["cached_tokens"] = cached
    for key, value in means.items():
        _alike(given, key, value, _LENGTHS, "on average")
    stated = given.get("cached_tokens")
    if isinstance(stated, int | float) and stated >= means["input_tokens"]:
        raise InputError(f"{stated:g} cached tokens of prompts of {means['input_tokens']:,.0f} on average")
    if not detail.timed or len(requests) < 2:
        return
    span = requests[-1].arrival_s - requests[0].arrival_s
    if span > 0 and "concurrency" not in given:
        _alike(given, "arrival_rate", (len(requests) - 1) / span, _RATES, "a second")
    most, clients = _most_at_once(detail), given.get("concurrency")
    if isinstance(clients, int | float) and most > clients:
        raise InputError(f"concurrency {clients:g} is stated; the result lists {most:,} requests at a time")


def _alike(given: Mapping[str, Stated], key: str, value: float, apart: float, how: str) -> None:
    stated = given.get(key)
    if isinstance(stated, int | float) and abs(stated - value) > apart * value:
        raise InputError(f"{key} {stated:g} is stated; the requests of the result have {value:.6g} {how}")


def _most_at_once(detail: Detail) -> int:
    """Requests that were under way at one time, by their arrivals and E2E; 0 where those are not known."""
    ends = [(r.request.arrival_s, r.e2e_s) for r in detail.requests if r.e2e_s is not None]
    changes: Sequence[tuple[float, int]] = sorted(
        [(at, 1) for at, _ in ends] + [(at + e2e * (1 - 1e-3), -1) for at, e2e in ends]
    )
    now = most = 0
    for _, by in changes:
        now += by
        most = max(most, now)
    return most
