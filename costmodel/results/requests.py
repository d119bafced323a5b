"""Logs of single requests as records: means and percentiles of what was measured of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from ..inputs.traces import LoggedRequest, Notes, read_log, runs_of
from ..records.record import Record
from .bench import TPOT, TTFT_FROM
from .lengths import state_lengths
from .sheet import Sheet
from .spread import add_figures

#: Columns that tell runs apart, and the conditions they are.
_RUN = {
    "gpu": "hardware", "model": "model", "tp": "tp", "max_num_seqs": "max_num_seqs",
    "max_num_batched_tokens": "max_num_batched_tokens", "vllm": "engine_version",
}  # fmt: skip
_MEASURED: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("ttft_s", "ttft", {"ttft_from": TTFT_FROM}),
    ("ttft_from_queued_s", "ttft", {"ttft_from": "the engine's queue"}),
    ("e2e_s", "e2e", {}),
    ("e2e_from_queued_s", "e2e", {"ttft_from": "the engine's queue"}),
    ("tpot_s", "tpot", {"tpot_definition": TPOT}),
    ("queue_s", "prefill_queue_time", {}),
    ("prefill_s", "prefill_time", {}),
    ("decode_s", "decode_time", {}),
)


def read_requests(path: Path, name: str) -> list[Record]:
    """Return a record for each run of a log. Raises InputError as ``read_log``."""
    runs = runs_of(path)
    differ = [key for key in runs[0] if len({run.get(key) for run in runs}) > 1]
    return [replace(_record(path, run, name, differ), rows=run) for run in runs]


def _record(path: Path, run: Mapping[str, str], name: str, differ: Collection[str]) -> Record:
    notes = Notes()
    log = list(read_log(path, run, notes, timed=False))
    at = ", ".join(f"{key}={run[key]}" for key in differ)
    sheet = Sheet({}, str(path), at)
    for key, text in run.items():
        if key in _RUN:
            sheet.state(_RUN[key], text, f"column {key}")
    if run.get("vllm"):
        sheet.state("engine", "vLLM", "column vllm")
    sheet.state("requests", len(log), "rows")
    state_lengths(sheet, "input", "prompt_tokens", [logged.request.isl for logged in log])
    state_lengths(sheet, "output", "output_tokens", [logged.request.output_tokens for logged in log])
    _state_arrivals(sheet, log, notes)
    for field, metric, conditions in _MEASURED:
        times = [time for logged in log if (time := getattr(logged, field, None)) is not None]
        add_figures(sheet, metric, field, times, conditions)
    for reason, count in notes.skipped.items():
        sheet.warn(f"{count:,} requests left out: {reason}")
    if notes.unread:
        sheet.warn(notes.told())
    return sheet.record(name, notes.format, notes.format)


def _state_arrivals(sheet: Sheet, log: list[LoggedRequest], notes: Notes) -> None:
    """Add the rate at which requests were sent, from the first to the last; of recorded times nothing else is known."""
    if not notes.has_arrivals or len(log) < 2:
        return
    span = log[-1].request.arrival_s - log[0].request.arrival_s
    if span > 0:
        text = f"{len(log) - 1:,} gaps in {span:.6g} s"
        sheet.figure("offered_rate", "arrival_s", (len(log) - 1) / span, "req/s", text=text)
