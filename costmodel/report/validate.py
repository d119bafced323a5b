"""The page of ``costmodel validate``: a summary of errors, then every row with what was logged."""

from __future__ import annotations

from ..questions.validate import ValidateAnswer
from ..questions.validate_memory import MemoryRow
from .page import Block, Heading, Page, Table, table

SUMMARY = {
    "gpu": "GPU",
    "stack": "stack",
    "regime": "figure",
    "split": "split",
    "n": "configurations",
    "measured_rows": "rows",
    "mape": "mean |error|",
    "median": "median",
    "p90": "P90",
    "worst": "largest",
    "bias": "mean error",
}
FIGURES = {
    "weights_bytes": ("weights, GiB", 2**30, "weights"),
    "activation_bytes": ("activation, GiB", 2**30, "activation"),
    "kv_pool_bytes": ("KV pool, GiB", 2**30, "kv_pool"),
    "kv_cache_tokens": ("KV tokens", 1, "kv_tokens"),
}


#: Figures that need everything a row should state.
POOLED = ("kv_pool", "kv_tokens")


def page(answer: ValidateAnswer, detail: bool) -> Page:
    """Return the page of an answer; ``detail`` adds the summaries of each stack."""
    overall = [row for row in answer.rows if detail or row.gpu == "all"]
    blocks: list[Block] = [
        Table(tuple(SUMMARY.values()), tuple(_summary(row) for row in overall), (False,) * 4 + (True,) * 7),
        *_left_out(answer),
        Heading("Logged, predicted, error"),
        _rows(answer.compared),
    ]
    if answer.skipped:
        reasons = [{"model": row.model, "stack": row.stack, "why": row.skipped} for row in answer.skipped]
        blocks += [
            Heading("Not compared"),
            table(reasons, {"model": "model", "stack": "stack", "why": "why"}),
        ]
    return Page(f"Validation: {answer.kind}, {answer.measurements}", tuple(blocks), answer.about)


def _left_out(answer: ValidateAnswer) -> list[Block]:
    rows = [row for row in answer.compared if row.incomplete is not None]
    if not rows:
        return []
    worst = max((abs(row.errors[name]) for row in rows for name in row.errors if name in POOLED), default=0.0)
    return [
        f"{len(rows)} rows leave open what their prediction needs; of them only weights enter the summary (pool or "
        f"tokens are off by up to {worst:.0%} under the defaults taken)."
    ]


def _summary(row: object) -> tuple[str, ...]:
    shares = ("mape", "median", "p90", "worst", "bias")
    cells = {key: getattr(row, key) for key in SUMMARY}
    return tuple(f"{value:+.2%}" if key == "bias" else f"{value:.2%}" if key in shares else str(value)
                 for key, value in cells.items())  # fmt: skip


def _rows(compared: tuple[MemoryRow, ...]) -> Table:
    used = {
        figure: parts for figure, parts in FIGURES.items() if any(figure in row.logged for row in compared)
    }
    headers = ("model", "GPU", "stack", "TP", "PP", "split", *(parts[0] for parts in used.values()))
    lines = []
    for row in compared:
        cells = [row.model, row.gpu, row.stack, str(row.tp), str(row.pp), row.split]
        cells += [_cell(row, figure, unit, regime) for figure, (_, unit, regime) in used.items()]
        lines.append(tuple(cells))
    return Table(headers, tuple(lines), (False,) * 3 + (True,) * 2 + (False,) + (True,) * len(used))


def _cell(row: MemoryRow, figure: str, unit: float, regime: str) -> str:
    if regime not in row.errors:
        return "-"
    mark = "" if row.incomplete is None or regime == "weights" else " (incomplete)"
    spelled = "{:,.0f}" if unit == 1 else "{:.2f}"
    logged, predicted = (spelled.format(side[figure] / unit) for side in (row.logged, row.predicted))
    return f"{logged} {predicted} {row.errors[regime]:+.2%}{mark}"
