"""A page: what every answer becomes before it is printed, whatever the format. Units follow from the keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..answer import About
from ..units import Dimension, format_si

EXACT_BELOW = 1_000_000  # whole bytes up to here are printed as they are, more of them with a prefix

_UNITS: tuple[tuple[str, Dimension], ...] = (
    # the first pattern found in a key gives its unit
    (r"bytes_per_s$", "byte/second"),
    (r"flop_per_s$", "flop/second"),
    (r"_per_(cpu_)?s$", "1/second"),
    (r"_s$", "second"),
    (r"(^|_)bytes(_|$)", "byte"),
)
_SHARES = re.compile(r"(_mape|_bias|_share|hit_rate|^mfu|^mbu|^error)$")


@dataclass(frozen=True)
class Table:
    """Cells as text; ``right`` says which columns are aligned to the right. No headers: a list of facts."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[bool, ...]


@dataclass(frozen=True)
class Code:
    """Text to be printed as it is; ``language`` "latex" is a formula."""

    text: str
    language: str = ""


@dataclass(frozen=True)
class Heading:
    """The title of a part of a page; ``level`` 1 is the page's own."""

    text: str
    level: int = 2


Block = Table | Code | Heading | str


@dataclass(frozen=True)
class Page:
    """A title, blocks (a plain text is a paragraph) and what the answer rests on; ``cite``: list sources.

    ``screen``: text that stands for title, blocks and the rest in a terminal; ``extra``: what follows where more
    is asked for.
    """

    title: str
    blocks: tuple[Block, ...]
    about: About
    cite: bool = False
    screen: str | None = None
    extra: tuple[Block, ...] = ()


def shown(key: str, value: object, *, binary: bool = False) -> str:
    """Return a value as people read it; its unit follows from the end of its key (``binary``: GiB for GB).

    >>> shown("wire_s", 5.31e-05), shown("kv_bytes_per_token", 31104), shown("mfu", 0.31)
    ('53.1 us', '31,104 B', '31.0 %')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {shown(name, inner)}" for name, inner in value.items()) or "none"
    if isinstance(value, tuple | list):
        return ", ".join(shown(key, inner) for inner in value)
    if not isinstance(value, int | float):
        return str(value)
    if _SHARES.search(key):
        return f"{value:.1%}".replace("%", " %") if abs(value) < 1e4 else f"{100 * value:.3g} %"
    if key == "flop":
        return format_si(value, "flop/second").removesuffix("/s")
    for pattern, dimension in _UNITS:
        if re.search(pattern, key):
            return _with_unit(value, dimension, binary and dimension == "byte")
    whole = isinstance(value, float) and 1e4 <= abs(value) < 1e15
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if whole else f"{value:,.4g}"


def banded(key: str, best: float, low: float, high: float) -> str:
    """Return a value with its band, the unit once where all three have it.

    >>> banded("time_s", 0.0431, 0.0349, 0.0532), banded("time_s", 9e-4, 8e-4, 1.1e-3)
    ('43.1 (34.9-53.2) ms', '900 us (800 us - 1.1 ms)')
    """
    texts = [shown(key, value) for value in (best, low, high)]
    numbers, units = zip(*(text.rsplit(" ", 1) for text in texts))
    if len(set(units)) > 1:
        return f"{texts[0]} ({texts[1]} - {texts[2]})"
    return f"{numbers[0]} ({numbers[1]}-{numbers[2]}) {units[0]}"


def _with_unit(value: float, dimension: Dimension, binary: bool) -> str:
    if dimension != "byte" or not isinstance(value, int) or binary:
        return format_si(value, dimension, 4 if binary else 3, binary=binary)
    return f"{value:,} B" if abs(value) < EXACT_BELOW else format_si(value, dimension)


def facts(answer: object, labels: Mapping[str, str], *, binary: bool = False) -> Table:
    """Return label and value of these fields: whole bytes exactly, too; a None with its ``..._reason``."""
    rows = []
    for key, label in labels.items():
        value = getattr(answer, key)
        text = shown(key, value, binary=binary)
        remark = _reason(answer, key) if value is None else None
        if isinstance(value, int) and value >= EXACT_BELOW and text.endswith("B"):
            remark = f"{value:,} B"
        rows.append((label, f"{text} ({remark})" if remark else text))
    return Table((), tuple(rows), (False, False))


def _reason(answer: object, key: str) -> str | None:
    stem = re.sub(r"_(s|bytes|per_s|usd|tokens)$", "", key)
    return getattr(answer, f"{key}_reason", None) or getattr(answer, f"{stem}_reason", None)


def table(items: Iterable[object], columns: Mapping[str, str], *, binary: bool = False) -> Table:
    """Return a row an item (a dataclass or a mapping) with these fields; ``columns``: field -> header."""
    values = [
        [item.get(key) if isinstance(item, Mapping) else getattr(item, key) for key in columns]
        for item in items
    ]
    rows = tuple(tuple(shown(key, cell, binary=binary) for key, cell in zip(columns, row)) for row in values)
    right = tuple(all(isinstance(row[i], int | float | None) for row in values) for i in range(len(columns)))
    return Table(tuple(columns.values()), rows, right)
