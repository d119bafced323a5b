"""Stages of a request beside the whole: a part is never above it, means add up, percentiles do not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...records import Figure
from ...units import format_si
from ..case import MEANS, Case
from ..finding import HOLDS, IMPOSSIBLE, INCONSISTENT, SUSPICIOUS, Finding, Inversion, not_computable
from ..runs import Run, named
from ..written import resolution

STAGES, ADDED = "stages", "percentiles_added"
#: Stages of each whole, in the order in which a request passes them.
_TO_FIRST_TOKEN = ("prefill_queue_time", "prefill_time", "kv_transfer_time", "decode_queue_time")
WHOLES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("ttft", _TO_FIRST_TOKEN),
    ("e2e", (*_TO_FIRST_TOKEN, "decode_time")),
    ("e2e", ("ttft", "decode_time")),
    ("handover_time", ("kv_transfer_time", "decode_queue_time")),
)
#: Stages that only a hand-over between instances has.
_OF_HANDOVER = ("kv_transfer_time", "decode_queue_time")
#: Stages that add up to the whole this closely were added; means that leave more than a tenth open lack a stage.
_ADDS_UP, _LEAST_TOLD = 0.005, 0.90


@dataclass(frozen=True)
class Breakdown:
    """Stages of one run at one statistic, the whole at the same, and the stages that the report does not give."""

    run: Run
    statistic: str | None
    parts: tuple[Figure, ...]
    whole: Figure
    lacking: tuple[str, ...]

    @property
    def total(self) -> float:
        """Sum of the stages, in seconds."""
        return sum(part.value for part in self.parts)

    @property
    def arithmetic(self) -> str:
        """The sum beside the whole."""
        summed = " + ".join(_s(part.value) for part in self.parts)
        return f"{summed} = {_s(self.total)} against {_s(self.whole.value)}"

    @property
    def of(self) -> tuple[str, ...]:
        """Names of its figures."""
        return named((*self.parts, self.whole))

    @property
    def label(self) -> str:
        """Statistic and whole in words."""
        return f"{self.statistic or 'mean'} {self.whole.metric}"


def check_stages(case: Case) -> Iterator[Finding]:
    """Compare stages with the whole of the same run and statistic."""
    for broken in _breakdowns(case):
        above = [part for part in broken.parts if part.value > broken.whole.value + _open(broken.whole, part)]
        yield from (_above(broken, part) for part in above)
        if above or len(broken.parts) < 2:
            continue
        yield from _means(broken) if broken.statistic in MEANS else _percentiles(broken)


def _breakdowns(case: Case) -> Iterator[Breakdown]:
    seen: set[tuple[str, ...]] = set()
    for run in case.runs:
        outside = _OF_HANDOVER if _one_pool(case, run) else ()
        for metric, every in WHOLES:
            stages = tuple(s for s in every if s not in (*outside, *_outside_ttft(run, metric)))
            for statistics in _statistics(run, metric):
                whole = run.get(metric, *statistics)
                parts = tuple(part for stage in stages if (part := run.get(stage, *statistics)))
                if whole is None or not parts or whole.value <= 0 or _ranges(whole, *parts):
                    continue
                told = {part.metric for part in parts}
                made = Breakdown(run, statistics[0], parts, whole, tuple(s for s in stages if s not in told))
                # Percentiles of TTFT, decode and E2E stand side by side everywhere: nobody offers them as a breakdown.
                if made.of not in seen and (statistics == MEANS or "ttft" not in told):
                    seen.add(made.of)
                    yield made


def _statistics(run: Run, metric: str) -> list[tuple[str | None, ...]]:
    """Statistics that the whole is given at; means and figures without one go together."""
    told = dict.fromkeys(figure.statistic for figure in run.all(metric))
    percentiles: list[tuple[str | None, ...]] = [(each,) for each in told if each not in MEANS]
    return percentiles + ([MEANS] if set(told) & set(MEANS) else [])


def _ranges(*figures: Figure) -> bool:
    """Whether figures are known between two ends alone, as those of a histogram's buckets are."""
    return any(figure.high is not None for figure in figures)


def _one_pool(case: Case, run: Run) -> bool:
    """Whether prefill and decode are stated to share their GPUs."""
    return "coloc" in run.text("strategy") or case.subject(run).machine.decode == 0


def _outside_ttft(run: Run, metric: str) -> tuple[str, ...]:
    """Stages after a first token that prefill sends, and the wait before a clock that starts at scheduling."""
    if metric != "ttft":
        return ()
    after = _OF_HANDOVER if "prefill" in run.text("first_token") else ()
    return (*after, "prefill_queue_time") if "sched" in run.text("ttft_from") else after


def _above(broken: Breakdown, part: Figure) -> Finding:
    said = (
        f"{broken.statistic or 'mean'} {part.metric} {part.text} is above that of {broken.whole.metric}, "
        "which it is a part of: no order of requests allows it"
    )
    told = f"{_s(part.value)} > {_s(broken.whole.value)}"
    return Finding(STAGES, IMPOSSIBLE, (part.name, broken.whole.name), said, told)


def _means(broken: Breakdown) -> Iterator[Finding]:
    share = broken.total / broken.whole.value
    rest = broken.whole.value - broken.total
    if rest < -_open(broken.whole, *broken.parts):
        said = (
            f"stages add up to {share:.1%} of {broken.label}: means of parts add up to the mean of the whole"
        )
        yield Finding(STAGES, IMPOSSIBLE, broken.of, said, broken.arithmetic)
    elif broken.lacking:
        said = f"stages are {share:.0%} of {broken.label}; {', '.join(broken.lacking)} are not given"
        yield Finding(STAGES, HOLDS, broken.of, said, broken.arithmetic)
    elif share < _LEAST_TOLD:
        said = f"{_s(rest)} of {broken.label}, {1 - share:.0%}, are in no stage"
        yield Finding(STAGES, SUSPICIOUS, broken.of, said, broken.arithmetic)
    else:
        yield Finding(
            STAGES, HOLDS, broken.of, f"stages are {share:.0%} of {broken.label}", broken.arithmetic
        )


def _percentiles(broken: Breakdown) -> Iterator[Finding]:
    rest = broken.whole.value - broken.total
    not_additive = (
        f"the {broken.statistic} of a sum is not the sum of its parts' {broken.statistic}, "
        "as no request need be at it in every stage"
    )
    share = broken.total / broken.whole.value
    if abs(rest) <= _ADDS_UP * broken.whole.value + _open(broken.whole, *broken.parts):
        said = f"stages are {share:.1%} of {broken.label}: percentiles were added, yet {not_additive}"
        yield Finding(ADDED, SUSPICIOUS, broken.of, said, broken.arithmetic)
    elif rest < 0 or not broken.lacking:
        more = f"{_s(rest)} are explained by no stage" if rest > 0 else f"{_s(-rest)} more than the whole"
        said = f"as a breakdown of {broken.label} stages add up to {share:.0%}, {more}; {not_additive}"
        yield Finding(ADDED, INCONSISTENT, broken.of, said, broken.arithmetic)
    else:
        reason = f"{_s(rest)} may be {' and '.join(broken.lacking)}, which it does not give; {not_additive}"
        yield not_computable(ADDED, broken.of, f"stages of {broken.label}, {broken.run.name}", reason)


def invert_handover(case: Case) -> Iterator[Inversion]:
    """Say what of a hand-over is not the copy: orchestration, at the same statistic where both name one."""
    for run, whole in case.each("handover_time"):
        same = run.get("kv_transfer_time", whole.statistic) or run.get("kv_transfer_time", *MEANS)
        if same is None or not 0 < same.value <= whole.value:
            continue
        rest, share = whole.value - same.value, same.value / whole.value
        said = f"the copy is {share:.1%} of the hand-over; {_s(rest)} are orchestration"
        told = f"{_s(whole.value)} - {_s(same.value)} = {_s(rest)}"
        yield Inversion("orchestration_s", rest, named((whole, same)), told, True, said)


def _open(*figures: Figure) -> float:
    """Seconds that the rounding of figures leaves open together."""
    return sum(resolution(figure) for figure in figures)


def _s(seconds: float) -> str:
    return format_si(seconds, "second", 5)
