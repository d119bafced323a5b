"""How far predictions stand from measurements: errors of every row, and their summary by stack and split."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from ..answer import About
from ..data import HARDWARE, package_files
from ..errors import InputError, unknown
from .validate_memory import MemoryRow, compare_row

SCHEMA = "costmodel.validate/1"
KINDS = ("memory",)
PACKAGED = "measurements/vllm_memory.csv"
REQUIRED = ("engine", "engine_version", "model", "gpu", "tp", "pp", "gpu_memory_utilization")
#: Figures of a row that are compared, and the regime under which their errors are summed up.
FIGURES = ("weights", "kv_tokens", "kv_pool", "blocks", "concurrency", "activation", "non_torch")


#: What the regime "all" takes together: the two figures that an engine's users look for.
HEADLINE = ("weights", "kv_tokens")


@dataclass(frozen=True)
class ErrorRow:
    """Errors of ``n`` configurations as fractions: mean, median, 90th percentile and largest of their size, and
    their mean with its sign. ``measured_rows`` with the same prediction count once, by their mean error.
    """

    kind: str
    gpu: str
    stack: str
    split: str
    regime: str
    n: int
    measured_rows: int
    mape: float
    median: float
    p90: float
    worst: float
    bias: float


@dataclass(frozen=True)
class ValidateAnswer:
    """Summaries (``rows``), each measured row with its prediction, and the rows that could not be compared."""

    schema: str
    kind: str
    measurements: str
    rows: tuple[ErrorRow, ...]
    compared: tuple[MemoryRow, ...]
    skipped: tuple[MemoryRow, ...]
    about: About


def ask_validate(kind: str = "memory", *, measurements: str | Path | None = None) -> ValidateAnswer:
    """Compare predictions with measurements; ``measurements`` None: the packaged ones.

    Raises InputError for an unknown kind, a file that cannot be read or lacks a column.
    """
    if kind not in KINDS:
        raise InputError(unknown("kind of validation", kind, KINDS, remedy=f"(one of {', '.join(KINDS)})"))
    where, lines = _read(measurements)
    _check_columns(where, lines)
    rows = [compare_row(line) for line in lines]
    compared = tuple(row for row in rows if row.skipped is None)
    skipped = tuple(row for row in rows if row.skipped is not None)
    return ValidateAnswer(
        schema=SCHEMA,
        kind=kind,
        measurements=where,
        rows=tuple(_summaries(compared)),
        compared=compared,
        skipped=skipped,
        about=About(
            assumptions=(
                "settings that a row does not state are the engine's defaults for the GPU",
                "a row whose model was in the fit of the overheads counts as fitted, all others as held out",
                "of a row that leaves open what its prediction needs, weights alone enter the summary",
                "of pipeline stages, weights, activation and pool are those of the stage nearest to the logged rank",
            ),
            sources=tuple(dict.fromkeys(row.source for row in compared if row.source)),
            not_modelled=(),
            warnings=tuple(
                f"{row.model}: {row.incomplete}" for row in compared if row.incomplete is not None
            ),
        ),
    )


def _read(measurements: str | Path | None) -> tuple[str, list[dict[str, str]]]:
    if measurements is None:
        text = package_files(HARDWARE).joinpath(PACKAGED).read_text(encoding="utf-8")
        return PACKAGED, _lines(text, PACKAGED)
    where = str(measurements)
    try:
        text = Path(measurements).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=where) from error
    except UnicodeDecodeError as error:
        raise InputError("is not UTF-8 text; expected a CSV file", where=where) from error
    return where, _lines(text, where)


def _lines(text: str, where: str) -> list[dict[str, str]]:
    try:
        return list(csv.DictReader(text.splitlines()))
    except csv.Error as error:
        raise InputError(f"is not a CSV file: {error}", where=where) from error


def _check_columns(where: str, lines: Sequence[dict[str, str]]) -> None:
    if not lines:
        raise InputError("holds no rows; expected a CSV file with a header", where=where)
    missing = [column for column in REQUIRED if column not in lines[0]]
    if missing:
        raise InputError([f"column {column!r} is missing" for column in missing], where=where)
    ragged = [n for n, line in enumerate(lines, 2) if None in line or None in line.values()]
    if ragged:
        raise InputError(f"line {ragged[0]}: expected as many cells as the header has", where=where)


def _summaries(compared: Sequence[MemoryRow]) -> Iterable[ErrorRow]:
    """Summaries over everything, then by GPU and stack, each over all rows and by split."""
    everywhere = [("all", "all", list(compared))]
    keys = sorted({(row.gpu, row.stack) for row in compared})
    groups = everywhere + [(g, s, [r for r in compared if (r.gpu, r.stack) == (g, s)]) for g, s in keys]
    for gpu, stack, members in groups:
        for regime in ("all", *FIGURES):
            for split in ("all", "fitted", "held_out"):
                figures = HEADLINE if regime == "all" else (regime,)
                chosen = [row for row in members if split in ("all", row.split)]
                repeats = [errors for figure in figures for errors in _repeats(chosen, figure)]
                if repeats:
                    yield _summary(gpu, stack, split, regime, repeats)


def _repeats(rows: Sequence[MemoryRow], figure: str) -> list[list[float]]:
    """Errors of a figure, those of one configuration together: rows for which the same is predicted."""
    found: dict[object, list[float]] = {}
    for row in rows:
        if figure in row.errors and _counts(row, figure):
            sizes = tuple(
                row.predicted.get(name) for name in ("weights_bytes", "kv_pool_bytes", "kv_cache_tokens")
            )
            key = (row.model, row.gpu, row.stack, row.tp, row.pp, *sizes)
            found.setdefault(key, []).append(row.errors[figure])
    return list(found.values())


def _counts(row: MemoryRow, regime: str) -> bool:
    return row.incomplete is None or regime == "weights"


def _summary(gpu: str, stack: str, split: str, regime: str, repeats: Sequence[Sequence[float]]) -> ErrorRow:
    errors = [sum(errors) / len(errors) for errors in repeats]
    sizes = sorted(abs(error) for error in errors)
    return ErrorRow(
        kind="memory",
        gpu=gpu,
        stack=stack,
        split=split,
        regime=regime,
        n=len(sizes),
        measured_rows=sum(len(errors) for errors in repeats),
        mape=sum(sizes) / len(sizes),
        median=median(sizes),
        p90=sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))],
        worst=sizes[-1],
        bias=sum(errors) / len(errors),
    )
