"""Straight-line code from a function of numbers: called once with noted numbers, compiled, called thousands of times.

An evaluator asks for the same step over and over with other tokens and contexts, while model, GPU and fits stay
what they are. :class:`Specialised` runs the ordinary function once with numbers that note every operation;
whatever does not depend on them is folded. Where the function branches on its arguments the branch taken is noted
as a guard: arguments that would have gone another way are traced anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

Number = int | float
#: Traces kept of one function; arguments that fit none of them call the function itself.
MOST_TRACES = 24


class Tape:
    """The lines of code noted so far; equal expressions are computed once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.known: dict[str, str] = {}

    def note(self, expression: str, value: Any) -> Noted:
        name = self.known.get(expression)
        if name is None:
            name = self.known[expression] = f"v{len(self.known)}"
            self.lines.append(f"{name} = {expression}")
        return Noted(self, name, value)

    def guard(self, expression: str, taken: bool) -> bool:
        line = f"if {'not ' if taken else ''}({expression}): return None"
        if line not in self.known:
            self.known[line] = line
            self.lines.append(line)
        return taken

    def extreme(self, name: str, left: str, right: str) -> str:
        """Return the expression of the larger ("maximum") or smaller ("minimum") of two."""
        sign = ">=" if name == "maximum" else "<="
        return f"{left} if {left} {sign} {right} else {right}"


def text(x: Any) -> str:
    """What stands for a number in an expression."""
    return x.name if isinstance(x, Noted) else repr(x)


def _value(x: Any) -> Any:
    return x.value if isinstance(x, Noted) else x


def _arithmetic(sign: str, compute: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """Return the operator and its reflection."""

    def forward(self: Noted, other: Any) -> Any:
        return _noted(self.tape, sign, self, other, compute)

    def backward(self: Noted, other: Any) -> Any:
        return _noted(self.tape, sign, other, self, compute)

    return forward, backward


#: (sign, side) -> the constant that leaves the other operand as it is.
_NEUTRAL = {
    ("+", "left"): 0,
    ("+", "right"): 0,
    ("-", "right"): 0,
    ("*", "left"): 1,
    ("*", "right"): 1,
    ("/", "right"): 1,
}


def _noted(tape: Tape, sign: str, a: Any, b: Any, compute: Callable[[Any, Any], Any]) -> Any:
    for side, constant, other in (("left", a, b), ("right", b, a)):
        if isinstance(constant, Noted):
            continue
        if _NEUTRAL.get((sign, side)) == constant and (sign, side) in _NEUTRAL:
            return other
        if sign == "*" and constant == 0:
            return 0.0
    return tape.note(f"{text(a)} {sign} {text(b)}", compute(_value(a), _value(b)))


def _comparison(sign: str, compute: Callable[[Any, Any], bool]) -> Any:
    def compare(self: Noted, other: Any) -> bool:
        return self.tape.guard(f"{self.name} {sign} {text(other)}", compute(self.value, _value(other)))

    return compare


class Noted:
    """A number that notes what is done with it. Comparisons answer for the number at hand and leave a guard."""

    __slots__ = ("name", "tape", "value")
    __hash__ = object.__hash__

    def __init__(self, tape: Tape, name: str, value: Any) -> None:
        self.tape, self.name, self.value = tape, name, value

    __add__, __radd__ = _arithmetic("+", lambda a, b: a + b)
    __sub__, __rsub__ = _arithmetic("-", lambda a, b: a - b)
    __mul__, __rmul__ = _arithmetic("*", lambda a, b: a * b)
    __truediv__, __rtruediv__ = _arithmetic("/", lambda a, b: a / b)
    __floordiv__, __rfloordiv__ = _arithmetic("//", lambda a, b: a // b)
    __mod__, __rmod__ = _arithmetic("%", lambda a, b: a % b)
    __pow__, __rpow__ = _arithmetic("**", lambda a, b: a**b)
    __lt__ = _comparison("<", lambda a, b: a < b)
    __le__ = _comparison("<=", lambda a, b: a <= b)
    __gt__ = _comparison(">", lambda a, b: a > b)
    __ge__ = _comparison(">=", lambda a, b: a >= b)
    __eq__ = _comparison("==", lambda a, b: a == b)
    __ne__ = _comparison("!=", lambda a, b: a != b)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __neg__(self) -> Noted:
        return self.tape.note(f"-{self.name}", -self.value)

    def __bool__(self) -> bool:
        return self.tape.guard(f"{self.name} != 0", bool(self.value))

    def unary(self, name: str) -> Noted:
        """Note a function of :mod:`costmodel.ops` by its name."""
        return self.tape.note(f"{name}({self.name})", _FUNCTIONS[name](self.value))

    def extreme(self, name: str, a: Any, b: Any) -> Noted:
        """Note the larger ("maximum") or smaller ("minimum") of two numbers, of which this is one."""
        pick = max if name == "maximum" else min
        return self.tape.note(self.tape.extreme(name, text(a), text(b)), pick(_value(a), _value(b)))


_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
}


class Specialised:
    """A function of plain numbers as compiled code: the same results, many times faster after the first call.

    ``function`` may use arithmetic, comparisons and :mod:`costmodel.ops`; it must not convert its arguments.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.traces: list[Callable[..., Any]] = []

    def __call__(self, *arguments: Number) -> Any:
        """Return the function's value."""
        for trace in self.traces:
            found = trace(*arguments)
            if found is not None:
                return found
        if len(self.traces) < MOST_TRACES:
            self.traces.insert(0, _trace(self.function, arguments))
        return self.function(*arguments)


def _trace(function: Callable[..., Any], arguments: tuple[Number, ...]) -> Callable[..., Any]:
    tape = Tape()
    names = [f"x{i}" for i in range(len(arguments))]
    answer = function(*(Noted(tape, name, value) for name, value in zip(names, arguments)))
    lines = [*tape.lines, f"return {text(answer)}"]
    code = f"def traced({', '.join(names)}):\n    " + "\n    ".join(lines)
    space: dict[str, Any] = {**_FUNCTIONS, "inf": math.inf}
    exec(compile(code, f"<{getattr(function, '__name__', 'function')}>", "exec"), space)
    made: Callable[..., Any] = space["traced"]
    return made
