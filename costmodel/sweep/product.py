"""A grid: axes and the number of a point in them. No point is kept; any range of them is a few lines of arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from .axes import Axis

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Piece(NamedTuple):
    """Consecutive points that share one combination of the outer axes: its values, and columns of the inner ones."""

    outer: dict[str, Any]
    inner: dict[str, NDArray[Any]]
    points: int


@dataclass(frozen=True)
class Grid:
    """Every combination of the values of axes; the last axis varies fastest.

    ``outer`` axes say what is evaluated (a model on a GPU), ``inner`` ones are numbers that go in as arrays.
    """

    outer: tuple[Axis, ...]
    inner: tuple[Axis, ...]

    @property
    def axes(self) -> tuple[Axis, ...]:
        """All axes, the slowest first."""
        return self.outer + self.inner

    @property
    def points(self) -> int:
        """How many combinations there are."""
        return math.prod(len(axis) for axis in self.axes)

    def pieces(self, start: int, stop: int) -> Iterator[Piece]:
        """Yield points ``start`` to ``stop`` (not included), in order."""
        each = math.prod(len(axis) for axis in self.inner)
        while start < stop:
            combination, first = divmod(start, each)
            last = min(each, first + stop - start)
            yield Piece(self._outer(combination), self._inner(first, last), last - first)
            start += last - first

    def _outer(self, place: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for axis in reversed(self.outer):
            place, digit = divmod(place, len(axis))
            found[axis.name] = axis.values[digit]
        return {axis.name: found[axis.name] for axis in self.outer}

    def _inner(self, first: int, last: int) -> dict[str, NDArray[Any]]:
        import numpy as np

        places = np.arange(first, last)
        found: dict[str, NDArray[Any]] = {}
        for axis in reversed(self.inner):
            if places[0] == places[-1]:  # places grow: of slow axes, most blocks see one value
                places = places[:1]
            rest = places // len(axis)
            column = axis.at(places - rest * len(axis))
            found[axis.name] = column if len(column) == last - first else np.repeat(column, last - first)
            places = rest
        return {axis.name: found[axis.name] for axis in self.inner}
