"""The words of a record file: conditions and metrics, with the other names that are read as them."""

from __future__ import annotations

from dataclasses import dataclass

from ..answer import About
from ..audit.absent import ASKED, BESIDES
from ..errors import InputError, unknown
from ..records.conditions import condition_named
from ..records.figures import meant
from ..records.vocabulary import CONDITIONS, METRICS
from .show_model import SCHEMA


@dataclass(frozen=True)
class WordEntry:
    """A condition or a metric. ``recovered_by``: where a report that lacks the condition could be completed from."""

    schema: str
    name: str
    unit: str
    meaning: str
    also: tuple[str, ...]
    asked_as: str | None
    recovered_by: str | None
    about: About


def condition_names() -> tuple[str, ...]:
    """Return the names of all conditions of a record."""
    return tuple(CONDITIONS)


def metric_names() -> tuple[str, ...]:
    """Return the names of all metrics of a record."""
    return tuple(METRICS)


def condition_row(name: str) -> dict[str, object]:
    """Return the row of a condition in the listing."""
    found = CONDITIONS[name]
    asked = next((each.condition for each in (*ASKED, *BESIDES) if name in each.keys), None)
    return {
        "name": name,
        "unit": found.kind,
        "meaning": found.meaning,
        "also": ", ".join(found.aliases),
        "audited as": asked,
    }


def metric_row(name: str) -> dict[str, object]:
    """Return the row of a metric in the listing."""
    found = METRICS[name]
    return {"name": name, "unit": found.dimension, "meaning": found.meaning, "also": ", ".join(found.aliases)}


def condition_entry(name: str) -> WordEntry:
    """Return a condition by any of its names. Raises InputError for an unknown one, with the nearest."""
    known = condition_named(name)
    if known is None:
        raise InputError(unknown("condition", name, CONDITIONS, remedy="(costmodel show conditions)"))
    found = CONDITIONS[known]
    asked = next((each for each in (*ASKED, *BESIDES) if known in each.keys), None)
    return WordEntry(
        SCHEMA, known, found.kind, found.meaning, found.aliases,
        asked.condition if asked else None, asked.recovered_by if asked else None, About(),
    )  # fmt: skip


def metric_entry(name: str) -> WordEntry:
    """Return a metric by any of its names. Raises InputError for an unknown one, with the nearest."""
    known = meant(name).metric
    if known not in METRICS:
        raise InputError(unknown("metric", name, METRICS, remedy="(costmodel show metrics)"))
    found = METRICS[known]
    return WordEntry(SCHEMA, known, found.dimension, found.meaning, found.aliases, None, None, About())
