"""Throughput whose tokens are not said: which of prompt, output and both fits the requests of the same run."""

from __future__ import annotations

from collections.abc import Iterator

from ...records import Figure
from ..case import Case
from ..finding import HOLDS, SUSPICIOUS, Finding
from ..runs import Run, named
from .definitions import tokens_of
from .identities import mean_e2e

CHECK = "throughput_reading"
#: Relative difference up to which a reading fits: runs ramp up and drain.
_FITS = 0.1


def check_readings(case: Case) -> Iterator[Finding]:
    """Compare throughput by each of its readings with requests x tokens; none is taken for the report's own."""
    for run, figure in case.each("throughput"):
        isl, osl, found = tokens_of(run, "input"), tokens_of(run, "output"), _requests(run)
        gpus = case.subject(run, figure).machine.gpus if figure.per_gpu else 1
        if isl is None or osl is None or found is None or not gpus or figure.value <= 0:
            continue
        rate, told, of = found
        each, readings = figure.value * gpus / rate, {"input": isl, "output": osl, "total": isl + osl}
        whole = f"{figure.text} x {gpus} GPUs" if figure.per_gpu else figure.text
        yield _read(figure, each, readings, f"{whole} / {told} = {each:.4g} tokens a request", of)


def _requests(run: Run) -> tuple[float, str, tuple[Figure, ...]] | None:
    """Requests a second: as stated, of a run's number and duration, or of the clients of a closed loop."""
    rate, duration, count = run.get("request_throughput"), run.get("duration"), run.number("requests")
    if rate is not None and not rate.per_gpu and rate.value > 0:
        return rate.value, rate.text, (rate,)
    if duration is not None and count and duration.value > 0:
        return count / duration.value, f"({count:g} / {duration.text})", (duration,)
    e2e, clients = mean_e2e(run), run.number("concurrency")
    if e2e is None or not clients or run.number("arrival_rate") or e2e[0] <= 0:
        return None
    return clients / e2e[0], f"({clients:g} clients / {e2e[1]})", e2e[2]


def _read(
    figure: Figure, each: float, readings: dict[str, float], told: str, of: tuple[Figure, ...]
) -> Finding:
    names = named((figure, *of))
    against = ", ".join(f"{kind} {tokens:g}" for kind, tokens in readings.items())
    fitting = [kind for kind, tokens in readings.items() if tokens and abs(each / tokens - 1) <= _FITS]
    if fitting:
        said = f"{figure.text} fits as throughput of {' or '.join(fitting)} tokens: which it counts is not stated"
        return Finding(CHECK, HOLDS, names, said, f"{told} against {against}")
    said = f"{figure.text} fits neither as throughput of prompt tokens, nor of output tokens, nor of both"
    return Finding(CHECK, SUSPICIOUS, names, said, f"{told} against {against}")
