"""What a formula is: one ordinary function, written once, that serves numbers, arrays and symbols.

``@formula`` records unit, source and assumptions, and refuses parameter names that
:mod:`costmodel.quantities` does not define. Calling the formula evaluates it; ``expression`` traces the same
body with sympy symbols, from which LaTeX, derivatives and closed-form roots are taken.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from .errors import unknown
from .quantities import QUANTITIES

Body = Callable[..., Any]

BOOK: dict[str, Formula] = {}
#: Types that need no widening.
_PLAIN = frozenset((float, int))


class Formula:
    """A documented function of quantities. ``function`` is the body; everything else is derived from it."""

    def __init__(
        self,
        function: Body,
        unit: str,
        source: str,
        assumes: tuple[str, ...],
        symbol: str,
        structural: Mapping[str, int],
    ) -> None:
        self.function = function
        self.name = function.__name__
        self.unit = unit
        self.source = source
        self.assumes = assumes
        self.symbol = symbol
        self.structural = dict(structural)
        self.parameters: tuple[str, ...] = tuple(inspect.signature(function).parameters)
        self.constants: dict[str, float] = {
            name: parameter.default
            for name, parameter in inspect.signature(function).parameters.items()
            if parameter.default is not inspect.Parameter.empty
        }
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__module__ = function.__module__
        self.__wrapped__ = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate the body. Integer arrays are widened first: int64 products overflow silently."""
        if not _PLAIN.issuperset(map(type, args)) or (
            kwargs and not _PLAIN.issuperset(map(type, kwargs.values()))
        ):
            return self.function(*map(_widen, args), **{k: _widen(v) for k, v in kwargs.items()})
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<formula {self.name} [{self.unit}]>"

    def symbols(self) -> dict[str, Any]:
        """Return a positive sympy symbol for each parameter that is not structural."""
        import sympy

        return {p: sympy.Symbol(p, positive=True) for p in self.parameters if p not in self.structural}

    def expression(self, *, keep_constants: bool = False) -> Any:
        """Trace the body: a sympy expression in the parameters' symbols.

        ``keep_constants`` leaves dimensioned constants (parameters with a default) as symbols, which is
        what the check of units needs; otherwise their values stand in the expression.
        """
        import sympy

        given: dict[str, Any] = self.symbols()
        if not keep_constants:
            given |= {name: sympy.nsimplify(value) for name, value in self.constants.items()}
        return sympy.sympify(self.function(**given, **self.structural))

    def latex(self) -> str:
        """Return the formula as LaTeX, with the symbols of the table of quantities."""
        import sympy

        names = {symbol: QUANTITIES[name].latex for name, symbol in self.symbols().items()}
        return f"{self.symbol} = {sympy.latex(self.expression(), symbol_names=names)}"


def _widen(value: Any) -> Any:
    kind = getattr(getattr(value, "dtype", None), "kind", "f")
    return value.astype(float) if kind in "iu" else value


def formula(
    *,
    unit: str,
    source: str,
    symbol: str,
    assumes: tuple[str, ...] = (),
    structural: Mapping[str, int] | None = None,
) -> Callable[[Body], Formula]:
    """Register a function as a formula of the book.

    Parameters
    ----------
    unit: of the result, in byte, flop, second ("flop/byte", "1/second", "1").
    source: paper, measurement or derivation.
    symbol: LaTeX of the result.
    assumes: what must hold, one sentence each.
    structural: parameters that shape the expression (a number of servers) and the value used for tracing.

    Raises TypeError for a parameter that the table of quantities does not define, or a second formula of
    the same name.
    """

    def register(function: Body) -> Formula:
        made = Formula(function, unit, source, assumes, symbol, structural or {})
        for name in made.parameters:
            if name not in QUANTITIES:
                raise TypeError(f"{made.name}: {unknown('quantity', name, QUANTITIES)}")
        if made.name in BOOK:
            raise TypeError(f"{made.name} is already in the book")
        BOOK[made.name] = made
        return made

    return register
