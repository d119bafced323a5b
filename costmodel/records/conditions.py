"""Reading conditions: what a report states of its run. What it does not state is left out, never filled in."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from ..errors import InputError, nearest, shorten
from ..units import UNITS, Dimension, format_si, parse_option
from .record import Stated
from .scenario import told_in_words
from .vocabulary import CONDITIONS, UNSTATED

_NAMES = {name: name for name in CONDITIONS} | {
    alias: name for name, condition in CONDITIONS.items() for alias in condition.aliases
}
#: Where a count given in words is kept: it is stated, though nothing can be computed from it.
_IN_WORDS = {"input_tokens": "input_length", "output_tokens": "output_length"}
_MOST = 1e15
#: Keys under which a record may list what its report does not state; that follows from what it does state.
SAID_ABSENT = ("absent", "unstated", "not_stated")


class Conditions(NamedTuple):
    """Conditions as stated, keys that are none, and what a reader must know of the reading."""

    stated: dict[str, Stated]
    unread: dict[str, Any]
    warnings: list[str]


def condition_named(key: str) -> str | None:
    """Return the name of the condition that a key means; None where it means none."""
    return _NAMES.get(re.sub(r"[\s\-]+", "_", key.strip().lower()))


def told(name: str, value: Stated) -> str:
    """Return a condition as people read it: quantities with their unit.

    >>> told("link_bandwidth", 25e9), told("input_tokens", 512), told("payload", 42949672960.0)
    ('25 GB/s', '512', '42.9 GB')
    """
    kind = CONDITIONS[name].kind if name in CONDITIONS else "text"
    if kind in ("text", "count", "number") or isinstance(value, str):
        return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return format_si(float(value), cast(Dimension, kind))


def read_conditions(table: Mapping[str, Any], label: str, problems: list[str]) -> Conditions:
    """Return the conditions of a table; ``problems`` gets values that are of no use.

    Texts such as "not stated" or "?" are as good as no key at all.
    """
    found = Conditions({}, {}, [])
    for key, value in table.items():
        if key.strip().lower() in SAID_ABSENT:
            continue
        name, at = condition_named(key), f"{label}: {key}" if label else key
        if name is None:
            found.unread[key] = value
            match = nearest(key, _NAMES) if len(key) > 3 else None
            hint = f"; did you mean {match!r}?" if match else ""
            found.warnings.append(f"key {key!r} is no condition and is not used{hint}")
        elif name in found.stated and not _same(found.stated[name], value):
            problems.append(f"{at}: {name} is stated twice: {found.stated[name]!r} and {value!r}")
        elif not _unstated(value):
            _take(found, name, value, at, problems)
    told_in_words(found.stated)
    return found


def _same(stated: Stated, value: object) -> bool:
    return stated == value or str(stated) == str(value)


def _unstated(value: object) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower().rstrip(".") in UNSTATED)


def _take(found: Conditions, name: str, value: Any, at: str, problems: list[str]) -> None:
    kind = CONDITIONS[name].kind
    try:
        if kind == "text":
            found.stated[name] = _words(value)
        elif kind in ("count", "number"):
            _take_number(found, name, value, at, whole=kind == "count")
        else:
            found.stated[name] = _quantity(name, value, at)
    except InputError as error:
        problems += error.problems


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_words(each) for each in value)
    return str(value).strip()


def _take_number(found: Conditions, name: str, value: Any, at: str, *, whole: bool) -> None:
    number = _number(value)
    if number is not None and (number.is_integer() or not whole) and 0 <= number <= _MOST:
        found.stated[name] = int(number) if whole else number
    elif name in _IN_WORDS and isinstance(value, str | list) and number is None:
        found.stated.setdefault(_IN_WORDS[name], _words(value))
    else:
        wanted = "a whole number" if whole else "a number"
        raise InputError(f"{at}: {shorten(repr(value))} is not {wanted} of at least 0")


def _number(value: Any) -> float | None:
    """A number, also where it stands as text: "8192", "8,192"; "90 %" is 0.9."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if math.isfinite(value) else None
    if not isinstance(value, str):
        return None
    text = value.strip()
    share = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", text)
    if share:
        return float(share[1]) / 100
    if re.fullmatch(r"\d{1,3}(,\d{3})+", text):
        text = text.replace(",", "")
    return float(text) if re.fullmatch(r"\d{1,15}(\.\d{1,9})?", text) else None


def _quantity(name: str, value: Any, at: str) -> float:
    dimension = cast(Dimension, CONDITIONS[name].kind)
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
    if number is not None and dimension == "1/second" and 0 <= number <= _MOST:
        return float(number)
    if number is not None and dimension == "byte" and float(number).is_integer() and 0 <= number <= 1e18:
        return float(number)
    if isinstance(value, str):
        return parse_option(value.strip(), dimension, at)
    units = ", ".join(unit for unit, known in UNITS.items() if known.dimension == dimension)
    raise InputError(f"{at}: {shorten(repr(value))} needs a unit: a text with one of {units}")
