"""Where loading a prefix from a tier and computing it again cost the same, in its length and in bandwidth.

The inequality is :data:`costmodel.formulas.reuse.load_advantage`, which takes recompute for a parabola. The number of
pieces is frozen for closed forms; numeric roots ask whoever knows the recompute, such as step times.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from ..formulas.reuse import load_advantage, prefix_recompute_time
from ..serving.tiers import KvTier
from .breakeven import Root, Symbolic, positive_value, solved, symbolic_form

#: Bandwidths among which a numeric root is looked for, in byte/second.
LEAST_RATE, MOST_RATE = 1e5, 1e15
_POINTS = 64
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
    """Return the shortest prefix from which loading pays, from one piece of the tier to ``longest`` tokens.

    None where loading never pays, or only up to some length; the regime says which.
    """
    low = min(tier.chunk_tokens, longest)

    def pays(tokens: int) -> bool:
        return recompute(tokens) > tier.read_s(tokens)

    points = sorted({round(low * (longest / low) ** (i / _POINTS)) for i in range(_POINTS + 1)})
    found = [pays(point) for point in points]
    if all(found):
        return Root(float(low), f"loading pays at every length from one piece, {low:,} tokens", low, longest)
    if not any(found):
        return Root(None, f"computing is faster at every length up to {longest:,} tokens")
    last = max(i for i, each in enumerate(found) if not each)
    if last == len(points) - 1:
        ends = points[max(i for i, each in enumerate(found) if each)]
        return Root(None, f"loading pays up to about {ends:,} tokens, and not for longer prefixes")
    left, right = points[last], points[last + 1]
    while right - left > 1:
        middle = (left + right) // 2
        left, right = (left, middle) if pays(middle) else (middle, right)
    shorter = ", and for some shorter prefixes" if any(found[:last]) else ""
    return Root(float(right), f"loading pays from here to {longest:,} tokens{shorter}", right, longest)


def tokens_form(parabola: Parabola, tier: KvTier) -> Symbolic:
    """Return the closed form of the shortest prefix from which loading pays, the number of pieces frozen."""
    values, symbols = _values(tier, parabola), load_advantage.symbols()
    numbers = {symbols[name]: value for name, value in values.items()}
    form, count, forms = _pieces_frozen("prefix", parabola.growth_s == 0)
    chunk, each = tier.chunk_tokens, tier.per_chunk_s

    def root_with(pieces: float) -> tuple[Any, float] | None:
        for candidate in forms:
            value = positive_value(candidate, {**numbers, count: pieces})
            if value is not None and value >= 1 and _begins(values, value):
                return candidate, value
        return None

    if not each:
        found = root_with(1)
        if found is None:
            return symbolic_form(form, Root(None, _without_root(values)))
        return symbolic_form(found[0], Root(found[1], "the bytes alone: pieces cost nothing", 0.0, None))
    spread = {**values, "latency": tier.latency_s + each / 2}
    spread["kv_bytes_per_token"] += each / chunk * tier.read_bytes_per_s
    spread["per_chunk"] = 0.0
    guess = _smooth_root(spread)
    for pieces in range(max(1, math.ceil(guess / chunk) - 3), math.ceil(guess / chunk) + 4):
        found = root_with(pieces)
        if found is not None and (pieces - 1) * chunk < found[1] <= pieces * chunk:
            regime = f"n = {pieces} piece{'s' if pieces > 1 else ''} of {chunk} tokens"
            return symbolic_form(found[0], Root(found[1], regime, (pieces - 1) * chunk, pieces * chunk))
    return symbolic_form(form, Root(None, "no root inside any number of pieces: it is a step between two"))


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
    if _advantage(values, 1.0) > 0:
        return "loading pays at every length"
    return "computing is faster at every length"


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
