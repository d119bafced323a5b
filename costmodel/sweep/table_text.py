"""A block as lines of a CSV: numbers by as many digits as give them back, nothing where there is no figure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .blocks import Block


def header(names: Iterable[str]) -> str:
    """Return the first line."""
    return ",".join(names) + "\n"


def lines(block: Block) -> str:
    """Return the points of a block, a line each. What all of them share is written into the pattern of a line."""
    points = len(next(iter(block.values())))
    pattern: list[str] = []
    varied: list[list[Any]] = []
    for column in block.values():
        form, values = _texts(column[:1] if (column == column[0]).all() else column)
        if len(values) == 1:
            pattern.append((form % values[0]).replace("%", "%%"))
        else:
            pattern.append(form)
            varied.append(values)
    line = ",".join(pattern) + "\n"
    return "".join(map(line.__mod__, zip(*varied))) if varied else line % () * points


def _texts(column: Any) -> tuple[str, list[Any]]:
    """How a value of a column is written, and its values: numbers as they are, all else as text."""
    values = column.tolist()
    if column.dtype == object:
        known = {value: _quoted(value) for value in set(values)}
        return "%s", [known[value] for value in values]
    if column.dtype.kind != "f":  # whole numbers, and 1 and 0 for yes and no
        return "%d", values
    if (column != column).any():
        return "%s", ["" if value != value else repr(value) for value in values]
    return "%r", values


def _quoted(value: Any) -> str:
    """A text as a cell of a CSV; nothing for none."""
    if value is None or value == "":
        return ""
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow([value])
    return out.getvalue()
