"""The JSON objects of a result file: one document, a list of runs, or a run a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from ..errors import InputError, shorten

Fields = Mapping[str, object]
#: Characters of a file that are read at most: results with every request of a long run stay below.
LONGEST = 2**30
#: Objects within objects that are followed: reports of all known tools stay below.
DEEPEST = 64
#: Runs that a file may hold.
MOST_RUNS = 10_000


class Entry(NamedTuple):
    """A run's fields and where they stand in the file: "", "line 3" or "entry 2"."""

    fields: Fields
    at: str


class _TwiceError(ValueError):
    """A key that stands twice in one object."""


def entries_of(text: str, where: str) -> list[Entry]:
    """Return the runs of a JSON or JSONL text.

    Raises InputError for what is no JSON, no object, nested too deeply, or there twice.
    """
    first, _, rest = text.partition("\n")
    a_line_each = bool(rest.strip()) and _is_object(first)
    if a_line_each:
        lines = enumerate(text.split("\n"), 1)
        found = [Entry(_object(line, where, f"line {n}"), f"line {n}") for n, line in lines if line.strip()]
    else:
        whole = _parsed(text, where, "")
        several = whole if isinstance(whole, list) else [whole]
        named = isinstance(whole, list)
        found = [
            Entry(_checked(one, where, f"entry {i}" if named else ""), f"entry {i}" if named else "")
            for i, one in enumerate(several, 1)
        ]
    if not found:
        raise InputError("is an empty list; expected runs of a benchmark", where=where)
    if len(found) > MOST_RUNS:
        raise InputError(f"holds {len(found):,} runs; at most {MOST_RUNS:,}", where=where)
    _not_twice(found, where)
    return found


def _is_object(line: str) -> bool:
    return line.lstrip().startswith("{") and line.rstrip().endswith("}")


def _object(line: str, where: str, at: str) -> Fields:
    return _checked(_parsed(line, where, at), where, at)


def _checked(value: object, where: str, at: str) -> Fields:
    if not isinstance(value, dict):
        raise InputError(f"{at + ': ' if at else ''}{kind_of(value)} where a run is expected", where=where)
    return value


def _parsed(text: str, where: str, at: str) -> object:
    prefix = f"{at}: " if at else ""
    try:
        value: object = json.loads(text, object_pairs_hook=_once)
    except _TwiceError as error:
        raise InputError(f"{prefix}{error}", where=where) from None
    except ValueError as error:
        end = "; the file may be cut short" if _cut_short(error, text) else ""
        raise InputError(f"{prefix}not JSON: {error}{end}", where=where) from None
    except RecursionError:
        raise InputError(f"{prefix}{_TOO_DEEP}", where=where) from None
    if _deeper_than(value, DEEPEST):
        raise InputError(f"{prefix}{_TOO_DEEP}", where=where)
    return value


_TOO_DEEP = f"objects within objects, more than {DEEPEST} deep; no known tool writes that"


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object. Raises _TwiceError for a key that stands twice: which one counts is not known."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _TwiceError(f"{shorten(twice)!r} stands twice in one object")
    return found


def _cut_short(error: ValueError, text: str) -> bool:
    return isinstance(error, json.JSONDecodeError) and error.pos >= len(text.rstrip()) - 1


def _deeper_than(value: object, most: int) -> bool:
    level = [value]
    for _ in range(most):
        inner = [v for one in level if isinstance(one, dict) for v in one.values()]
        inner += [v for one in level if isinstance(one, list) for v in one]
        level = [v for v in inner if isinstance(v, dict | list)]
        if not level:
            return False
    return True


def _not_twice(found: list[Entry], where: str) -> None:
    """Raise InputError where two runs are the same to the last digit: a file was joined to itself."""
    seen: dict[str, str] = {}
    for fields, at in found:
        text = json.dumps(fields, sort_keys=True) if len(found) > 1 else ""
        if text in seen:
            raise InputError(f"{at} holds the same run as {seen[text]}: keep one", where=where)
        seen[text] = at


def kind_of(value: object) -> str:
    """Return what a JSON value is, in words."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def object_of(line: str) -> Fields:
    """Return the object that a line is; an empty one where it is none."""
    if not _is_object(line):
        return {}
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
