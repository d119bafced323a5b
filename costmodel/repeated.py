"""Arguments of few values, each of which stands at many points, as those of a grid do."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[Any]

#: Values are told apart by a table of all whole numbers between them: of at most so many for each point.
MOST_SPAN = 8
#: Points for each value from which on it pays to compute values once and to look them up.
LEAST_REPEATED = 4


class Repeated:
    """Points, in one row, whose numbers are ``values[place]``."""

    def __init__(
        self, values: Values, place: Values, numbers: Values, known: dict[Any, Any] | None = None
    ) -> None:
        self.values, self.place, self.numbers = values, place, numbers
        self.shape, self.size = place.shape, place.size
        self._known: dict[Any, Any] = {} if known is None else known

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, part: Any) -> Any:
        """Return one point's value, or some of the points: as numbers, where these are no more than the values."""
        numbers = self.numbers[part]
        if numbers.size <= len(self.values):
            return numbers
        return Repeated(self.values, self.place[part], numbers, self._known)

    def through(self, function: Callable[[Values], Any]) -> Any:
        """Return what a function makes of the values, called once for all parts of the points."""
        if function not in self._known:
            self._known[function] = function(self.values)
        return self._known[function]

    def at_points(self, found: Values) -> Values:
        """Lay what was found of each value over the points."""
        return found.take(self.place, mode="clip")  # none is outside: it is the quickest mode


def repeated(column: Values) -> Values | Repeated:
    """Return a column of whole numbers as an argument: its one value, its few values, or the numbers as they are."""
    import numpy as np

    numbers = column.astype(np.float64)
    if len(column):
        low = int(column.min())
        span = int(column.max()) - low + 1
        if span == 1:
            return numbers[:1]
        apart = _apart(column - low, span) if span <= MOST_SPAN * len(column) else None
        if apart:
            return Repeated((apart.values + low).astype(np.float64), apart.place, numbers)
    return numbers


def together(arguments: Sequence[Values | Repeated]) -> tuple[list[Values], Values] | None:
    """Return the combinations of values that stand together at points, and where; None where they are not few."""
    many = [x for x in arguments if isinstance(x, Repeated)]
    if not many or any(len(x) > 1 for x in arguments if not isinstance(x, Repeated)):
        return None
    span = math.prod(len(x.values) for x in many)
    if span > MOST_SPAN * len(many[0]):
        return None
    number: Values = many[0].place
    for x in many[1:]:
        number = number * len(x.values) + x.place
    apart = _apart(number, span)
    if apart is None:
        return None
    rest, columns = apart.values, []
    for argument in reversed(arguments):
        if isinstance(argument, Repeated):
            columns.append(argument.values[rest % len(argument.values)])
            rest = rest // len(argument.values)
        else:
            columns.append(argument)
    return columns[::-1], apart.place


class _Apart(NamedTuple):
    values: Values
    place: Values


def _apart(numbers: Values, span: int) -> _Apart | None:
    """Tell numbers from 0 to a span apart, if each stands at several points."""
    import numpy as np

    there = np.zeros(span, dtype=bool)
    there[numbers] = True
    values = np.flatnonzero(there)
    if len(values) * LEAST_REPEATED > len(numbers):
        return None
    places = np.empty(span, dtype=np.intp)
    places[values] = np.arange(len(values))
    return _Apart(values, places.take(numbers))
