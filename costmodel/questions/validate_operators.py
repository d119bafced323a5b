"""Tables of measured operators against predictions: errors by kind, GPU, stack, split and regime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import InputError, unknown
from ..measured import copies
from ..measured.compare import Compared, FitsFor, compare, grouped, rows_of
from ..measured.errors import ErrorRow
from ..measured.points import Given, Read, Skipped
from ..measured.table import Table, missing
from ..measured.tables import OPERATOR_KINDS, TABLES, kind_of
from ..whole.read import KINDS as WHOLE_KINDS
from ..whole.read import LOOP_COLUMNS, STEP_COLUMNS, TIMES
from .validate_memory_file import REQUIRED as MEMORY_COLUMNS

MEMORY, COPIES = "memory", copies.KIND
STEP, END_TO_END = WHOLE_KINDS
#: Kinds that are no operators, and the columns that they need.
OTHERS = (
    (MEMORY, MEMORY_COLUMNS),
    (COPIES, copies.COLUMNS),
    (STEP, (*STEP_COLUMNS, TIMES["prefill"][0])),
    (END_TO_END, (*LOOP_COLUMNS, TIMES["ttft"][0])),
)


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


def kinds_of(table: Table) -> tuple[str, ...]:
    """Return the kinds of validation that a table serves, none where its columns are of no kind."""
    for kind, holds in WHOLE_KINDS.items():
        if holds(table):
            return (kind,)
    for kind, columns in OTHERS:
        if all(name in table for name in columns):
            return (kind,)
    found = kind_of(table)
    return found.kinds if found else ()


def unlike(table: Table, kind: str | None = None) -> list[str]:
    """Return why a table is of no kind (or not of ``kind``): the columns that the nearest one needs besides."""
    needs = [*((kind, known.columns) for known in TABLES for kind in known.kinds), *OTHERS]
    lacking = [
        (name, [column for column in columns if column not in table], len(columns))
        for name, columns in needs
        if kind in (None, name)
    ]
    name, absent, needed = max(lacking, key=lambda entry: (entry[2] - len(entry[1]), -len(entry[1])))
    if kind is None and len(absent) == needed:
        known = ", ".join(dict.fromkeys(name for name, _ in needs))
        return [f"its columns are those of no kind of measurements ({known})"]
    said = (
        f"holds no {name}" if kind else f"its columns are those of no kind of measurements; nearest is {name}"
    )
    problems = [missing((column,), table.columns) for column in absent]
    return [f"{said}: {problems[0]}", *problems[1:]] if problems else [said]


def read_operators(table: Table, given: Given, kind: str | None = None) -> Read:
    """Return the points of a table that are of ``kind`` (None: of any).

    Raises InputError where its columns are of no kind of operator.
    """
    found = kind_of(table)
    others = kinds_of(table)
    if found is None or found.kinds != others:
        table.refuse(f"holds {others[0]}, which is no operator of a step" if others else unlike(table))
    read = found.read(table, given)
    if kind is not None:
        read.points = [points for points in read.points if points.kind == kind]
    return read


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


#: Other names of kinds: those of operators, and what people say.
ALIASES = {
    "prefill_attention": "context_attention", "attention_prefill": "context_attention",
    "decode_attention": "generation_attention", "attention_decode": "generation_attention",
    "attention_mixed": "mixed_attention", "all_reduce": "collective", "nccl": "collective",
    "kv_copy": "kv_transfer",
}  # fmt: skip


def kind_named(kind: str | None) -> str | None:
    """Return the kind of validation that a word means. Raises InputError for one that is not known."""
    kind = ALIASES.get(kind, kind) if kind else kind
    known = (*OPERATOR_KINDS, *(other for other, _ in OTHERS))
    if kind is not None and kind not in known:
        raise InputError(unknown("kind of validation", kind, known, remedy=f"(one of {', '.join(known)})"))
    return kind
