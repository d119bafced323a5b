"""Where local and remote prefill cost the same: numbers and closed forms from the one traced formula.

The inequality is :data:`costmodel.formulas.threshold.remote_advantage`. ``numeric_root`` walks its pieces
with numbers only; ``closed_form`` freezes the active piece, solves it with sympy and says where it holds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..formula import Formula
from ..formulas.threshold import remote_advantage

#: What can be solved for: the option's word, the formula's parameter, its unit.
UNKNOWNS: dict[str, tuple[str, str]] = {
    "tokens": ("uncached", "tokens"),
    "bandwidth": ("link_bytes_per_s", "bytes_per_s"),
    "batch": ("batch", "decodes"),
    "chunk": ("chunk", "tokens"),
    "wait": ("wait", "s"),
}
_MOST_CHUNKS = 512

Values = dict[str, float]


@dataclass(frozen=True)
class Root:
    """A root: the value, or None with the regime saying why; where the piece it was solved on holds."""

    value: float | None
    regime: str
    valid_from: float | None = None
    valid_to: float | None = None


@dataclass(frozen=True)
class Symbolic:
    """A closed form on one piece of the formula: text, LaTeX, its value and the piece."""

    text: str
    latex: str
    root: Root


def advantage(values: Values, formula: Formula = remote_advantage) -> float:
    """Seconds that remote prefill saves at these values; negative where local prefill is cheaper."""
    return float(formula(**{name: values[name] for name in formula.parameters}))


def numeric_root(unknown: str, values: Values, low: float, high: float) -> Root:
    """Return where the advantage of remote prefill changes sign between ``low`` and ``high``.

    For tokens, pieces end at multiples of the chunk: the root is the smallest length from which remote pays,
    which may be such an end; there is none where short prompts pay and longer ones do not. Elsewhere the
    range is scanned in even ratios and the sign change bisected.
    """
    parameter, unit = UNKNOWNS[unknown]

    def at(x: float) -> float:
        return advantage({**values, parameter: x})

    edges = _edges(unknown, values, low, high)
    pays = at(edges[0]) > 0
    found = _first_change(at, edges, pays, unknown)
    if unknown == "tokens" and pays:
        if found is None:
            return Root(0.0, "remote prefill pays at every length", 0.0, high)
        return Root(None, f"remote prefill pays for short prompts, but not at {found.value:g} tokens")
    if found is None:
        side = "remote" if pays else "local"
        return Root(None, f"{side} prefill is cheaper throughout {low:g} .. {high:g} {unit}")
    if unknown == "tokens" and found.value is not None:
        beyond = [found.value * (1 + 1e-9), *(edge for edge in edges if edge > found.value * (1 + 1e-9))]
        again = _first_change(at, beyond, True, unknown)
        if again is not None:
            return replace(
                found, regime=f"{found.regime}; local prefill pays again from {again.value:g} {unit}"
            )
    return found


def _first_change(
    at: Callable[[float], float], edges: Sequence[float], pays: bool, unknown: str
) -> Root | None:
    """Return the first place where remote prefill starts or ceases to pay, jumps at edges included."""
    unit = UNKNOWNS[unknown][1]
    for left, right in itertools.pairwise(edges):
        inside = math.nextafter(left, right) if unknown == "tokens" else left
        if (at(inside) > 0) != pays:
            return Root(left, f"the step at {left:g} {unit}", left, left)
        if (at(right) > 0) != pays:
            return Root(bisected(at, inside, right), f"{left:g} to {right:g} {unit}", left, right)
    return None


def _edges(unknown: str, values: Values, low: float, high: float) -> list[float]:
    if unknown == "tokens":
        chunk = values["chunk"]
        count = min(_MOST_CHUNKS, math.ceil(high / chunk))
        return [low] + [chunk * i for i in range(1, count) if chunk * i > low] + [high]
    points = 60
    return [low * (high / low) ** (i / points) for i in range(points + 1)]


def bisected(function: Any, low: float, high: float) -> float:
    sign = function(low) > 0
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if (function(middle) > 0) == sign else (low, middle)
    return high


def closed_form(unknown: str, values: Values, *, continuous: bool = False) -> Symbolic:
    """Return the closed form for ``unknown`` on the piece that holds at its own root.

    The number of chunks is frozen and the root accepted only where that many chunks are taken;
    ``continuous`` (always so for the chunk itself) replaces the number of chunks by u / c instead.
    """
    import sympy

    parameter, unit = UNKNOWNS[unknown]
    symbols = remote_advantage.symbols()
    traced = remote_advantage.expression()
    numbers = {
        symbols[name]: value for name, value in values.items() if name in symbols and name != parameter
    }
    count = sympy.Symbol("n", positive=True)
    smooth = continuous or unknown == "chunk"
    piece = traced.replace(sympy.ceiling, (lambda inner: inner) if smooth else (lambda inner: count))
    forms = solved(piece, symbols[parameter])
    if smooth:
        for form in forms:
            value = positive_value(form, numbers)
            if value is not None:
                return symbolic_form(form, Root(value, "chunks counted continuously, n = u / c"))
        return symbolic_form(forms[0] if forms else None, Root(None, "no positive root with n = u / c"))
    chunk = values["chunk"]
    by_count = [(form, form.subs(numbers)) for form in forms]
    ways = range(1, _MOST_CHUNKS) if unknown == "tokens" else (math.ceil(values["uncached"] / chunk),)
    for n in ways:
        regime = f"n = {n} chunk{'s' if n > 1 else ''}"
        for form, reduced in by_count:
            value = positive_value(reduced, {count: n})
            if value is None:
                continue
            if unknown != "tokens":
                return symbolic_form(form, Root(value, regime))
            if (n - 1) * chunk < value <= n * chunk and _begins(values, value):
                return symbolic_form(form, Root(value, regime, (n - 1) * chunk, n * chunk))
    return symbolic_form(forms[0] if forms else None, Root(None, f"no root in {unit} on any piece"))


def _begins(values: Values, uncached: float) -> bool:
    """Say whether remote prefill begins to pay at this length, rather than ceases to."""
    before, after = (advantage({**values, "uncached": uncached * (1 + step)}) for step in (-1e-6, 1e-6))
    return before < after


def solved(piece: Any, target: Any) -> list[Any]:
    """Solve piece = 0. What is linear in the unknown or in its inverse keeps the shape of the formula."""
    import sympy

    inverse = sympy.Symbol("inverse", positive=True)
    for symbol, expression in ((target, piece), (inverse, piece.subs(target, 1 / inverse))):
        slope = sympy.diff(expression, symbol)
        if slope != 0 and symbol not in slope.free_symbols:
            root = -expression.subs(symbol, 0) / slope
            return [root if symbol is target else 1 / root]
    return list(sympy.solve(piece, target))


def positive_value(form: Any, numbers: dict[Any, float]) -> float | None:
    """Return a form's value if it is a positive number."""
    found = form.subs(numbers)
    if found.free_symbols or not found.is_real:
        return None
    value = float(found)
    return value if math.isfinite(value) and value > 0 else None


def symbolic_form(form: Any, root: Root) -> Symbolic:
    import sympy

    from ..quantities import QUANTITIES

    if form is None:
        return Symbolic("", "", root)
    names = {s: QUANTITIES[s.name].latex for s in form.free_symbols if s.name in QUANTITIES}
    return Symbolic(str(form), sympy.latex(form, symbol_names=names), root)
