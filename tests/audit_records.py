"""Records written in tests, as cases, and their findings by id."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable

from costmodel.audit.case import Case
from costmodel.audit.finding import Finding
from costmodel.records.read import records_of


def case_of(text: str) -> Case:
    """The record that a TOML text is, under examination."""
    (record,) = records_of(tomllib.loads(text), "report.toml", "report")
    return Case(record)


def row(metric: str, value: object, unit: str = "", **more: object) -> str:
    """A [[measurement]] in TOML: numbers and lists as they are, anything else in quotes."""
    stated = {"metric": metric, "value": value, "unit": unit, **more}
    lines = [f"{k} = {v if isinstance(v, int | float | list) else repr(v)}" for k, v in stated.items()]
    return "\n".join(["[[measurement]]", *lines, ""])


def found(check: Callable[[Case], Iterable[Finding]], text: str, id_: str | None = None) -> list[Finding]:
    """The findings of one check of a record, those of one id if it is given."""
    return [finding for finding in check(case_of(text)) if id_ in (None, finding.id)]
