"""The same as :mod:`costmodel.specialise` for arrays: one function of numbers, thousands of points at once.

The ordinary function runs once with the numbers of one point, which note every operation; numpy repeats them for all
points. Where the function branched, points that would have gone the other way form a group of their own, for which it
is run again with one of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .specialise import MOST_TRACES, Noted, Tape, text

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Values = NDArray[Any]
    #: Takes the arguments, returns the values and which of them hold (None: all).
    Trace = Callable[..., tuple[Values, Values | None]]

#: Points that go through a trace together: their intermediate values stay in the cache.
BLOCK = 4096
_NAME = re.compile(r"\bv\d+\b")


class _ArrayTape(Tape):
    """Lines of code over arrays. A guard does not leave: it notes where it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.guards: list[str] = []

    def guard(self, expression: str, taken: bool) -> bool:
        held = f"({expression})" if taken else f"~({expression})"
        if held not in self.guards:
            self.guards.append(held)
        return taken

    def extreme(self, name: str, left: str, right: str) -> str:
        return f"{name}({left}, {right})"

    def code(self, names: list[str], answer: str) -> str:
        """Source of a function of ``names``; lines that neither the answer nor a guard needs are left out."""
        held = " & ".join(self.guards) or "None"
        needed = set(_NAME.findall(f"{answer} {held}"))
        kept: list[str] = []
        for line in reversed(self.lines):
            target, expression = line.split(" = ", 1)
            if target in needed:
                used = set(_NAME.findall(expression))
                last = sorted(
                    used - needed
                )  # dropped at once: the next value takes their memory, still cached
                kept.append(line + (f"; del {', '.join(last)}" if last else ""))
                needed |= used
        body = [*reversed(kept), f"return {answer}, {held}"]
        return f"def traced({', '.join(names)}):\n    " + "\n    ".join(body)


class ArraySpecialised:
    """A function of plain numbers for arrays: the values of calling it point by point, as float64.

    A branch at which numpy's arithmetic and Python's differ by the last bit may be taken either way.

    ``function`` may use arithmetic, comparisons and :mod:`costmodel.ops`; it must not convert its arguments.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.traces: list[Trace] = []

    def __call__(self, *arguments: ArrayLike) -> Values:
        """Return the function's values over the arguments, broadcast against each other.

        What depends only on arguments of one value is computed once.
        """
        import numpy as np

        given = [np.asarray(x, dtype=np.float64) for x in arguments]
        shape = np.broadcast_shapes(*(x.shape for x in given))
        flat = [(x if x.size == 1 else np.broadcast_to(x, shape)).ravel() for x in given]
        found = np.empty(math.prod(shape))
        with np.errstate(all="ignore"):  # of points that a guard leaves out
            for start in range(0, len(found), BLOCK):
                part = slice(start, start + BLOCK)
                found[part] = self._block([_some(x, part) for x in flat], len(found[part]))
        return found.reshape(shape)

    def _block(self, arguments: list[Values], points: int) -> Values:
        """Values of a few points: of all by the first trace, of those that it leaves by the next."""
        import numpy as np

        found = np.empty(points)
        left: Values | None = None
        for place in range(MOST_TRACES):
            given = arguments if left is None else [_some(x, left) for x in arguments]
            new = place == len(self.traces)
            if new:
                self.traces.append(self._traced([float(x[0]) for x in given]))
            values, held = self.traces[place](*given)
            found[... if left is None else left] = values
            if held is None or np.all(held):
                return found
            missed = np.flatnonzero(np.broadcast_to(~held, points if left is None else len(left)))
            if new and missed[0] == 0:  # a last bit apart from itself: numpy's powers are not always Python's
                found[0 if left is None else left[0]] = self.function(*(float(x[0]) for x in given))
                missed = missed[1:]
            left = missed if left is None else left[missed]
            if not len(left):
                return found
        assert left is not None
        for point in left:
            found[point] = self.function(*(float(x[point if len(x) > 1 else 0]) for x in arguments))
        return found

    def _traced(self, point: list[float]) -> Trace:
        """Trace the function at one point."""
        import numpy as np

        tape = _ArrayTape()
        names = [f"x{i}" for i in range(len(point))]
        answer = self.function(*(Noted(tape, name, value) for name, value in zip(names, point)))
        code = tape.code(names, text(answer))
        functions = {name: getattr(np, name) for name in ("ceil", "floor", "sqrt", "exp", "log")}
        space: dict[str, Any] = {**functions, "maximum": np.maximum, "minimum": np.minimum, "inf": math.inf}
        exec(compile(code, f"<{getattr(self.function, '__name__', 'function')} over arrays>", "exec"), space)
        made: Trace = space["traced"]
        return made


def _some(x: Values, part: Any) -> Values:
    """Some points of an argument; one value is that of all."""
    return x if len(x) == 1 else x[part]
