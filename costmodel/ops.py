"""Elementary functions that pick ``math``, ``numpy`` or ``sympy`` by their operands.

Formula bodies use these instead of ``math`` so that one body serves numbers, arrays and symbols.
Neither numpy nor sympy is imported here: an operand that needs one has already imported it.
"""

from __future__ import annotations

import math
import sys
from typing import Any

Scalar = (int, float)
#: Exactly these take the short way; evaluators call little else.
_PLAIN = frozenset(Scalar)


def _symbolic(x: Any) -> bool:
    return hasattr(x, "free_symbols")


def _unary(x: Any, scalar: Any, array_name: str, symbol_name: str) -> Any:
    if isinstance(x, Scalar):
        return scalar(x)
    if hasattr(x, "unary"):  # a number that notes what is done with it: see specialise
        return x.unary(array_name)
    if _symbolic(x):
        return getattr(sys.modules["sympy"], symbol_name)(x)
    return getattr(sys.modules["numpy"], array_name)(x)


def ceil(x: Any) -> Any:
    """Smallest whole number not below ``x``, as a float for scalars."""
    if type(x) in _PLAIN:
        return float(math.ceil(x))
    return _unary(x, lambda v: float(math.ceil(v)), "ceil", "ceiling")


def floor(x: Any) -> Any:
    """Largest whole number not above ``x``, as a float for scalars."""
    return _unary(x, lambda v: float(math.floor(v)), "floor", "floor")


def sqrt(x: Any) -> Any:
    """Square root."""
    return _unary(x, math.sqrt, "sqrt", "sqrt")


def exp(x: Any) -> Any:
    """Exponential."""
    return _unary(x, math.exp, "exp", "exp")


def log(x: Any) -> Any:
    """Natural logarithm."""
    return _unary(x, math.log, "log", "log")


def _extreme(a: Any, b: Any, scalar: Any, array_name: str, symbol_name: str) -> Any:
    if isinstance(a, Scalar) and isinstance(b, Scalar):
        return scalar(a, b)
    for x in (a, b):
        if hasattr(x, "extreme"):
            return x.extreme(array_name, a, b)
    if _symbolic(a) or _symbolic(b):
        return getattr(sys.modules["sympy"], symbol_name)(a, b)
    return getattr(sys.modules["numpy"], array_name)(a, b)


def maximum(a: Any, b: Any) -> Any:
    """The larger operand, element by element for arrays."""
    if type(a) in _PLAIN and type(b) in _PLAIN:
        return max(a, b)
    return _extreme(a, b, max, "maximum", "Max")


def minimum(a: Any, b: Any) -> Any:
    """The smaller operand, element by element for arrays."""
    if type(a) in _PLAIN and type(b) in _PLAIN:
        return min(a, b)
    return _extreme(a, b, min, "minimum", "Min")
