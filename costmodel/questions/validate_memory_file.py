"""A file of start-up logs against predicted memory: every row with its prediction, and errors by GPU and stack."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from ..answer import About
from ..measured.errors import ErrorRow
from ..measured.table import Table
from .validate_memory import MemoryRow, compare_row

REQUIRED = ("engine", "engine_version", "model", "gpu", "tp", "pp", "gpu_memory_utilization")
#: Figures of a row that are compared, and the regime under which their errors are summed up.
FIGURES = ("weights", "kv_tokens", "kv_pool", "blocks", "concurrency", "activation", "non_torch")
#: What the regime "all" takes together: the two figures that an engine's users look for.
HEADLINE = ("weights", "kv_tokens")


@dataclass(frozen=True)
class MemoryComparison:
    """Errors (``rows``), each logged row with its prediction, and the rows that could not be compared."""

    rows: tuple[ErrorRow, ...]
    compared: tuple[MemoryRow, ...]
    skipped: tuple[MemoryRow, ...]
    about: About


def compare_memory(table: Table) -> MemoryComparison:
    """Compare what engines logged, a row of the table each, with what is predicted."""
    rows = [compare_row(line) for line in _lines(table)]
    compared = tuple(row for row in rows if row.skipped is None)
    return MemoryComparison(
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


def _lines(table: Table) -> list[dict[str, str]]:
    cells = zip(*(column.tolist() for column in table.columns.values()))
    return [dict(zip(table.columns, row)) for row in cells]


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
