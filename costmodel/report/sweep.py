"""The page of ``costmodel sweep``: the grid, what was refused and why, extremes, the first rows."""

from __future__ import annotations

from collections.abc import Iterable

from ..questions.sweep import AxisTold, SweepAnswer
from .page import Block, Heading, Page, Table, shown

#: Reasons, and rows of a wide answer, that are shown without --detail.
_MOST_REASONS, _MOST_COLUMNS = 8, 12
#: Characters of a sentence, and of a cell, that are shown without --detail.
_LINE, _CELL = 110, 40


def page(answer: SweepAnswer, detail: bool) -> Page:
    """Return the page of an answer; ``detail`` shows every column, figure and reason."""
    blocks: list[Block] = [_told(answer), _axes(answer.axes)]
    if answer.reasons:
        blocks += [Heading("Refused"), _counts(answer.reasons, None if detail else _MOST_REASONS)]
    if answer.extremes:
        blocks += [Heading("Least and most"), _extremes(answer, detail)]
    for name, counts in answer.counts.items():
        if detail or not name.endswith("_reason"):
            blocks += [Heading(name), _counts(counts, None)]
    if answer.rows:
        blocks += [Heading("First rows"), _rows(answer, detail)]
    return Page(f"Sweep of {answer.question}: {answer.points:,} points", tuple(blocks), answer.about)


def _told(answer: SweepAnswer) -> str:
    answered = f"{answer.points - answer.refused:,} answered, {answer.refused:,} refused"
    return f"{answered}; {f'all in {answer.path}' if answer.path else 'none written (-o FILE)'}"


def _axes(axes: tuple[AxisTold, ...]) -> Table:
    rows = []
    for axis in axes:
        first, last = shown(axis.column, axis.first), shown(axis.column, axis.last)
        rows.append((axis.column, f"{axis.values:,}", first if axis.values == 1 else f"{first} .. {last}"))
    return Table(("axis", "values", "from .. to"), tuple(rows), (False, True, False))


def _counts(counts: dict[str, int], most: int | None) -> Table:
    kept = list(counts.items())[:most]
    rest = sum(counts.values()) - sum(count for _, count in kept)
    kept += [("others (--detail)", rest)] if rest else []
    rows = tuple((f"{count:,}", _cut(text or "(none)", most)) for text, count in kept)
    return Table(("points", "what"), rows, (True, False))


def _cut(text: str, most: int | None) -> str:
    """A sentence as far as a line goes; all of it under --detail."""
    return text if most is None or len(text) <= _LINE else text[: _LINE - 3] + "..."


def _extremes(answer: SweepAnswer, detail: bool) -> Table:
    """Each figure's ends, and where on the axes that vary they lie."""
    varied = [axis.column for axis in answer.axes if axis.values > 1]
    found = answer.extremes if detail else answer.extremes[:_MOST_COLUMNS]
    rows = []
    for one in found:
        for word, value, row in (("least", one.least, one.least_at), ("most", one.most, one.most_at)):
            at = ", ".join(f"{name} {shown(name, row[name])}" for name in varied)
            rows.append((one.figure, word, shown(one.figure, value), at))
    return Table(("figure", "", "value", "at"), tuple(rows), (False, False, True, False))


def _rows(answer: SweepAnswer, detail: bool) -> Table:
    """The first rows: the axes that vary, then figures, as far as a screen is wide."""
    fixed = {axis.column for axis in answer.axes if axis.values == 1}
    names = [name for name in answer.rows[0] if detail or name not in fixed]
    names = names if detail else _fewer(names)
    rows = tuple(tuple(_cell(name, row[name], detail) for name in names) for row in answer.rows)
    right = tuple(all(not isinstance(row[name], str) for row in answer.rows) for name in names)
    return Table(tuple(names), rows, right)


def _cell(name: str, value: object, detail: bool) -> str:
    text = shown(name, value)
    return text if detail or len(text) <= _CELL else text[: _CELL - 3] + "..."


def _fewer(names: Iterable[str]) -> list[str]:
    own = [name for name in names if name not in ("refused", "reason")]
    return [*own[:_MOST_COLUMNS], *(name for name in names if name == "reason")]
