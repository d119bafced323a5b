"""The page of ``costmodel validate``: a summary of errors, the fits behind it, and every row of start-up logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..measured.compare import same_stack
from ..measured.errors import ErrorRow
from ..operators.catalogue import PARAMETERS
from ..questions.validate import ValidateAnswer, WholeRow
from ..questions.validate_memory import MemoryRow
from ..units import format_si
from .page import Block, Heading, Page, Table, banded, shown, table

SUMMARY = {
    "kind": "kind",
    "gpu": "GPU",
    "stack": "stack",
    "regime": "regime",
    "split": "split",
    "n": "n",
    "mape": "mean |error|",
    "median": "median",
    "p90": "P90",
    "worst": "largest",
    "bias": "mean error",
    "covered": "in band",
    "width": "band",
}
SHARES = ("mape", "median", "p90", "worst", "bias")
FIGURES = {
    "weights_bytes": ("weights, GiB", 2**30, "weights"),
    "activation_bytes": ("activation, GiB", 2**30, "activation"),
    "kv_pool_bytes": ("KV pool, GiB", 2**30, "kv_pool"),
    "kv_cache_tokens": ("KV tokens", 1, "kv_tokens"),
}
#: Figures that need everything a row should state.
#: Rows of whole steps and requests that are printed; JSON has all.
MOST_ROWS = 400
POOLED = ("kv_pool", "kv_tokens")


def page(answer: ValidateAnswer, detail: bool) -> Page:
    """Return the page of an answer; ``detail`` adds regimes, stacks of logs and the parameters of fits."""
    blocks: list[Block] = [errors_table([row for row in answer.rows if detail or _headline(row)])]
    below = sum(row.below_bound or 0 for row in answer.rows if row.regime == "all")
    if answer.fits:
        faster = sum(row.measured_below_bound or 0 for row in answer.rows if row.regime == "all")
        blocks.append(f"Below their physical bound: {below:,} predictions, {faster:,} measured times.")
        blocks += _lent(answer)
    if detail and answer.fits:
        blocks += [Heading("Fits"), _fits(answer)]
    if answer.whole and detail:
        blocks += [Heading("Measured, predicted, band"), _whole(answer.whole)]
    if answer.compared and (detail or answer.kind == "memory"):
        blocks += [*_left_out(answer), Heading("Logged, predicted, error"), _rows(answer.compared)]
    if answer.skipped and (detail or answer.kind == "memory"):
        reasons = [{"model": row.model, "stack": row.stack, "why": row.skipped} for row in answer.skipped]
        blocks += [
            Heading("Not compared"),
            table(reasons, {"model": "model", "stack": "stack", "why": "why"}),
        ]
    if answer.left_out:
        columns = {"where": "file", "rows": "rows", "why": "why"}
        blocks += [Heading("Rows left out"), table(answer.left_out, columns)]
    return Page(f"Validation: {answer.kind}, {answer.measurements}", tuple(blocks), answer.about)


def _lent(answer: ValidateAnswer) -> list[Block]:
    """Say which measurements another GPU or stack predicted."""
    lent: dict[tuple[str, str], list[str]] = {}
    for fit in answer.fits:
        measured, used = f"{fit.gpu}, {fit.stack}", f"{fit.borrowed or fit.gpu}, {fit.fitted_on_stack}"
        if not same_stack(fit.stack, fit.fitted_on_stack) or fit.borrowed:
            lent.setdefault((measured, used), []).append(fit.operator)
    if not lent:
        return []
    told = [f"{measured} ({', '.join(names)}) by {used}" for (measured, used), names in lent.items()]
    return [f"Predicted by fits of another GPU or stack: {'; '.join(told)}."]


def _headline(row: ErrorRow) -> bool:
    """What is printed without --detail: operators over all rows, memory by figure over all stacks."""
    if row.kind == "memory":
        return row.gpu == "all"
    if row.kind in ("step", "end_to_end"):
        return row.gpu == "all"
    return row.regime == "all"


def errors_table(rows: Sequence[ErrorRow]) -> Table:
    """Return a table of errors, in percent."""
    cells = tuple(tuple(_cell_of(row, key) for key in SUMMARY) for row in rows)
    return Table(tuple(SUMMARY.values()), cells, (False,) * 5 + (True,) * 8)


def _cell_of(row: ErrorRow, key: str) -> str:
    value = getattr(row, key)
    if key == "width":
        return "-" if value is None else f"x {value:.2f}"
    if key == "covered":
        return "-" if value is None else f"{value:.0%}".replace("%", " %")
    if key not in SHARES:
        return f"{value:,}" if isinstance(value, int) else str(value)
    digits = 2 if row.kind == "memory" else 1
    return f"{value:{'+' if key == 'bias' else ''}.{digits}%}".replace("%", " %")


def parameters_text(parameters: Mapping[str, float]) -> str:
    """Return fitted parameters with their units."""
    return ", ".join(
        f"{name} {format_si(value, PARAMETERS[name].dimension, 4)}" for name, value in parameters.items()
    )


def _fits(answer: ValidateAnswer) -> Table:
    headers = ("measured on", "operator", "predicted by", "form", "parameters")
    rows = tuple(
        (
            f"{fit.gpu}, {fit.stack}",
            fit.operator,
            f"{fit.borrowed or fit.gpu}, {fit.fitted_on_stack}",
            fit.form,
            parameters_text(fit.parameters),
        )
        for fit in answer.fits
    )
    return Table(headers, rows, (False,) * 5)


def _left_out(answer: ValidateAnswer) -> list[Block]:
    rows = [row for row in answer.compared if row.incomplete is not None]
    if not rows:
        return []
    worst = max((abs(row.errors[name]) for row in rows for name in row.errors if name in POOLED), default=0.0)
    return [
        f"{len(rows)} rows leave open what their prediction needs; of them only weights enter the summary (pool or "
        f"tokens are off by up to {worst:.0%} under the defaults taken)."
    ]


def _whole(rows: Sequence[WholeRow]) -> Table:
    headers = (
        "GPU", "software", "configuration", "what", "figure", "split", "measured", "predicted (band)", "error",
    )  # fmt: skip
    cells = tuple(
        (
            row.gpu, row.stack, row.configuration, row.what, row.measure, row.split, shown("time_s", row.measured_s),
            banded("time_s", row.predicted_s, row.low_s, row.high_s), f"{row.error:+.1%}".replace("%", " %"),
        )
        for row in rows[:MOST_ROWS]
    )  # fmt: skip
    return Table(headers, cells, (False,) * 6 + (True,) * 3)


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
