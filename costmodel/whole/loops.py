"""Results of closed loops (InferenceX rows, summaries of benchmark clients) as the table that stacks are fitted to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import InputError
from ..inputs.traces.files import opened
from ..measured.points import Skipped
from ..measured.table import Table
from ..records.record import Record
from ..results import read_results
from .stacks import engine_word

CLOSED = "closed loop"
#: Times of single requests in a result: those are a log, which says more than its means.
_SINGLE = ("ttfts", "itls")
#: Columns of the table and the conditions that they are.
_TEXTS = {
    "model": "model",
    "gpu": "hardware",
    "tp": "tp",
    "ep": "ep",
    "precision": "dtype",
    "kv_dtype": "kv_dtype",
}
_SPECULATIVE = "speculative"
_AS_TABLE = "write the loops as a CSV: model, gpu, tp, isl, osl, concurrency, ttft_ms, tpot_ms"


def is_loop_result(path: str | Path) -> bool:
    """Say whether a file holds means of closed loops and no single requests; False where it cannot be read."""
    try:
        with opened(Path(path)) as file:
            if not file.read(1_000).lstrip().startswith(("{", "[")):
                return False
        records = read_results(path)
    except InputError:
        return False
    return all(_is_loop(record) for record in records)


def loop_table(paths: Sequence[str | Path]) -> tuple[Table, list[Skipped], list[str]]:
    """Return the loops of results as a table, those left out, and what a reader must know.

    Raises InputError for results that do not say what a stack is fitted to, with what to pass.
    """
    rows, left_out, warnings = list[dict[str, str]](), list[Skipped](), list[str]()
    for path in paths:
        for record in read_results(path):
            why = _no_use(record)
            if why:
                left_out.append(Skipped(record.where, 1, why))
                continue
            rows.append(_row(record))
            warnings += [
                f"{path}: {text}" for text in record.warnings if "asked for" in text or "failed" in text
            ]
            if "input_tokens" not in record.conditions:
                warnings.append(f"{path}: lengths vary or are not told: their means stand for all requests")
    where = ", ".join(map(str, paths))
    if not rows:
        raise InputError(
            ["holds no closed loop to fit", *sorted({left.why for left in left_out})], where=where
        )
    _same_columns(rows, where)
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return Table(where, columns, np.arange(1, len(rows) + 1)), left_out, list(dict.fromkeys(warnings))


def _is_loop(record: Record) -> bool:
    single = any(name in record.unread for name in _SINGLE) or "GuideLLM" in record.form
    return record.conditions.get("arrival_process") == CLOSED and not single


def _no_use(record: Record) -> str | None:
    """Why a record is no row, None where it is one."""
    if not _is_loop(record):
        return "no closed loop: requests arrived at a rate"
    if record.conditions.get("strategy") == "disaggregated":
        return "prefill and decode run apart: a stack is of one engine"
    if any(_SPECULATIVE in warning for warning in record.warnings):
        return "decoding was speculative, which step times do not model"
    if any("data-parallel" in warning for warning in record.warnings):
        return "attention is data-parallel, which step times do not model"
    return None


def _row(record: Record) -> dict[str, str]:
    told = record.conditions
    times = {metric: _mean(record, metric) for metric in ("ttft", "tpot")}
    lengths = {
        name: _length(record, f"{side}_tokens") for name, side in (("isl", "input"), ("osl", "output"))
    }
    missing = [
        f"states no {what}: {cure}"
        for what, there, cure in (
            ("model", "model" in told, f"save it with the result (--metadata model=NAME), or {_AS_TABLE}"),
            ("tp", "tp" in told, f"save it with the result (--metadata tp=8), or {_AS_TABLE}"),
            ("lengths", all(lengths.values()), "save the result with its totals of tokens"),
            ("mean TTFT or TPOT", any(times.values()), "a stack is fitted to means of both"),
        )
        if not there
    ]
    if missing:
        raise InputError(missing, where=record.where)
    row = {name: str(told[condition]) for name, condition in _TEXTS.items() if condition in told}
    row |= {
        "framework": engine_word(str(told.get("engine", ""))),
        "version": str(told.get("engine_version", "")),
    }
    row |= {name: str(length) for name, length in lengths.items()}
    row |= {f"{metric}_s": repr(time) for metric, time in times.items() if time is not None}
    return row | {"concurrency": str(told["concurrency"])}


def _mean(record: Record, metric: str) -> float | None:
    found = (f.value for f in record.figures if (f.metric, f.statistic) == (metric, "mean"))
    return next(found, None)


def _length(record: Record, name: str) -> int:
    stated = record.conditions.get(name)
    return int(stated) if isinstance(stated, int) else round(_mean(record, name) or 0)


def _same_columns(rows: list[dict[str, str]], where: str) -> None:
    """Fill in what some rows leave open. Raises InputError where some state the GPU or a time and others do not."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    for name in names:
        left = sum(name not in row for row in rows)
        if left and name in ("gpu", "ttft_s", "tpot_s"):
            raise InputError(
                f"{left:,} of {len(rows):,} loops state no {name}: calibrate them apart", where=where
            )
        for row in rows:
            row.setdefault(name, "")
