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
    """Return the points of a block, a line each."""
    columns = [_texts(column) for column in block.values()]
    return "\n".join(map(",".join, zip(*columns))) + "\n"


def _texts(column: Any) -> list[str]:
    values = column.tolist()
    if column.dtype == object:
        known = {value: _quoted(value) for value in set(values)}
        return [known[value] for value in values]
    if column.dtype == bool:
        return ["1" if value else "0" for value in values]
    if column.dtype.kind == "i":
        return list(map(str, values))
    found = list(map(repr, values))
    return [text if text != "nan" else "" for text in found] if "nan" in found else found


def _quoted(value: Any) -> str:
    if value is None:
        return ""
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow([value])
    return out.getvalue() if value != "" else ""
