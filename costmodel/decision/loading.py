"""Where loading a prefix from a tier and computing it again cost the same, in its length and in bandwidth.

The inequality is :data:`costmodel.formulas.reuse.load_advantage`, which takes recompute for a parabola. The number of
pieces is frozen for closed forms; numeric roots ask whoever knows the recompute, such as step times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from ..formulas.reuse import load_advantage, prefix_recompute_time
from ..serving.tiers import KvTier
from .breakeven import Root, Symbolic, positive_value, solved, symbolic_form

#: Bandwidths among which a numeric root is looked for, in byte/second.
LEAST_RATE, MOST_RATE = 1e5, 1e15
#: Pieces of a prefix among which closed forms are looked for.
MOST_PIECES = 100_000
Recompute = Callable[[int], float]


class Parabola(NamedTuple):
    """Recompute of a prefix in seconds: a part a token, and one a token squared."""

    per_token_s: float
    growth_s: float

    def seconds(self, tokens: float) -> float:
        """Time to compute so many tokens."""
        return float(prefix_recompute_time(tokens, self.per_token_s, self.growth_s))


def parabola_through(recompute: Recompute, tokens: int) -> Parabola:
    """Return the parabola through 0, half of ``tokens`` and ``tokens``."""
    half, whole = max(1, tokens // 2), max(2, tokens)
    first, second = recompute(half) / half, recompute(whole) / whole
    growth = (second - first) / (whole - half)
    return Parabola(second - growth * whole, growth)


def _values(tier: KvTier, parabola: Parabola) -> dict[str, float]:
    return {
        "prefill_per_token": parabola.per_token_s,
        "prefill_growth": parabola.growth_s,
        "kv_bytes_per_token": tier.bytes_per_token,
        "sequence_fixed_bytes": tier.fixed_bytes,
        "latency": tier.latency_s,
        "tier_chunk": tier.chunk_tokens,
        "per_chunk": tier.per_chunk_s,
        "tier_bytes_per_s": tier.read_bytes_per_s,
    }


def tokens_root(recompute: Recompute, tier: KvTier, longest: int) -> Root:
    """Return the shortest prefix from which loading pays at every length up to ``longest`` tokens.

    None where loading never pays, or only up to some length; the regime says which. Longer prefixes are taken to
    need no less time, computed or read, so that two ends speak for all lengths between them.
    """
    computed, read = cache(recompute), tier.read_s

    def pays(tokens: int) -> bool:
        return computed(tokens) > read(tokens)

    def all_pay(low: int, high: int) -> bool:
        return computed(low) > read(high)

    def none_pays(low: int, high: int) -> bool:
        return computed(high) <= read(low)

    if not pays(longest):
        ends = _last(1, longest, pays, none_pays)
        if ends is None:
            return Root(None, f"computing is faster at every length up to {longest:,} tokens")
        return Root(None, f"loading pays up to {ends:,} tokens, and not for longer prefixes")
    fails = _last(1, longest, lambda tokens: not pays(tokens), all_pay)
    if fails is None:
        return Root(1.0, f"loading pays at every length up to {longest:,} tokens", 1, longest)
    some = fails > 1 and _last(1, fails - 1, pays, none_pays) is not None
    shorter = ", and for some shorter prefixes" if some else ""
    return Root(
        float(fails + 1), f"loading pays from here to {longest:,} tokens{shorter}", fails + 1, longest
    )


def _last(
    low: int, high: int, holds: Callable[[int], bool], none_holds: Callable[[int, int], bool]
) -> int | None:
    """Return the largest number for which something holds; ``none_holds`` tells ranges where it does nowhere."""
    ranges = [(low, high)]
    while ranges:
        low, high = ranges.pop()
        if low == high:
            if holds(low):
                return low
        elif not none_holds(low, high):
            middle = (low + high) // 2
            ranges += [(low, middle), (middle + 1, high)]
    return None


def tokens_form(parabola: Parabola, tier: KvTier) -> Symbolic:
    """Return the closed form of the shortest prefix from which loading pays at every length.

    The number of pieces is frozen at that of the longest prefix at which loading begins to pay, and so are the
    windows that are full there.
    """
    form, count, forms = _pieces_frozen("prefix", parabola.growth_s == 0)
    symbols, every = load_advantage.symbols(), _stretches(tier)
    for low, high, windows in reversed(every):
        values = _values(tier, parabola) | windows
        numbers = {symbols[name]: value for name, value in values.items()}
        for pieces, first, last in _crossings(values, low, high):
            for candidate in forms:
                value = positive_value(candidate, {**numbers, count: pieces})
                if value is not None and max(1.0, first) <= value <= last and _begins(values, value):
                    regime = _frozen(pieces, tier) + _filled(tier, value)
                    until = last if math.isfinite(last) else None
                    return symbolic_form(candidate, Root(value, regime, first, until))
    return symbolic_form(form, Root(None, _without_root(_values(tier, parabola) | every[0][2])))


def _frozen(pieces: int, tier: KvTier) -> str:
    if not tier.per_chunk_s:
        return "the bytes alone: pieces cost nothing"
    return f"n = {pieces} piece{'s' if pieces > 1 else ''} of {tier.chunk_tokens} tokens"


def _filled(tier: KvTier, prefix: float) -> str:
    """Say which windows a prefix is too short to fill."""
    wider = sorted(window for _, window in tier.windows if window > prefix)
    return f", windows of {wider[0]:,.0f} tokens not yet full" if wider else ""


def _stretches(tier: KvTier) -> list[tuple[float, float, dict[str, float]]]:
    """Return lengths between which no window becomes full, with bytes of a token and of a sequence there."""
    ends = [0.0, *sorted({window for _, window in tier.windows}), math.inf]
    found = []
    for low, high in pairwise(ends):
        growing = sum(each for each, window in tier.windows if window > low)
        bytes_there = {
            "kv_bytes_per_token": tier.bytes_per_token + growing,
            "sequence_fixed_bytes": tier.fixed_of(low) - growing * low,
        }
        found.append((low, high, bytes_there))
    return found


def _crossings(values: dict[str, float], low: float, high: float) -> Iterator[tuple[int, float, float]]:
    """Return numbers of pieces with a root inside them, and between which lengths it lies; the longest first."""
    chunk, each = int(values["tier_chunk"]), values["per_chunk"]
    if not each:
        yield 1, low, high
        return
    spread = {
        **values,
        "kv_bytes_per_token": values["kv_bytes_per_token"] + each / chunk * values["tier_bytes_per_s"],
    }
    latest = _smooth_root({**spread, "latency": values["latency"] + each})
    latest = min(latest, high, MOST_PIECES * chunk)
    for pieces in range(math.ceil(latest / chunk) + 1, math.floor(low / chunk), -1):
        first, last = max(low, (pieces - 1) * chunk), min(high, pieces * chunk)
        root = _smooth_root({**values, "latency": values["latency"] + pieces * each})
        if first * (1 - 1e-9) <= root <= last * (1 + 1e-9):
            yield pieces, first, last


@cache
def _pieces_frozen(name: str, linear: bool = False) -> tuple[Any, Any, list[Any]]:
    """Solve the inequality for a parameter with n pieces: a form, n, and all forms; ``linear``: without growth."""
    import sympy

    symbols, count = load_advantage.symbols(), sympy.Symbol("n", positive=True)
    piece = load_advantage.expression().replace(sympy.ceiling, lambda inner: count)
    piece = piece.subs(symbols["prefill_growth"], 0) if linear else piece
    forms = _parabolic(piece, symbols[name]) or solved(piece, symbols[name])
    return (forms[-1] if forms else None), count, forms


def _parabolic(piece: Any, target: Any) -> list[Any]:
    """Roots of what is a parabola in the unknown; none where it is something else."""
    import sympy

    if not piece.is_polynomial(target) or sympy.degree(piece, target) != 2:
        return []
    squared, linear, fixed = sympy.Poly(piece, target).all_coeffs()
    spread = sympy.sqrt(linear**2 - 4 * squared * fixed)
    return [(-linear - spread) / (2 * squared), (-linear + spread) / (2 * squared)]


def _advantage(values: dict[str, float], prefix: float) -> float:
    return float(load_advantage(**values, prefix=prefix))


def _begins(values: dict[str, float], prefix: float) -> bool:
    """Say whether loading begins to pay at this length, rather than ceases to."""
    free = {**values, "per_chunk": 0.0}
    return _advantage(free, prefix * (1 - 1e-6)) < _advantage(free, prefix * (1 + 1e-6))


def _without_root(values: dict[str, float]) -> str:
    if _advantage(values, 1.0) <= 0:
        return "computing is faster at every length"
    return (
        "loading pays at every length" if values["prefill_growth"] >= 0 else "loading pays up to some length"
    )


def _smooth_root(values: dict[str, float]) -> float:
    """Positive root of the parabola without pieces; 0 where there is none."""
    rate = values["tier_bytes_per_s"]
    squared = values["prefill_growth"]
    linear = values["prefill_per_token"] - values["kv_bytes_per_token"] / rate
    fixed = values["latency"] + values["sequence_fixed_bytes"] / rate
    if squared <= 0:
        return fixed / linear if linear > 0 else 0.0
    return float((-linear + math.sqrt(linear**2 + 4 * squared * fixed)) / (2 * squared))


def bandwidth_form(parabola: Parabola, tier: KvTier, prefix: int) -> Symbolic:
    """Return the closed form of the bandwidth above which loading so many tokens pays, at their number of pieces."""
    symbols = load_advantage.symbols()
    values = {**_values(tier, parabola), "prefix": float(prefix)}
    values["sequence_fixed_bytes"] = tier.fixed_of(prefix)
    del values["tier_bytes_per_s"]
    numbers = {symbols[name]: value for name, value in values.items()}
    form, count, _ = _pieces_frozen("tier_bytes_per_s")
    pieces = math.ceil(prefix / tier.chunk_tokens)
    value = positive_value(form, {**numbers, count: pieces})
    if value is None:
        return symbolic_form(form, Root(None, "no bandwidth suffices: the fixed part alone takes longer"))
    regime = f"n = {pieces} piece{'s' if pieces > 1 else ''} of {tier.chunk_tokens} tokens"
    return symbolic_form(form, Root(value, regime))


def bandwidth_root(recompute_s: float, tier: KvTier, prefix: int) -> Root:
    """Return the bandwidth at which reading so many tokens takes as long as computing them, by bisection."""

    def pays(rate: float) -> bool:
        return recompute_s > replace(tier, read_bytes_per_s=rate).read_s(prefix)

    low, high = LEAST_RATE, MOST_RATE
    if not pays(high):
        return Root(None, "no bandwidth suffices: the fixed part alone takes longer")
    if pays(low):
        return Root(None, f"loading pays at any bandwidth from {low:g} bytes/s")
    for _ in range(200):
        middle = math.sqrt(low * high)
        if middle in (low, high):
            break
        low, high = (low, middle) if pays(middle) else (middle, high)
    return Root(high, f"bisected between {LEAST_RATE:g} and {MOST_RATE:g} bytes/s")
