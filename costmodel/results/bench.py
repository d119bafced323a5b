"""What the clients of vLLM and SGLang have in common: names of statistics, loads, counts of requests."""

from __future__ import annotations

import math
import re

from .lengths import state_lengths, state_mean
from .sheet import Sheet, statistic

#: Measures by the names of both clients.
MEASURES = {
    "ttft": "ttft",
    "tpot": "tpot",
    "itl": "itl",
    "e2el": "e2e",
    "e2e_latency": "e2e",
    "server_queue_time": "prefill_queue_time",
}
RATES = {
    "request_throughput": ("request_throughput", "req/s"),
    "output_throughput": ("output_throughput", "tok/s"),
    "input_throughput": ("input_throughput", "tok/s"),
    "total_token_throughput": ("total_throughput", "tok/s"),
    "total_throughput": ("total_throughput", "tok/s"),
    "duration": ("duration", "s"),
}
#: Measured, but nothing here computes it: words of the clients' own.
OTHERS = {
    "request_goodput": "req/s",
    "request_goodput:": "req/s",  # so written before September 2025
    "max_output_tokens_per_s": "tok/s",
    "max_concurrent_requests": "",
    "accept_length": "",
    "spec_decode_acceptance_length": "",
    "spec_decode_acceptance_rate": "%",
}
TTFT_FROM = "the client's sending"
TPOT = "(E2E - TTFT) / (OSL - 1) of a request"
#: Definitions of the measures that both clients share.
DEFINED = {"ttft": {"ttft_from": TTFT_FROM}, "tpot": {"tpot_definition": TPOT}}
_TIME = re.compile(r"(mean|median|std|min|max|p[0-9.]{1,6})_([a-z0-9_]+)_(ms|s)")


def read_measures(sheet: Sheet, completed: int | None) -> None:
    """Add every figure of the client; none where no request completed, since its zeros measure nothing."""
    for key in sheet.fields:
        name, unit = RATES.get(key) or (key.rstrip(":"), OTHERS.get(key))
        match, word = _TIME.fullmatch(key), None
        if match and unit is None and (word := statistic(match[1])):
            name, unit = MEASURES.get(match[2], match[2]), match[3]
        if unit is None:
            continue
        value = sheet.take(key)
        if value is not None and completed != 0:
            sheet.figure(name, key, value, unit, word, conditions=DEFINED.get(name))
    if any(
        key in sheet.fields and sheet.has(key) for key in ("accept_length", "spec_decode_acceptance_length")
    ):
        sheet.warn("decoding was speculative: a step gives more than one token")


def state_load(sheet: Sheet, default: str) -> None:
    """State how requests were sent; ``default``: the process of a finite rate whose burstiness is not told."""
    rate = sheet.take("request_rate")
    most, shape = sheet.count("max_concurrency"), sheet.number("burstiness")
    if rate is None and most is None:
        return
    endless = (
        rate is None or rate == math.inf or (isinstance(rate, str) and rate.lower() in ("inf", "infinity"))
    )
    if endless and most:
        sheet.state("arrival_process", "closed loop", "max_concurrency")
        sheet.state("concurrency", most, "max_concurrency")
    elif endless:
        sheet.state("arrival_process", "all at once", "request_rate")
    elif rate == "trace":
        sheet.state("arrival_process", f"times of a trace{_capped(most)}", "request_rate")
    else:
        number = sheet.checked("request_rate", rate)
        if number:
            sheet.state("arrival_rate", number, "request_rate")
            sheet.state("arrival_process", _process(shape, default) + _capped(most), "request_rate")
        elif number == 0:
            sheet.note("request_rate: 0 requests a second is no rate; expected more than 0, or inf")


def _process(shape: float | None, default: str) -> str:
    """Return the arrival process of gaps that are gamma of this shape, 1 being exponential."""
    if not shape or shape == 1:
        return default
    return f"gamma gaps, coefficient of variation {1 / math.sqrt(shape):.3g}"


def _capped(most: int | None) -> str:
    return f", at most {most:,} at a time" if most else ""


def state_requests(sheet: Sheet, asked: int | None) -> int | None:
    """State how many requests completed, of which figures are; warn of those that failed. Return the number."""
    completed, failed = sheet.count("completed"), sheet.count("failed")
    if asked is None and completed is not None and failed is not None:
        asked = completed + failed
    done = completed or (asked if completed is None else None)
    if done:
        sheet.state("requests", done, "num_prompts" if completed is None else "completed")
    if asked is not None and completed is not None and completed > asked:
        sheet.note(f"completed: {completed:,} of {asked:,} requests; no more can complete than were sent")
    if completed == 0:
        sheet.warn("no request completed: the result measures nothing, and its zeros are not read")
    elif asked and completed is not None and completed < asked:
        sheet.warn(f"{asked - completed:,} of {asked:,} requests failed; figures are of the others")
    elif failed:
        sheet.warn(f"{failed:,} requests failed; figures are of the others")
    return completed


def read_lengths(sheet: Sheet, completed: int | None) -> None:
    """State lengths by the requests that succeeded, else means of the totals."""
    errors = sheet.take("errors")
    failed = [bool(error) for error in errors] if isinstance(errors, list) else []
    for side, key, total in (
        ("input", "input_lens", "total_input_tokens"),
        ("output", "output_lens", "total_output_tokens"),
    ):
        lengths = sheet.counts(key)
        tokens = sheet.count(total)
        if lengths is not None:
            bad = failed if len(failed) == len(lengths) else [False] * len(lengths)
            state_lengths(sheet, side, key, [n for n, error in zip(lengths, bad) if n and not error])
        else:
            state_mean(sheet, side, total, tokens, completed)
