"""Fetching the KV of a prompt against computing it: the bandwidth from which on a fetch is the quicker."""

from __future__ import annotations

from collections.abc import Iterator

from ...records import Figure
from .. import words
from ..case import Case
from ..finding import Inversion
from ..runs import Run
from ..subject import Unknown
from ..wires import wire_of

#: Figures of a report that moves or keeps the KV of prompts.
_MOVED = (
    "kv_transfer_time",
    "kv_transfer_bandwidth",
    "handover_time",
    "cache_hit_rate",
    "load_time",
    "ttft_speedup",
)


def invert_reuse(case: Case) -> Iterator[Inversion]:
    """Say from which bandwidth on fetching a prompt's KV takes less than computing it at peak, prompt by prompt."""
    told: set[tuple[int, int]] = set()
    for run, figure in case.each(*_MOVED):
        tokens, subject = run.number("input_tokens", figure), case.subject(run, figure)
        gpus = subject.machine.most_per_prompt
        if not tokens or not gpus or (int(tokens), gpus) in told:
            continue
        told.add((int(tokens), gpus))
        try:
            size, least = subject.kv_bytes(int(tokens)), subject.prefill(int(tokens), 0, gpus)
        except Unknown:
            continue
        rate = size / least.seconds
        said = (
            f"above {words.rate(rate)} a fetch of {tokens:,.0f} tokens is quicker than computing them at peak"
        )
        arithmetic = f"{words.size(size, 4)} / ({least.arithmetic})"
        yield Inversion(
            "break_even_bytes_per_s",
            rate,
            (figure.name,),
            arithmetic,
            _carried(case, run, figure, rate),
            said,
        )


def _carried(case: Case, run: Run, figure: Figure, rate: float) -> bool | None:
    """Whether the stated link carries so much; None where none is stated."""
    try:
        return wire_of(run, case.subject(run, figure), figure).bytes_per_s >= rate
    except Unknown:
        return None
