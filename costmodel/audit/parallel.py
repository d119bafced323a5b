"""Decode steps over tensor-parallel GPUs: what splitting leaves, what each all-reduce adds, what bandwidths read."""

from __future__ import annotations

from collections.abc import Iterator

from ..records import Figure
from ..units import format_si
from .case import Case
from .finding import HOLDS, INCONSISTENT, SUSPICIOUS, Finding, Inversion
from .runs import Run, Series
from .subject import Subject, Unknown

CHECK = "bytes_read"
_STEPS = ("user_throughput", "decode_step_time", "tpot", "itl")
#: Relative miss of bytes up to which they agree, and beyond which they contradict.
_CLOSE, _APART = 0.03, 0.25


def step_seconds(figure: Figure) -> float:
    """Return a decode step's time, s, of a time or of one sequence's tokens a second; inf for a rate of 0."""
    if figure.dimension == "token/second":
        return 1 / figure.value if figure.value > 0 else float("inf")
    return figure.value


def invert_tensor_parallel(case: Case) -> Iterator[Inversion]:
    """Split the smallest group's step over more GPUs: what a step takes beyond that is what they have to agree on."""
    for series in case.series:
        if series.varies == "tp" and series.metric in _STEPS:
            yield from _overheads(case, series)


def _overheads(case: Case, series: Series) -> Iterator[Inversion]:
    (fewest, first), *more = series.points
    base = step_seconds(first)
    for tp, figure in more:
        ideal, time = base * fewest / tp, step_seconds(figure)
        over, of = time - ideal, (figure.name, first.name)
        told = f"{format_si(time, 'second')} - {format_si(base, 'second')} x {fewest:g} / {tp:g}"
        yield Inversion("tp_overhead_s", over, of, told, over >= 0,
                        f"{format_si(over, 'second')} of a step over {tp:g} GPUs are not its share of the work")  # fmt: skip
        try:
            count = all_reduces(case.subject(series.run, figure))
        except Unknown:
            continue
        each = over / count
        yield Inversion("all_reduce_s", each, of, f"({told}) / {count} all-reduces", each >= 0,
                        f"two all-reduces a layer of {format_si(each, 'second')} each")  # fmt: skip


def all_reduces(subject: Subject) -> int:
    """Return the all-reduces of a step under tensor parallelism: two a layer. Raises Unknown."""
    return 2 * sum(layer.count for layer in subject.model.layers)


def check_bytes_read(case: Case) -> Iterator[Finding]:
    """Bandwidth achieved x time of a step = bytes read: the weights once, or what each rank holds whole besides."""
    for run in case.runs:
        rate = run.get("memory_bandwidth_achieved")
        step = next((f for metric in _STEPS if (f := run.get(metric)) is not None), None)
        if rate is None or step is None or not rate.value:
            continue
        subject = case.subject(run, step)
        try:
            yield _bytes(run, subject, rate, step)
        except Unknown:
            continue


def _bytes(run: Run, subject: Subject, rate: Figure, step: Figure) -> Finding:
    gpus = subject.machine.most_per_step or int(run.number("tp", step) or 1)
    batch = run.number("batch", step) or 1.0
    read = rate.value * step_seconds(step) * gpus
    least, each = fewest_bytes(subject, batch, batch * (run.number("input_tokens", step) or 0.0))
    whole = subject.model.hidden * subject.model.vocab * each
    most = least + (1 + 2 * (gpus - 1)) * whole
    of = (rate.name, step.name)
    told = (
        f"{gpus} x {format_si(rate.value, 'byte/second', 4)} x {format_si(step_seconds(step), 'second')} = "
        f"{format_si(read, 'byte', 4)} against {format_si(least, 'byte', 4)} read once, at most "
        f"{format_si(most, 'byte', 4)} with embedding and head on every GPU"
    )
    if least * (1 - _CLOSE) <= read <= most * (1 + _CLOSE):
        return Finding(CHECK, HOLDS, of, "bandwidth x time is what the weights of a step are", told)
    off = read / least if read < least else read / most
    grade = SUSPICIOUS if abs(off - 1) <= _APART else INCONSISTENT
    return Finding(CHECK, grade, of, f"bandwidth x time is {off:.3g} times the bytes of a step", told)


def fewest_bytes(subject: Subject, batch: float, context: float) -> tuple[float, float]:
    """Return the bytes that a decode step reads at least, and the bytes of a weight. Raises Unknown."""
    each = subject.weight_bytes / subject.parameters
    least = subject.decode(batch, context, 1)
    return least.bytes_moved, each


def invert_bytes_read(case: Case) -> Iterator[Inversion]:
    """Say how many bytes a step reads by its stated bandwidth."""
    for run in case.runs:
        rate = run.get("memory_bandwidth_achieved")
        step = next((f for metric in _STEPS if (f := run.get(metric)) is not None), None)
        if rate is None or step is None or not rate.value:
            continue
        gpus = case.subject(run, step).machine.most_per_step or int(run.number("tp", step) or 1)
        read = rate.value * step_seconds(step) * gpus
        told = f"{gpus} x {format_si(rate.value, 'byte/second', 4)} x {format_si(step_seconds(step), 'second')}"
        yield Inversion("bytes_read_bytes", read, (rate.name, step.name), told, None, "bytes that a step reads")
