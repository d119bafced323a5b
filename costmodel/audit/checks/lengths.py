"""Lengths of requests: those that other figures imply, and those that the engine does not serve."""

from __future__ import annotations

from collections.abc import Iterator

from ...records import Figure
from ..case import MEANS, Case
from ..finding import INCONSISTENT, Finding, Inversion
from ..runs import Run
from .definitions import GAPS, definition_of, tokens_of

#: Relative difference from which on times imply other lengths than stated.
_APART = 0.1
_TOKENS = {
    "input_throughput": "input_tokens",
    "output_throughput": "output_tokens",
    "total_throughput": "tokens_per_request",
}


def check_lengths(case: Case) -> Iterator[Finding]:
    """Prompt and output of a request must fit the longest sequence that the engine serves."""
    for run in case.runs:
        isl, osl, most = (run.number(key) for key in ("input_tokens", "output_tokens", "max_model_len"))
        if not isl or not most or isl + (osl or 0) <= most:
            continue
        told = f"{isl:g} + {osl or 0:g} tokens against {most:g}"
        said = (
            "requests are longer than the engine serves: they were cut or refused, and are others than stated"
        )
        yield Finding("longer_than_served", INCONSISTENT, tuple(f.name for f in run.figures), said, told)


def invert_lengths(case: Case) -> Iterator[Inversion]:
    """Say which tokens of a request the rates, or the times, of a run imply where it does not state them."""
    for run in case.runs:
        rate = run.get("request_throughput")
        if rate is not None and rate.value > 0:
            yield from _of_rates(run, rate)
        yield from _of_times(run)


def _of_rates(run: Run, rate: Figure) -> Iterator[Inversion]:
    for metric, quantity in _TOKENS.items():
        tokens = run.get(metric)
        known = run.number(quantity) is not None or None not in (
            run.number("input_tokens"),
            run.number("output_tokens"),
        )
        if tokens is None or known or tokens.per_gpu != rate.per_gpu:
            continue
        counts = run.text("throughput_counts")
        kind = {"input_tokens": "prompt", "output_tokens": "output"}.get(
            quantity, counts or "prompt or output"
        )
        each = tokens.value / rate.value
        yield Inversion(quantity, each, (tokens.name, rate.name), f"{tokens.text} / {rate.text}", each >= 1,
                        f"a request has {each:.4g} {kind} tokens on average")  # fmt: skip


def _of_times(run: Run) -> Iterator[Inversion]:
    ttft, e2e = run.get("ttft", *MEANS), run.get("e2e", *MEANS)
    gap = run.get("tpot", *MEANS) or run.get("itl", *MEANS)
    if not (ttft and e2e and gap and gap.value):
        return
    stated, osl = tokens_of(run, "output"), 1 + (e2e.value - ttft.value) / gap.value
    if stated and (definition_of(run) not in (None, GAPS) or abs(osl / stated - 1) <= _APART):
        return
    told, instead = f"1 + ({e2e.text} - {ttft.text}) / {gap.text}", f", not {stated:g}" if stated else ""
    yield Inversion("output_tokens", osl, (ttft.name, gap.name, e2e.name), told,
                    osl >= 1, f"a request has {osl:.4g} output tokens on average{instead}")  # fmt: skip
