"""Reading records: a TOML or JSON file of measurements with the conditions that the report states."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..data import load_toml
from ..errors import InputError, nearest
from .conditions import Conditions, read_conditions
from .measurement import Notes, figure_of, text_of
from .record import Figure, Record
from .series import expanded

#: Keys of a measurement, and of a file, that are no conditions.
OF_FIGURE = ("id", "metric", "statistic", "value", "unit", "note", "figure")
OF_RECORD = ("source", "confidence", "title", "name", "read", "published", "arxiv", "url", "date")
TABLES = ("measurement", "measurements", "series", "conditions")
MOST_FIGURES = 100_000
#: Bytes of the largest file that may be a record without saying so by its name.
_LARGEST = 8_000_000


def read_records(path: str | Path) -> tuple[Record, ...]:
    """Return the records of a TOML or JSON file, one for each ``source`` that its measurements name.

    Keys outside of [[measurement]], and those of [conditions], hold for all of them; [[series]] are rows of a table
    (:func:`.series.expanded`). Raises InputError with every problem of the file: no measurement, values that are no
    numbers, units that do not measure their metric.
    """
    where = str(path)
    return records_of(_load(Path(path)), where, Path(path).stem)


def is_record(path: str | Path) -> bool:
    """Say whether a file is a record: it ends in .toml, or its TOML or JSON has measurements. False if unreadable."""
    if str(path).endswith(".toml"):
        return True
    try:
        if Path(path).stat().st_size > _LARGEST:
            return False
        text = Path(path).read_bytes().decode("utf-8-sig")
        tables = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(tables, dict) and bool(
        tables.keys() & {"measurement", "measurements", "series", "metric"}
    )


def _load(path: Path) -> dict[str, Any]:
    if path.suffix != ".json":
        return load_toml(path)
    try:
        found = json.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise InputError("no such file", where=str(path)) from None
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise InputError(f"cannot be read as JSON: {error}", where=str(path)) from None
    if not isinstance(found, dict):
        raise InputError("is no JSON object; expected keys of a record", where=str(path))
    return found


def records_of(tables: Mapping[str, Any], where: str, name: str) -> tuple[Record, ...]:
    """Return the records that tables of a file hold. Raises InputError with all their problems."""
    problems: list[str] = []
    given = tables.get("conditions", {})
    if not isinstance(given, dict):
        problems.append(f"conditions: {given!r} is not a table")
        given = {}
    # A source may stand among the conditions: it is of the record wherever it stands.
    tables = {**{key: value for key, value in given.items() if key in OF_RECORD}, **tables}
    given = {key: value for key, value in given.items() if key not in OF_RECORD}
    rows = _rows(tables, problems)
    shared = {key: value for key, value in tables.items() if key not in (*OF_RECORD, *OF_FIGURE, *TABLES)}
    common = read_conditions({**shared, **given}, "", problems)
    groups: dict[str | None, list[tuple[int, Mapping[str, Any]]]] = {}
    own_source = text_of(tables, "source") or text_of(tables, "url") or _arxiv(tables)
    for place, row in enumerate(rows, 1):
        groups.setdefault(text_of(row, "source") or own_source, []).append((place, row))
    made = [_record(tables, name, where, source, group, common, problems) for source, group in groups.items()]
    made = [record for record in made if record.figures] if not problems else made
    if not problems and not made:
        problems.append("no measurement states a value: expected metric, value and unit of each figure")
    if problems:
        raise InputError(problems, where=where)
    return tuple(_named(made, name))


def _rows(tables: Mapping[str, Any], problems: list[str]) -> list[Mapping[str, Any]]:
    series = expanded(tables.get("series", []), problems)
    rows = tables.get("measurement", tables.get("measurements", [] if series else None))
    if rows is None and "metric" in tables:
        return [tables]
    if rows is None:
        match = nearest("measurement", [key for key in tables if key != "metric"])
        hint = f"; nearest present: {match!r}" if match else ""
        problems.append(f"no [[measurement]] table{hint}: expected metric, value and unit of each figure")
        return []
    if isinstance(rows, dict):
        rows = [rows]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        problems.append("measurement: expected [[measurement]] tables")
        return []
    if len(rows) > MOST_FIGURES:
        problems.append(f"{len(rows):,} measurements; at most {MOST_FIGURES:,}")
        return []
    if not rows and not series:
        problems.append("no measurement: expected metric, value and unit of each figure")
    return [*rows, *series]


def _record(
    tables: Mapping[str, Any],
    name: str,
    where: str,
    source: str | None,
    rows: Sequence[tuple[int, Mapping[str, Any]]],
    common: Conditions,
    problems: list[str],
) -> Record:
    figures, unread, warnings = [], dict(common.unread), list(common.warnings)
    for place, row in rows:
        own = {} if row is tables else {k: v for k, v in row.items() if k not in (*OF_RECORD, *OF_FIGURE)}
        label = str(row.get("id") or f"measurement {place}")
        conditions = read_conditions(own, label, problems)
        unread |= conditions.unread
        warnings += conditions.warnings
        figure = figure_of(row, label, conditions.stated, common.stated, Notes(problems, warnings))
        if figure is not None:
            figures.append(figure)
    stated, figures = _shared(dict(common.stated), figures)
    confidence = {text_of(row, "confidence") for _, row in rows} - {None}
    read = text_of(tables, "confidence") or text_of(tables, "read")
    return Record(
        name=text_of(tables, "name") or name,
        where=where,
        form="record",
        figures=tuple(figures),
        conditions=stated,
        source=source,
        confidence=confidence.pop() if len(confidence) == 1 else read,
        title=text_of(tables, "title"),
        unread=unread,
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _shared(stated: dict[str, Any], figures: Sequence[Figure]) -> tuple[dict[str, Any], list[Figure]]:
    """Move conditions that every figure has, alike, to the record."""
    if not figures:
        return stated, []
    first, *rest = figures
    alike = {
        key: value
        for key, value in first.conditions.items()
        if all(other.conditions.get(key) == value for other in rest)
    }
    kept = []
    for figure in figures:
        own = {key: value for key, value in figure.conditions.items() if key not in alike}
        kept.append(Figure(**{**vars(figure), "conditions": own}))
    return stated | alike, kept


def _arxiv(tables: Mapping[str, Any]) -> str | None:
    number = text_of(tables, "arxiv")
    return f"arXiv {number}" if number else None


def _named(records: Sequence[Record], name: str) -> list[Record]:
    """Records of one file, told apart by number where there are several."""
    if len(records) == 1:
        return list(records)
    return [Record(**{**vars(record), "name": f"{name}-{n}"}) for n, record in enumerate(records, 1)]
