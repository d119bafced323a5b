"""Decode steps over tensor-parallel GPUs: what splitting leaves, what each all-reduce adds, what bandwidths read."""

from __future__ import annotations

from collections.abc import Iterator

from ...records import Figure
from .. import words
from ..case import Case
from ..finding import HOLDS, INCONSISTENT, SUSPICIOUS, Finding, Inversion
from ..runs import Run, Series
from ..subject import Subject, Unknown
from .bounds import floor_of

CHECK = "bytes_read"
_STEPS = ("user_throughput", "decode_step_time", "tpot", "itl")
#: Relative miss of bytes up to which they agree, and beyond which they contradict.
_CLOSE, _APART = 0.03, 0.25
#: Bytes of an activation, and part of a prompt's time from which its all-reduces are told of.
_ACTIVATION, _TELLING = 2.0, 0.05


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
        told = f"{words.seconds(time)} - {words.seconds(base)} x {fewest:g} / {tp:g}"
        said = f"{words.seconds(over)} of a step over {tp:g} GPUs are not its share of the work"
        yield Inversion("tp_overhead_s", over, of, told, over >= 0, said)
        try:
            count = all_reduces(case.subject(series.run, figure))
        except Unknown:
            continue
        each = over / count
        yield Inversion("all_reduce_s", each, of, f"({told}) / {count} all-reduces", each >= 0,
                        f"two all-reduces a layer of {words.seconds(each)} each")  # fmt: skip


def invert_all_reduce(case: Case) -> Iterator[Inversion]:
    """Say what an all-reduce takes at most, where a report gives one tensor-parallel group alone."""
    told = {figure.name for s in case.series if s.varies == "tp" for _, figure in s.points}
    for run, figure in case.each(*_STEPS):
        tp = run.number("tp", figure) or run.number("decode_tp", figure) or 1
        under_way = run.number("batch", figure) or run.number("concurrency", figure)
        alone = under_way == 1 or (
            under_way is None and figure.metric in ("decode_step_time", "user_throughput")
        )
        if tp < 2 or figure.name in told or not alone or figure.statistic not in ("mean", "p50", None):
            continue
        subject = case.subject(run, figure)
        try:
            least, count = floor_of(case, run, figure).least, all_reduces(subject)
        except Unknown:
            continue
        over = step_seconds(figure) - least.seconds
        if over > 0:
            each, how = (
                over / count,
                f"({words.seconds(step_seconds(figure))} - {least.arithmetic}) / {count}",
            )
            said = f"at most, if two all-reduces a layer are all that is beyond the bytes of {tp:g} GPUs"
            yield Inversion("all_reduce_s", each, (figure.name,), how, True, said)


def invert_prompt_all_reduces(case: Case) -> Iterator[Inversion]:
    """Say what the all-reduces of a prompt take on the link between the GPUs, where that is a part of its time."""
    for run, figure in case.each("ttft", "prefill_time"):
        tokens, tp = (
            run.number("input_tokens", figure),
            run.number("tp", figure) or run.number("prefill_tp", figure),
        )
        if not tokens or not tp or tp < 2 or figure.value <= 0:
            continue
        subject = case.subject(run, figure)
        try:
            each = 2 * (tp - 1) / tp * tokens * subject.model.hidden * _ACTIVATION
            count, link = all_reduces(subject), subject.gpu.values.get(subject.gpu.tp_link or "")
        except Unknown:
            continue
        if link is None or count * each / link.value < _TELLING * figure.value:
            continue
        time = count * each / link.value
        told = f"{count} x {words.size(each)} a GPU / {words.rate(link.value)}"
        part = f"{time / figure.value:.0%} of {figure.text}"
        said = f"all-reduces over {tp:g} GPUs take {words.seconds(time)} at the link's rate, {part}"
        yield Inversion("all_reduce_wire_s", time, (figure.name,), told, time <= figure.value, said)


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
        f"{gpus} x {words.rate(rate.value, 4)} x {words.seconds(step_seconds(step))} = "
        f"{words.size(read, 4)} against {words.size(least, 4)} read once, at most "
        f"{words.size(most, 4)} with embedding and head on every GPU"
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
        told = f"{gpus} x {words.rate(rate.value, 4)} x {words.seconds(step_seconds(step))}"
        yield Inversion(
            "bytes_read_bytes", read, (rate.name, step.name), told, None, "bytes that a step reads"
        )
