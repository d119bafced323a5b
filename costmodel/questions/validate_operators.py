"""Tables of measured operators against predictions: errors by kind, GPU, stack, split and regime."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..errors import InputError, unknown
from ..measured.compare import Compared, FitsFor, compare, grouped, rows_of
from ..measured.errors import ErrorRow
from ..measured.points import Given, Read, Skipped
from ..measured.table import Table, missing
from ..measured.tables import OPERATOR_KINDS, TABLES, kind_of


@dataclass(frozen=True)
class FitUsed:
    """A fit that predicted rows: whose it is, its parameters (SI), and from which GPU it is borrowed, if so."""

    gpu: str
    stack: str
    operator: str
    form: str
    parameters: dict[str, float]
    fitted_on_stack: str
    borrowed: str | None
    split: str
    source: str


def read_operators(table: Table, given: Given, kind: str | None = None) -> Read:
    """Return the points of a table that are of ``kind`` (None: of any).

    Raises InputError where its columns are of no kind, or of another one.
    """
    found = kind_of(table)
    if found is None:
        table.refuse(unlike(table, [(t.kinds[0], t.columns) for t in TABLES]))
    if kind is not None and kind not in found.kinds:
        table.refuse(f"holds {found.kinds[0]}, not {kind}")
    read = found.read(table, given)
    if kind is not None:
        read.points = [points for points in read.points if points.kind == kind]
    return read


def unlike(table: Table, kinds: Iterable[tuple[str, Sequence[str]]], kind: str | None = None) -> list[str]:
    """Return why a table is of no kind (or not of ``kind``): the columns that the nearest one needs besides."""
    asked = [entry for entry in kinds if kind in (None, entry[0])]
    lacking = [(name, [c for c in columns if c not in table], len(columns)) for name, columns in asked]
    name, absent, needed = max(lacking, key=lambda entry: (entry[2] - len(entry[1]), -len(entry[1])))
    if kind is None and len(absent) == needed:
        known = ", ".join(dict.fromkeys(name for name, _ in asked))
        return [f"its columns are those of no kind of measurements ({known})"]
    said = (
        f"holds no {name}" if kind else f"its columns are those of no kind of measurements; nearest is {name}"
    )
    problems = [missing((column,), table.columns) for column in absent]
    return [f"{said}: {problems[0]}", *problems[1:]] if problems else [said]


def compare_all(read: Read, fits: FitsFor) -> tuple[list[Compared], list[Skipped]]:
    """Return runs with their predictions, and those that no fit predicts."""
    done, skipped = [], list(read.skipped)
    for points in read.points:
        try:
            done.append(compare(points, fits.predicting(points)))
        except InputError as error:
            skipped.append(Skipped(points.where, len(points), f"{points.operator}: {error}"))
    return done, skipped


def error_rows(compared: Sequence[Compared]) -> list[ErrorRow]:
    """Return the errors of all runs."""
    return [row for group in grouped(compared) for row in rows_of(group)]


def fits_used(compared: Sequence[Compared]) -> tuple[FitUsed, ...]:
    """Return the fits behind the predictions, each once."""
    found: dict[tuple[str, str, str], FitUsed] = {}
    for part in compared:
        points, fit = part.points, part.fit
        found[(points.gpu.name, points.stack, fit.kind)] = FitUsed(
            points.gpu.name, points.stack, fit.kind, fit.form, dict(fit.parameters),
            fit.stack or points.stack, fit.borrowed, fit.split, fit.source,
        )  # fmt: skip
    return tuple(found[key] for key in sorted(found))


def check_kind(kind: str | None, more: Sequence[str]) -> None:
    """Raise InputError for a kind of validation that is not known."""
    known = (*OPERATOR_KINDS, *more)
    if kind is not None and kind not in known:
        raise InputError(unknown("kind of validation", kind, known, remedy=f"(one of {', '.join(known)})"))
