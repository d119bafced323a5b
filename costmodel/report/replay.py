"""The page of ``costmodel replay``: strategies side by side, the slowest requests and why, and busy shares."""

from __future__ import annotations

from collections.abc import Sequence

from ..decision.replayed import Replayed, Window
from ..questions.replay import Answer
from .page import Block, Heading, Page, Table, shown
from .strategies import NONE, comparison, heading
from .tiers import gains, lines

FIGURES = {
    "requests": "requests",
    "finished": "finished",
    "rate_per_s": "arrival rate (closed loop: completions)",
    "ttft_p50_s": "TTFT, P50",
    "ttft_p90_s": "TTFT, P90",
    "ttft_p95_s": "TTFT, P95",
    "ttft_p95_ci_s": "TTFT, P95: +- with 95 % confidence",
    "ttft_p99_s": "TTFT, P99",
    "tpot_p50_s": "TPOT, P50",
    "tpot_p95_s": "TPOT, P95",
    "tpot_p99_s": "TPOT, P99",
    "e2e_p50_s": "E2E, P50",
    "e2e_p95_s": "E2E, P95",
    "queue_p95_s": "queue and admission, P95",
    "preemptions": "preemptions",
    "quantiles": "quantiles",
    "requests_per_cpu_s": "replayed, a second of CPU",
}
DETAILS = {
    "unfinished": "unfinished",
    "span_s": "first arrival to last end",
    "prompt_tokens": "prompt tokens",
    "output_tokens": "output tokens",
    "ttft_mean_s": "TTFT, mean",
    "ttft_max_s": "TTFT, largest",
    "tpot_mean_s": "TPOT, mean",
    "tpot_p90_s": "TPOT, P90",
    "e2e_mean_s": "E2E, mean",
    "e2e_p99_s": "E2E, P99",
    "stage_scale": "scale of P95 stages",
    "backlog_per_s": "growth of the backlog",
}
DICTIONARIES = {
    "Ledger: mean seconds a request": "ledger",
    "Stages of P95 TTFT: these add up": "ttft_p95_stages",
    "GPU-seconds a request": "gpu_s",
}
#: Rows of a table of busy shares.
_ROWS = 24


def page(answer: Answer, detail: bool) -> Page:
    """Lay out a replay."""
    results = answer.strategies
    blocks: list[Block] = [_summary(answer), comparison(answer), _figures(answer, results, FIGURES)]
    reused = [result.reuse for result in results if result.reuse]
    if reused:
        blocks += [*lines(reused), Heading("What KV tiers gain"), gains(reused)]
    if detail:
        blocks += [Heading("More figures"), _figures(answer, results, DETAILS)]
        for title, key in DICTIONARIES.items():
            blocks += [Heading(title), _dictionary(answer, results, key)]
    for result in results:
        if result.slowest:
            blocks += [Heading(f"Slowest requests, {result.name}"), _slowest(result, 10 if detail else 3)]
    if detail:
        for result in results:
            blocks += [Heading(f"Busy share over time, {result.name}"), _busy(result.utilisation_over_time)]
    return Page(f"Replay of {answer.trace}: {answer.model}", tuple(blocks), answer.about)


def _summary(answer: Answer) -> str:
    limits = [
        f"{name} <= {shown('limit_s', value)}"
        for name, value in (("TTFT", answer.slo_ttft_s), ("TPOT", answer.slo_tpot_s))
        if value is not None
    ]
    split = f"{answer.topology} pooled" if answer.topology.isdigit() else answer.topology
    told = f"{answer.hardware}, {split}; {answer.arrivals}"
    told += f"; {', '.join(limits)}" if limits else ""
    if answer.best is None:
        return f"{told}. No strategy keeps up."
    best = "" if len(answer.strategies) == 1 else f" Least mean delay: {answer.best}."
    return f"{told}.{best}"


def _columns(answer: Answer, results: Sequence[Replayed]) -> tuple[str, ...]:
    return ("", *(heading(answer, result) for result in results))


def _figures(answer: Answer, results: Sequence[Replayed], labels: dict[str, str]) -> Table:
    rows = []
    for key, label in labels.items():
        cells = tuple(_cell(key, getattr(result, key)) for result in results)
        if any(cell != NONE for cell in cells):
            rows.append((label, *cells))
    return Table(_columns(answer, results), tuple(rows), (False, *(True for _ in results)))


def _cell(key: str, value: object) -> str:
    return NONE if value is None or value == "" else shown(key, value)


def _dictionary(answer: Answer, results: Sequence[Replayed], key: str) -> Table:
    found = [getattr(result, key) or {} for result in results]
    names = list(dict.fromkeys(name for values in found for name in values))
    rows = tuple((name, *(_cell(name, values.get(name)) for values in found)) for name in names)
    return Table(_columns(answer, results), rows, (False, *(True for _ in results)))


def _slowest(result: Replayed, most: int) -> str:
    return "\n".join(f"- {story.text}" for story in result.slowest[:most])


def _busy(windows: Sequence[Window]) -> Table:
    """Busy shares of each pool in turn; of many windows, an even pick."""
    rows = []
    for pool in dict.fromkeys(window.pool for window in windows):
        own = [window for window in windows if window.pool == pool]
        for window in own[:: max(1, -(-len(own) // _ROWS))]:
            cells = shown("start_s", window.start_s), shown("end_s", window.end_s), f"{window.busy_share:.0%}"
            rows.append((pool, *cells))
    return Table(("pool", "from", "to", "busy"), tuple(rows), (False, True, True, True))
