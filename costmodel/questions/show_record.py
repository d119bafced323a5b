"""Published figures as they are packaged: one entry a report."""

from __future__ import annotations

from dataclasses import dataclass

from ..answer import About
from ..data import is_path
from ..records import Figure, Record, Stated
from ..records.packaged import load_records, record_names
from ..records.read import read_records
from .show_model import SCHEMA

__all__ = ["RecordEntry", "RecordFigure", "record_entry", "record_names", "record_row"]


@dataclass(frozen=True)
class RecordFigure:
    """A figure as printed (``text``) and in SI (``value``, ``high`` where it is a range), with its own conditions."""

    name: str
    metric: str
    statistic: str | None
    text: str
    value: float
    high: float | None
    conditions: dict[str, Stated]
    note: str | None


@dataclass(frozen=True)
class RecordEntry:
    """A report: the conditions it states, and its figures. ``confidence``: primary, abstract, secondary or computed."""

    schema: str
    name: str
    title: str | None
    confidence: str | None
    conditions: dict[str, Stated]
    figures: tuple[RecordFigure, ...]
    about: About


def record_row(name: str) -> dict[str, object]:
    """Return the row of a packaged record in the listing."""
    records = load_records(name)
    first = records[0]
    return {
        "name": name,
        "title": first.title,
        "figures": sum(len(record.figures) for record in records),
        "confidence": first.confidence,
        "source": first.source,
    }


def record_entry(name: str) -> RecordEntry:
    """Return a packaged record, or that of a file, in full. Raises InputError for unknown or bad ones."""
    records = read_records(name) if is_path(name) else load_records(name)
    shared = records[0].conditions if len(records) == 1 else {}
    return RecordEntry(
        schema=SCHEMA,
        name=name,
        title=records[0].title,
        confidence=records[0].confidence,
        conditions=dict(shared),
        figures=tuple(
            _figure(record, figure, len(records) > 1) for record in records for figure in record.figures
        ),
        about=About(sources=tuple(dict.fromkeys(record.source or record.where for record in records))),
    )


def _figure(record: Record, figure: Figure, several: bool) -> RecordFigure:
    own = record.conditions_of(figure) if several else dict(figure.conditions)
    return RecordFigure(
        figure.name, figure.metric, figure.statistic, figure.text, figure.value, figure.high, own, figure.note
    )
