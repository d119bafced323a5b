"""A file of start-up logs against predicted memory: every row with its prediction, and errors by GPU and stack."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from ..answer import About
from ..data import HARDWARE, package_files
from ..errors import InputError
from ..measured.errors import ErrorRow
from .validate_memory import MemoryRow, compare_row

PACKAGED = "measurements/vllm_memory.csv"
REQUIRED = ("engine", "engine_version", "model", "gpu", "tp", "pp", "gpu_memory_utilization")
#: Figures of a row that are compared, and the regime under which their errors are summed up.
FIGURES = ("weights", "kv_tokens", "kv_pool", "blocks", "concurrency", "activation", "non_torch")
#: What the regime "all" takes together: the two figures that an engine's users look for.
HEADLINE = ("weights", "kv_tokens")


@dataclass(frozen=True)
class MemoryComparison:
    """Errors (``rows``), each logged row with its prediction, and the rows that could not be compared."""

    measurements: str
    rows: tuple[ErrorRow, ...]
    compared: tuple[MemoryRow, ...]
    skipped: tuple[MemoryRow, ...]
    about: About


def compare_memory(measurements: str | Path | None = None) -> MemoryComparison:
    """Compare what engines logged with what is predicted; ``measurements`` None: the packaged rows.

    Raises InputError for a file that cannot be read or lacks a column.
    """
    where, lines = _read(measurements)
    _check_columns(where, lines)
    rows = [compare_row(line) for line in lines]
    compared = tuple(row for row in rows if row.skipped is None)
    return MemoryComparison(
        measurements=where,
        rows=tuple(_summaries(compared)),
        compared=compared,
        skipped=tuple(row for row in rows if row.skipped is not None),
        about=About(
            assumptions=(
                "settings that a row does not state are the engine's defaults for the GPU",
                "a row whose model was in the fit of the overheads counts as fitted, all others as held out",
                "of a row that leaves open what its prediction needs, weights alone enter the summary",
                "of pipeline stages, weights, activation and pool are those of the stage nearest to the logged rank",
            ),
            sources=tuple(dict.fromkeys(row.source for row in compared if row.source)),
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
