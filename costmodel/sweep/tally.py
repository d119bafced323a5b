"""What is told of a sweep: how many points were refused and why, the extremes of each figure, the first rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from .blocks import REASON, REFUSED

if TYPE_CHECKING:
    from .blocks import Block

#: Rows that are shown, and reasons (of a figure's texts: values) that are told apart.
MOST_ROWS, MOST_TOLD = 10, 50
#: Reasons that are counted apart; sentences with figures of their points may be as many as points.
MOST_COUNTED = 1000
OTHERS = "others"
Row = dict[str, Any]


class End(NamedTuple):
    """An extreme value and the row that has it, the first of equal ones."""

    value: float
    row: Row


@dataclass
class Tally:
    """Counts of blocks, added in order."""

    points: int = 0
    refused: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    texts: dict[str, Counter[str]] = field(default_factory=dict)
    least: dict[str, End] = field(default_factory=dict)
    most: dict[str, End] = field(default_factory=dict)
    first: list[Row] = field(default_factory=list)

    def add(self, block: Block, figures: tuple[str, ...]) -> None:
        """Count a block; ``figures``: its columns that are answers."""
        import numpy as np

        points = len(block[REFUSED])
        for place in range(min(points, MOST_ROWS - len(self.first))):
            self.first.append(row_of(block, place))
        self.points += points
        refused = int(np.count_nonzero(block[REFUSED]))
        self.refused += refused
        if refused:
            _count(self.reasons, Counter(block[REASON][block[REFUSED]].tolist()))
        for name in figures if refused < points else ():
            column = block[name]
            if column.dtype == object:
                told = column[~block[REFUSED]].tolist() if refused else column.tolist()
                counts = Counter(value for value in told if value is not None)
                _count(self.texts.setdefault(name, Counter()), counts)
            else:
                self._stretch(name, block, column)

    def _stretch(self, name: str, block: Block, column: Any) -> None:
        import numpy as np

        if np.isnan(column).all():
            return
        low, high = int(np.nanargmin(column)), int(np.nanargmax(column))
        if name not in self.least or column[low] < self.least[name].value:
            self.least[name] = End(float(column[low]), row_of(block, low))
        if name not in self.most or column[high] > self.most[name].value:
            self.most[name] = End(float(column[high]), row_of(block, high))

    def merge(self, later: Tally) -> None:
        """Add the counts of later blocks."""
        self.points += later.points
        self.refused += later.refused
        _count(self.reasons, later.reasons)
        for name, counts in later.texts.items():
            _count(self.texts.setdefault(name, Counter()), counts)
        for name, end in later.least.items():
            if name not in self.least or end.value < self.least[name].value:
                self.least[name] = end
        for name, end in later.most.items():
            if name not in self.most or end.value > self.most[name].value:
                self.most[name] = end
        self.first += later.first[: MOST_ROWS - len(self.first)]


def _count(counts: Counter[str], more: Counter[str]) -> None:
    for text, number in more.items():
        counts[text if text in counts or len(counts) < MOST_COUNTED else OTHERS] += number


def row_of(block: Block, place: int) -> Row:
    """Return a point of a block as a mapping; what it has no figure for is None."""
    found = {name: column[place] for name, column in block.items()}
    plain = {name: value.item() if hasattr(value, "item") else value for name, value in found.items()}
    return {name: None if value != value or value == "" else value for name, value in plain.items()}


def told(counts: Counter[str]) -> dict[str, int]:
    """Return counts, the most frequent first; those beyond some, and those not counted apart, together."""
    apart = Counter({text: number for text, number in counts.items() if text != OTHERS})
    common = apart.most_common(MOST_TOLD)
    rest = sum(counts.values()) - sum(number for _, number in common)
    return dict(common) | ({OTHERS: rest} if rest else {})
