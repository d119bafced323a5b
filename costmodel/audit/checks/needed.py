"""Times far above their bounds: how large a model would take so long, and what is left to explain them."""

from __future__ import annotations

from collections.abc import Iterator

from ...records import Figure
from .. import words
from ..case import Case
from ..finding import SUSPICIOUS, Finding, Inversion
from ..runs import Run
from ..subject import Unknown
from .bounds import floor_of, uncached
from .parallel import step_seconds

CHECK = "far_above_bound"
#: Multiples of the least time beyond which work is no explanation.
FAR = 10.0
#: Seconds up to which fixed costs are usual: of a decode step, of a prompt.
_SLOW_STEP, _SLOW_PROMPT = 0.015, 0.25
#: Prompts below this are launches more than products.
_LONG = 1024
_PROMPT, _STEP = ("prefill_time",), ("user_throughput", "decode_step_time", "tpot")


def check_far(case: Case) -> Iterator[Finding]:
    """Times of a prompt alone, or of the steps of one request alone, many times above what their work takes."""
    for run, figure in case.each(*_PROMPT, "ttft", *_STEP):
        if not _alone(run, figure):
            continue
        try:
            floor = floor_of(case, run, figure)
            if figure.metric not in _STEP and uncached(run, figure)[0] < _LONG:
                continue
        except Unknown:
            continue
        ratio = floor.seconds / floor.least.seconds
        if ratio < FAR or floor.seconds < (_SLOW_STEP if figure.metric in _STEP else _SLOW_PROMPT):
            continue
        told = f"{words.seconds(floor.seconds)} against {floor.least.arithmetic}"
        cause = (
            "a wait, another model or another GPU" if figure.metric in _PROMPT else "fixed costs of each step"
        )
        if figure.metric == "ttft":
            cause = "fixed costs of a request"
        said = f"{figure.metric} {figure.text} is {ratio:.3g} times its bound: {cause} make it, not FLOPs or bytes"
        yield Finding(CHECK, SUSPICIOUS, (figure.name,), said, told)


def _alone(run: Run, figure: Figure) -> bool:
    """Whether no other request takes part of the time; a percentile of prefill times may hold others."""
    if figure.metric in _PROMPT:
        return figure.statistic in ("mean", "p50", None)
    return (run.number("concurrency", figure) or run.number("batch", figure)) == 1


def invert_size(case: Case) -> Iterator[Inversion]:
    """Say how many parameters would take the time of a prompt, at peak and at half of it, in 16 bits."""
    for run, figure in case.each(*_PROMPT, "ttft", *_STEP):
        if not _alone(run, figure):
            continue
        try:
            if _explained(case, run, figure):
                continue
            if figure.metric in _STEP:
                yield _of_step(case, run, figure)
            else:
                yield from _of_prompt(case, run, figure)
        except Unknown:
            continue


def _explained(case: Case, run: Run, figure: Figure) -> bool:
    """Whether the stated model's own work is near the time."""
    try:
        floor = floor_of(case, run, figure)
    except Unknown:
        return _known(case, run, figure)
    usual = _SLOW_STEP if figure.metric in _STEP else _SLOW_PROMPT
    return floor.seconds < max(FAR * floor.least.seconds, usual)


def _known(case: Case, run: Run, figure: Figure) -> bool:
    """Whether the model is known, so that no size has to be guessed."""
    try:
        _ = case.subject(run, figure).model
        return True
    except Unknown:
        return False


def _of_prompt(case: Case, run: Run, figure: Figure) -> Iterator[Inversion]:
    subject = case.subject(run, figure)
    tokens, cached = uncached(run, figure)
    gpus, peak = subject.machine.most_per_prompt, subject.peak()
    if gpus is None:
        return
    for quantity, share in (("parameters", 1.0), ("parameters_at_half_peak", 0.5)):
        size = share * figure.value * peak * gpus / (2 * (tokens - cached))
        told = f"{figure.text} x {gpus} x {words.flops(peak)} x {share:g} / (2 x {tokens - cached:,} tokens)"
        yield _sized(case, run, figure, quantity, size, told)


def _of_step(case: Case, run: Run, figure: Figure) -> Inversion:
    subject = case.subject(run, figure)
    gpus, rate = subject.machine.most_per_step, subject.decoding.bandwidth
    if gpus is None:
        raise Unknown("the number of GPUs is not stated")
    size = step_seconds(figure) * rate * gpus / 2
    told = f"{words.seconds(step_seconds(figure))} x {gpus} x {words.rate(rate)} / 2 B"
    return _sized(case, run, figure, "parameters", size, told)


def _sized(case: Case, run: Run, figure: Figure, quantity: str, size: float, told: str) -> Inversion:
    subject = case.subject(run, figure)
    gpus = subject.machine.gpus or 1
    try:
        fits: bool | None = 2 * size <= gpus * subject.memory_bytes
    except Unknown:
        fits = None
    said = f"a model of {size / 1e9:,.3g}B parameters a token would take so long" + (
        f", and does not fit {gpus} GPU{'s' if gpus > 1 else ''} in 16 bits" if fits is False else ""
    )
    return Inversion(quantity, size, (figure.name,), told, fits, said)
