"""Questions that are answered point by point: exact by construction, thousands of points a second."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..answer import About
from ..errors import CostmodelError
from .asked import Answers, Columns, constant, refusal
from .axes import AxisKind


@dataclass(frozen=True)
class Pointwise:
    """A question whose command is called for each point: ``ask`` takes its options, ``read`` the figures of an answer.

    ``needed``: columns without which it cannot be asked, by option. ``refused`` says of an answer why it is none.
    """

    name: str
    outer: tuple[AxisKind, ...]
    inner: tuple[AxisKind, ...]
    figures: tuple[str, ...]
    needed: Mapping[str, str]
    ask: Callable[..., Any]
    read: Callable[[Any, str], Any]
    refused: Callable[[Any], str] = lambda answer: ""

    def problems(self, axes: Mapping[str, Any]) -> list[str]:
        """Say what is missing."""
        return [
            f"a sweep of {self.name} needs {option}"
            for option, name in self.needed.items()
            if name not in axes
        ]

    def answers(self, outer: Mapping[str, Any], inner: Columns, points: int) -> Answers:
        """Ask for each point."""
        import numpy as np

        figures = {name: np.full(points, np.nan) for name in self.figures}
        reasons = constant("", points)
        numbers = {name: column.tolist() for name, column in inner.items()}
        for place in range(points):
            given = {name: column[place] for name, column in numbers.items()}
            try:
                found = self.ask(**outer, **given)
            except CostmodelError as error:
                reasons[place] = refusal(error).reason
                continue
            reasons[place] = self.refused(found)
            for name in self.figures:
                value = self.read(found, name)
                figures[name][place] = np.nan if value is None else value
        return Answers(figures, reasons)

    def about(self, row: Mapping[str, Any]) -> About:
        """Return what the figures of a point rest on."""
        names = [kind.column for kind in (*self.outer, *self.inner)]
        found: About = self.ask(**{name: row[name] for name in names if row.get(name) is not None}).about
        return found
