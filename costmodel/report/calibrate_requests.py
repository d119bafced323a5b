"""The page of ``costmodel calibrate`` for a log of requests: errors of both halves, step times, what was written."""

from __future__ import annotations

from collections.abc import Sequence

from ..inputs.step_times import ERRORS, PARAMETERS, StepFit
from ..questions.calibrate_requests import CalibrateRequestsAnswer
from .page import Block, Heading, Page, Table, shown

NAMES = {
    "fixed": "every step",
    "sequence": "a decode",
    "cached_token": "a cached token",
    "prompt_token": "a prompt token",
    "pair": "a pair of tokens",
}
HEADERS = {name: name.upper().replace("_", " ") for name in ERRORS}


def page(answer: CalibrateRequestsAnswer, detail: bool) -> Page:
    """Return the page of an answer; ``detail`` adds how each engine ran."""
    blocks: list[Block] = [
        "Replayed over measured, less 1:",
        _errors(answer.runs),
        Heading("Step times"),
        _table(("model", *NAMES.values()), [(run.model, *_times(run)) for run in answer.runs], 1),
    ]
    if detail:
        blocks += [Heading("Engines"), _engines(answer.runs)]
    blocks += [f"written: {path}" for path in answer.files] or ["nothing written: pass -o FILE.toml"]
    return Page(f"Step times calibrated on {answer.date}", tuple(blocks), answer.about)


def _errors(runs: tuple[StepFit, ...]) -> Table:
    rows = []
    for run in runs:
        named = (run.model, run.gpu, str(run.tp), run.stack)
        for half, count, errors in (
            ("fitted", run.requests, run.fitted), ("held out", run.held_out_requests, run.held_out),
        ):  # fmt: skip
            signed = (f"{errors[name]:+.1%}".replace("%", " %") if name in errors else "-" for name in ERRORS)
            rows.append((*named, half, f"{count:,}", *signed))
    return _table(("model", "GPU", "TP", "stack", "half", "requests", *HEADERS.values()), rows, 5)


def _times(run: StepFit) -> list[str]:
    return [shown("time_s", getattr(run.steps, f"{name}_s")) for name in PARAMETERS]


def _engines(runs: tuple[StepFit, ...]) -> Table:
    headers = ("model", "token budget", "sequences", "KV tokens", "plans ahead", "TTFT and E2E from")
    rows = [
        (
            run.model, f"{run.token_budget:,}", f"{run.max_seqs:,}", f"{run.kv_tokens:,}",
            shown("lag", run.lag), run.ttft_from,
        )
        for run in runs
    ]  # fmt: skip
    return _table(headers, rows, 1)


def _table(headers: tuple[str, ...], rows: Sequence[tuple[str, ...]], texts: int) -> Table:
    """A table whose first ``texts`` columns are not numbers."""
    return Table(headers, tuple(rows), tuple(place >= texts for place in range(len(headers))))
