"""The same as :mod:`costmodel.specialise` for arrays: one function of numbers, thousands of points at once.

The ordinary function runs once with the numbers of one point, which note every operation; numpy repeats them for all
points. Where the function branched, points that would have gone the other way form a group of their own, for which it
is run again with one of them. What rests on one argument alone is code of its own, so that of an argument of few
values (:class:`costmodel.repeated.Repeated`) it is computed once for each.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .repeated import Repeated, together
from .specialise import MOST_TRACES, Noted, Tape, text

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Values = NDArray[Any]
    Argument = Values | Repeated
    #: Values, and where the guards that rest on the same arguments hold (None: there are none).
    Found = tuple[Any, Values | None]

#: Points that go through a trace together: their intermediate values stay in the cache.
BLOCK = 4096
#: Operations that are done again rather than looked up.
CHEAP = 2
_NAME = re.compile(r"\b[vx]\d+\b")


class _Line(NamedTuple):
    """A line of code: a name and what it stands for."""

    name: str
    expression: str

    @property
    def used(self) -> list[str]:
        """Names in the expression."""
        return _NAME.findall(self.expression)


class _ArrayTape(Tape):
    """Lines of code over arrays. A guard does not leave: it is a value that tells where it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.guards: dict[str, None] = {}

    def guard(self, expression: str, taken: bool) -> bool:
        held = f"({expression})" if taken else f"~({expression})"
        self.guards[self.note(held, None).name] = None
        return taken

    def extreme(self, name: str, left: str, right: str) -> str:
        return f"{name}({left}, {right})"

    def code(self, names: Sequence[str], answer: str) -> str:
        """Source of a function ``of_NAME`` of each name alone, and of ``joint``, of what these find.

        Each returns values and where its guards hold. ``joint`` takes the numbers, and for each a function that lays
        what was found of its values over the points. Lines that neither the answer nor a guard needs are left out.
        """
        lines = _needed([_Line(*line.split(" = ", 1)) for line in self.lines], [answer, *self.guards])
        rests, size = {name: {name} for name in names}, dict.fromkeys(names, 0)
        for line in lines:
            rests[line.name] = set().union(*(rests[x] for x in line.used))
            size[line.name] = 1 + sum(size[x] for x in line.used)
        again = [line for line in lines if len(rests[line.name]) > 1 or size[line.name] <= CHEAP]
        joint = _needed(again, [answer, *(guard for guard in self.guards if len(rests[guard]) > 1)])
        done = {line.name for line in joint}
        handed = dict.fromkeys(x for line in (*joint, _Line("", answer)) for x in line.used)
        taken: dict[str, str] = {}
        functions = []
        for name in names:
            found = [x for x in handed if rests[x] == {name} and x not in done and x != name]
            taken |= {x: f"at_{name}(of_{x})" for x in found}
            held = [guard for guard in self.guards if rests[guard] == {name}]
            own = _needed([line for line in lines if rests[line.name] == {name}], [*found, *held])
            functions.append(_function(f"of_{name}", [name], own, f"[{', '.join(found)}]", held))
        parameters = [*names, *(f"at_{name}" for name in names), *(f"of_{x}" for x in taken)]
        held = [guard for guard in self.guards if len(rests[guard]) > 1]
        functions.append(_function("joint", parameters, list(_taking(joint, taken, answer)), answer, held))
        return "\n".join(functions)


def _needed(lines: Sequence[_Line], wanted: Sequence[str]) -> list[_Line]:
    """The lines that wanted values rest on."""
    needed, kept = set(wanted), []
    for line in reversed(lines):
        if line.name in needed:
            needed.update(line.used)
            kept.append(line)
    return kept[::-1]


def _taking(lines: Iterable[_Line], taken: dict[str, str], answer: str) -> Iterator[_Line]:
    """Lines, before each those that fetch what it is the first to use."""
    left = dict(taken)
    for line in lines:
        yield from (_Line(x, left.pop(x)) for x in line.used if x in left)
        yield line
    yield from (_Line(x, left.pop(x)) for x in [answer] if x in left)


def _function(
    name: str, parameters: Sequence[str], lines: Sequence[_Line], value: str, guards: Sequence[str]
) -> str:
    """Source of a function. Values are dropped after their last use: the next takes their memory, still cached."""
    held = " & ".join(guards) or "None"
    alive = {*_NAME.findall(f"{value} {held}"), *parameters}
    body = [f"return {value}, {held}"]
    for line in reversed(lines):
        last = sorted({*line.used} - alive)
        body.append(f"{line.name} = {line.expression}" + (f"; del {', '.join(last)}" if last else ""))
        alive.update(line.used)
    return f"def {name}({', '.join(parameters)}):\n    " + "\n    ".join(reversed(body))


class _Trace:
    """The code of one way through a function."""

    def __init__(self, alone: Sequence[Callable[[Values], Found]], joint: Callable[..., Found]) -> None:
        self.alone, self.joint = alone, joint

    def __call__(self, *arguments: Argument) -> Found:
        """Return values, and which of them hold (None: all)."""
        found: list[Any] = []
        held: Values | None = None
        for function, x in zip(self.alone, arguments):
            values, holds = x.through(function) if isinstance(x, Repeated) else function(x)
            found += values
            held = _both(held, holds, _layer(x))
        numbers = (x.numbers if isinstance(x, Repeated) else x for x in arguments)
        value, holds = self.joint(*numbers, *map(_layer, arguments), *found)
        return value, _both(held, holds, _same)


def _same(found: Values) -> Values:
    return found


def _layer(x: Argument) -> Callable[[Values], Values]:
    """What lays values found of an argument's values over the points."""
    return x.at_points if isinstance(x, Repeated) else _same


def _both(held: Values | None, holds: Values | None, lay: Callable[[Values], Values]) -> Values | None:
    """Where both guards hold; None: everywhere."""
    if holds is None or holds.all():
        return held
    return lay(holds) if held is None else held & lay(holds)


class ArraySpecialised:
    """A function of plain numbers for arrays: the values of calling it point by point, as float64.

    A branch at which numpy's arithmetic and Python's differ by the last bit may be taken either way.

    ``function`` may use arithmetic, comparisons and :mod:`costmodel.ops`; it must not convert its arguments.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.traces: list[_Trace] = []

    def __call__(self, *arguments: ArrayLike | Repeated) -> Values:
        """Return the function's values over the arguments, broadcast against each other.

        What depends only on arguments of one value is computed once, what depends on one of few values once for each.
        """
        import numpy as np

        given = [x if isinstance(x, Repeated) else np.asarray(x, dtype=np.float64) for x in arguments]
        shape = np.broadcast_shapes(*(x.shape for x in given))
        flat = [_flat(x, shape) for x in given]
        few = together(flat)
        if few is not None:
            combinations, places = few
            each: Values = self(*combinations)
            return each.take(places)
        found = np.empty(math.prod(shape))
        if len(found):
            with np.errstate(all="ignore"):  # of points that a guard leaves out
                self._fill(found, flat)
        return found.reshape(shape)

    def _fill(self, found: Values, arguments: list[Argument]) -> None:
        """Find the values of points: of all by the first trace, of those that it leaves by the next."""
        import numpy as np

        traces = [*self.traces]  # threads may be at it, too
        left: Values | None = None
        given, held = arguments, []
        for place in range(MOST_TRACES):
            new = place == len(traces)
            if new:
                traces.append(self._traced([float(x[0]) for x in given]))
            values = found if left is None else np.empty(len(left))
            missed = _in_blocks(traces[place], given, values)
            held.append(len(values) - len(missed))
            if (
                new and 0 in missed[:1]
            ):  # a last bit apart from itself: numpy's powers are not always Python's
                values[0] = self.function(*(float(x[0]) for x in given))
                missed = missed[1:]
            if left is not None:
                found[left] = values
            left = missed if left is None else left[missed]
            if not len(left):
                break
            given = [_some(x, missed) for x in given]
        traces.insert(0, traces.pop(held.index(max(held))))  # points to come are likely to go its way
        self.traces = traces
        for point in left if left is not None else ():
            found[point] = self.function(*(float(x[point if len(x) > 1 else 0]) for x in arguments))

    def _traced(self, point: list[float]) -> _Trace:
        """Trace the function at one point."""
        import numpy as np

        tape = _ArrayTape()
        names = [f"x{i}" for i in range(len(point))]
        answer = self.function(*(Noted(tape, name, value) for name, value in zip(names, point)))
        code = tape.code(names, text(answer))
        functions = {name: getattr(np, name) for name in ("ceil", "floor", "sqrt", "exp", "log")}
        space: dict[str, Any] = {**functions, "maximum": np.maximum, "minimum": np.minimum, "inf": math.inf}
        exec(compile(code, f"<{getattr(self.function, '__name__', 'function')} over arrays>", "exec"), space)
        return _Trace([space[f"of_{name}"] for name in names], space["joint"])


def _flat(x: Argument, shape: tuple[int, ...]) -> Argument:
    """One value, or as many as there are points."""
    import numpy as np

    if isinstance(x, Repeated):
        return x
    return (x if x.size == 1 else np.broadcast_to(x, shape)).ravel()


def _in_blocks(trace: _Trace, arguments: list[Argument], found: Values) -> Values:
    """Find values by a trace, and return the places of those that do not hold."""
    import numpy as np

    missed = [np.zeros(0, dtype=np.intp)]
    for start in range(0, len(found), BLOCK):
        part = slice(start, start + BLOCK)
        values, held = trace(*(_some(x, part) for x in arguments))
        found[part] = values
        if held is not None and not held.all():
            missed.append(start + np.flatnonzero(np.broadcast_to(~held, len(found[part]))))
    return np.concatenate(missed)


def _some(x: Argument, part: Any) -> Argument:
    """Some points of an argument; one value is that of all."""
    return x if len(x) == 1 else x[part]
