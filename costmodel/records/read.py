"""Reading records: a TOML or JSON file of measurements with the conditions that the report states."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from ..data import load_toml
from ..errors import InputError, nearest, shorten
from .conditions import Conditions, read_conditions
from .figures import fitting, in_si, meant, number_of, per_gpu, statistic_of, unit_problem
from .record import Figure, Record
from .series import expanded
from .vocabulary import METRICS

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
    rows = _rows(tables, problems)
    shared = {key: value for key, value in tables.items() if key not in (*OF_RECORD, *OF_FIGURE, *TABLES)}
    given = tables.get("conditions", {})
    if not isinstance(given, dict):
        problems.append(f"conditions: {given!r} is not a table")
        given = {}
    common = read_conditions({**shared, **given}, "", problems)
    groups: dict[str | None, list[tuple[int, Mapping[str, Any]]]] = {}
    own_source = _text(tables, "source") or _text(tables, "url") or _arxiv(tables)
    for place, row in enumerate(rows, 1):
        groups.setdefault(_text(row, "source") or own_source, []).append((place, row))
    made = [_record(tables, name, where, source, group, common, problems) for source, group in groups.items()]
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
        figure = _figure(row, label, conditions, problems)
        if figure is not None:
            figures.append(figure)
    stated, figures = _shared(dict(common.stated), figures)
    confidence = {_text(row, "confidence") for _, row in rows} - {None}
    read = _text(tables, "confidence") or _text(tables, "read")
    return Record(
        name=_text(tables, "name") or name,
        where=where,
        form="record",
        figures=tuple(figures),
        conditions=stated,
        source=source,
        confidence=confidence.pop() if len(confidence) == 1 else read,
        title=_text(tables, "title"),
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


def _figure(row: Mapping[str, Any], label: str, conditions: Conditions, problems: list[str]) -> Figure | None:
    written = row.get("metric")
    if not isinstance(written, str) or not written.strip():
        known = [key for key in row if key not in ("id", "source")]
        match = nearest("metric", known)
        hint = f"; nearest present: {match!r}" if match else ""
        problems.append(f"{label}: no metric{hint}; expected a name such as ttft")
        return None
    found, number = meant(written), number_of(row.get("value"))
    if number is None:
        problems.append(
            f"{label}: value {shorten(repr(row.get('value')))} is not a finite number, or two of a range"
        )
        return None
    unit = row.get(
        "unit", found.unit if found.unit else "" if found.dimension in ("1", "token", None) else None
    )
    if not isinstance(unit, str):
        problems.append(
            f"{label}: {written} has no unit; expected one of {found.dimension}, such as {_example(found.dimension)}"
        )
        return None
    bare, each = per_gpu(unit)
    value, own = in_si(number[0], bare, found.dimension)
    if (own is None and found.dimension is not None) or not fitting(own, found.dimension):
        problems.append(unit_problem(label, unit, found.metric, str(found.dimension)))
        return None
    if value < 0 and found.metric in METRICS and found.dimension != "1":
        problems.append(f"{label}: {written} {number[0]:g} {unit} is negative")
        return None
    high = None if number[1] is None else in_si(number[1], bare, found.dimension)[0]
    return Figure(
        name=label,
        metric=found.metric,
        value=value,
        dimension=found.dimension if found.metric in METRICS or found.dimension else own,
        text=f"{number[0]:.10g}{'' if number[1] is None else f' to {number[1]:.10g}'} {unit}".strip(),
        unit=unit,
        statistic=statistic_of(_text(row, "statistic")) or found.statistic,
        high=high,
        conditions=conditions.stated,
        note=_text(row, "note"),
        per_gpu=each,
    )


def _example(dimension: str | None) -> str:
    return {"second": "ms", "byte": "GiB", "byte/second": "GB/s", "1/second": "req/s", "token/second": "tok/s",
            "flop/second": "TFLOP/s"}.get(dimension or "", "1")  # fmt: skip


def _text(table: Mapping[str, Any], key: str) -> str | None:
    value = table.get(key)
    if isinstance(value, date):
        return value.isoformat()
    return value.strip() if isinstance(value, str) and value.strip() else None


def _arxiv(tables: Mapping[str, Any]) -> str | None:
    number = _text(tables, "arxiv")
    return f"arXiv {number}" if number else None


def _named(records: Sequence[Record], name: str) -> list[Record]:
    """Records of one file, told apart by number where there are several."""
    if len(records) == 1:
        return list(records)
    return [Record(**{**vars(record), "name": f"{name}-{n}"}) for n, record in enumerate(records, 1)]
