"""Reading conditions: what a report states of its run. What it does not state is left out, never filled in."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from ..errors import InputError, nearest, shorten
from ..units import UNITS, Dimension, format_si, parse_option
from .amounts import amount_of, in_si
from .record import Stated
from .scenario import told_in_words
from .vocabulary import CONDITIONS, UNSTATED

_NAMES = {name: name for name in CONDITIONS} | {
    alias: name for name, condition in CONDITIONS.items() for alias in condition.aliases
}
#: Where a length is kept that is not one of all requests: in words, and its mean where it is one.
_LENGTHS = {
    "input_tokens": ("input_length", "mean_input_tokens"),
    "output_tokens": ("output_length", "mean_output_tokens"),
}
#: What a count may be followed by: "32 clients", "1,024 tokens".
_COUNTED = re.compile(
    r"(?i)\s*(?:concurrent\s+|in-flight\s+)?(?:tokens?|toks?|clients?|users?|requests?|reqs?|prompts?|sequences|seqs"
    r"|streams|gpus?|nodes?|blocks?|instances?|nics?|ports?|warm-?up requests)$"
)
_MEAN = re.compile(r"(?i)^(?:mean|avg\.?|average)(?:\s+of)?\s+|\s*\(?(?:mean|avg\.?|average|on average)\)?$")
_ENDLESS = ("inf", "infinite", "infinity", "unlimited", "max")
#: How requests come that are offered without a rate, where clients wait for answers and where none do.
_CLOSED, _AT_ONCE = "closed loop", "all at once"
#: How like a known key another must be for a hint: a wrong one misleads more than none.
_CLOSE = 0.75
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
    return _NAMES.get(re.sub(r"[\s\-_]+", "_", re.sub(r"\s*[(\[].*", "", key.strip().lower())))


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
    # A rate without end says how requests come where nothing else does: what else there is must be read before it.
    for key, value in sorted(table.items(), key=lambda item: condition_named(item[0]) == "arrival_rate"):
        if key.strip().lower() in SAID_ABSENT:
            continue
        name, at = condition_named(key), f"{label}: {key}" if label else key
        if name is None:
            found.unread[key] = value
            match = nearest(key, _NAMES, cutoff=_CLOSE) if len(key) > 3 else None
            hint = f"; did you mean {match!r}?" if match else ""
            found.warnings.append(f"key {key!r} is no condition and is not used{hint}")
        elif name in found.stated and not _same(found.stated[name], value):
            problems.append(f"{at}: {name} is stated twice: {found.stated[name]!r} and {value!r}")
        elif not unstated(value):
            _take(found, name, value, at, problems)
    _say_means(found.stated)
    told_in_words(found.stated)
    return found


def _same(stated: Stated, value: object) -> bool:
    return stated == value or str(stated) == str(value)


def unstated(value: object) -> bool:
    """Say whether a value is one of the texts that are as good as none, or null."""
    return value is None or (isinstance(value, str) and value.strip().lower().rstrip(".") in UNSTATED)


def _take(found: Conditions, name: str, value: Any, at: str, problems: list[str]) -> None:
    kind = CONDITIONS[name].kind
    try:
        if kind == "text":
            found.stated[name] = _words(value)
        elif kind in ("count", "number"):
            _take_number(found, name, value, at, whole=kind == "count")
        else:
            _take_quantity(found, name, value, at)
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
    if name in _LENGTHS:
        _take_length(found, name, value, number, at)
    elif number is not None and (number.is_integer() or not whole) and 0 <= number <= _MOST:
        found.stated[name] = int(number) if whole else number
    elif number is None and isinstance(value, str | list) and amount_of(value) is not None:
        _leave(found, name, value, at)
    else:
        wanted = "a whole number" if whole else "a number"
        raise InputError(f"{at}: {shorten(repr(value))} is not {wanted} of at least 0")


def _take_length(found: Conditions, name: str, value: Any, number: float | None, at: str) -> None:
    """A length of all requests is a whole number; any other is a mean, or words."""
    words, mean = _LENGTHS[name]
    bare = _MEAN.sub("", value.strip()) if isinstance(value, str) else value
    average = _number(bare) if bare != value or not number or not number.is_integer() else None
    if average is not None and 0 <= average <= _MOST:
        found.stated[mean] = average
    elif number is not None and 0 <= number <= _MOST:
        found.stated[name] = int(number)
    elif isinstance(value, str | list) and number is None:
        found.stated.setdefault(words, _words(value))
    else:
        raise InputError(f"{at}: {shorten(repr(value))} is not a number of at least 0")


def _say_means(stated: dict[str, Stated]) -> None:
    """State a mean length in words, too, where nothing else tells the lengths."""
    for name, (words, mean) in _LENGTHS.items():
        if mean in stated and name not in stated:
            stated.setdefault(words, f"mean {stated[mean]:,.10g} tokens")


def _leave(found: Conditions, name: str, value: Any, at: str) -> None:
    """Keep a range, or what is told roughly, as it stands: it states no one value that could be computed with."""
    found.unread[at.rpartition(": ")[2]] = value
    found.warnings.append(f"{at}: {shorten(repr(value))} is no single value of {name} and is not used")


def _number(value: Any) -> float | None:
    """A number, also where it stands as text: "8192", "8,192 tokens"; "90 %" is 0.9."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if abs(value) <= _MOST else None
    if not isinstance(value, str):
        return None
    text = _COUNTED.sub("", value.strip())
    share = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", text)
    if share:
        return float(share[1]) / 100
    if re.fullmatch(r"\d{1,3}(,\d{3})+", text):
        text = text.replace(",", "")
    return float(text) if re.fullmatch(r"\d{1,15}(\.\d{1,9})?", text) else None


def _take_quantity(found: Conditions, name: str, value: Any, at: str) -> None:
    dimension = cast(Dimension, CONDITIONS[name].kind)
    if name == "arrival_rate" and _endless(value):
        found.stated.setdefault("arrival_process", _CLOSED if "concurrency" in found.stated else _AT_ONCE)
        return
    amount = amount_of(value) if isinstance(value, str) else None
    if amount is not None and (amount.hedge or amount.high is not None):
        _leave(found, name, value, at)
        return
    if amount is not None and amount.unit:
        number, own = in_si(amount.low, amount.unit, dimension)
        if own == dimension and 0 <= number <= 1e24:
            found.stated[name] = number
            return
    found.stated[name] = _quantity(name, value, dimension, at)


def _endless(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in _ENDLESS
    return isinstance(value, float) and value == math.inf


def _quantity(name: str, value: Any, dimension: Dimension, at: str) -> float:
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
    if number is not None and dimension == "1/second" and 0 <= number <= _MOST:
        return float(number)
    if number is not None and dimension == "byte" and float(number).is_integer() and 0 <= number <= 1e18:
        return float(number)
    if isinstance(value, str):
        return parse_option(value.strip(), dimension, at)
    units = ", ".join(unit for unit, known in UNITS.items() if known.dimension == dimension)
    raise InputError(f"{at}: {shorten(repr(value))} needs a unit: a text with one of {units}")
