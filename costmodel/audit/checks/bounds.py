"""Figures against what physics needs at least: FLOPs over the peak rate, bytes over the peak bandwidth."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ...records import Figure
from ...serving.work import Chunk
from .. import words
from ..case import Case
from ..finding import HOLDS, IMPOSSIBLE, INCONSISTENT, SUSPICIOUS, Finding, Inversion, not_computable
from ..runs import Run
from ..subject import NARROW, Least, Subject, Unknown
from ..written import rounding

CHECK = "below_bound"
PREFILL = ("ttft", "prefill_time", "stall_time", "mixed_step_time")
DECODE = ("tpot", "itl", "decode_step_time")
#: Most that rounding excuses: beyond it a figure was meant as it is written.
SLIGHT = 0.01
#: Where a floor counts no more than parameters: nothing faster can be meant.
_SIZES = ("as stated", "by its name", "of the model")
#: Sequences of a step whose weights are read for next to nothing each.
_ANY_BATCH = 65536.0
#: Words of a cache that answered prompts, and figures that it shortens.
_WARM = re.compile(
    r"\bwarm|\bhits?\b|re-?used?\b|second (?:pass|run|round)|populated|offload|external|shared prefix"
)
_CACHED = (*PREFILL[:3], "input_throughput", "total_throughput")
#: Ways to make several tokens a step: the floor of a step is not that of a token then.
_SPECULATIVE = re.compile(r"(?i)specul|eagle|medusa|\bmtp\b|draft|lookahead")


@dataclass(frozen=True)
class Floor:
    """A figure as a time beside the least time, of the stated or checkpoint's dtype; ``narrow``: of a faster one."""

    seconds: float
    least: Least
    narrow: Least | None


def check_bounds(case: Case) -> Iterator[Finding]:
    """Compare times of prompts and decode steps, and rates of tokens, with their least times."""
    for run, figure in _timed(case):
        try:
            floor = floor_of(case, run, figure)
        except Unknown as why:
            yield not_computable(CHECK, (figure.name,), f"{figure.metric} {figure.text}", str(why))
            continue
        yield _judged(figure, floor) if _whole(run, figure, floor) else _warm(run, figure, floor)


def _timed(case: Case) -> Iterator[tuple[Run, Figure]]:
    """Figures that are times or rates: a deviation is neither."""
    return ((run, f) for run, f in case.each(*PREFILL, *DECODE, *_RATES) if f.statistic != "std")


def _whole(run: Run, figure: Figure, floor: Floor) -> bool:
    """Whether a time below its bound is that of whole prompts: a cache stated as warm may have answered a part."""
    below = floor.seconds * (1 + min(rounding(figure), SLIGHT)) < floor.least.seconds
    counted = (
        run.number("cached_tokens", figure) is not None or run.number("cached_share", figure) is not None
    )
    state = str(figure.conditions.get("cache_state") or run.text("cache_state")).lower()
    return not (below and not counted and figure.metric in _CACHED and _WARM.search(state))


def _warm(run: Run, figure: Figure, floor: Floor) -> Finding:
    told = f"{figure.metric} {figure.text}"
    reason = (
        f"the cache is stated as {run.text('cache_state')}, and not which share of the prompt it answered"
    )
    return not_computable(CHECK, (figure.name,), f"{told} against {floor.least.arithmetic}", reason)


def floor_of(case: Case, run: Run, figure: Figure) -> Floor:
    """Return a figure beside its floor. Raises Unknown where that needs what is not stated."""
    subject = case.subject(run, figure)
    if figure.metric in PREFILL:
        least = _widened(subject, lambda dtype: _prompt(subject, run, figure, dtype))
        return Floor(figure.value, *least)
    if figure.metric in DECODE:
        least = _widened(subject, lambda dtype: _step(subject, run, figure, dtype))
        return Floor(figure.value, *least)
    return _RATES[figure.metric](subject, run, figure)


def _widened(subject: Subject, least: object) -> tuple[Least, Least | None]:
    """The least time in the stated dtype; where none is stated, in the fastest that the GPU has, too."""
    assert callable(least)
    found: Least = least(None)
    if subject.stated_dtype is not None or found.dtype in _SIZES:
        return found, None
    for dtype in NARROW:
        try:
            narrow: Least = least(dtype)
        except Unknown:
            continue
        if narrow.seconds < found.seconds:
            return found, narrow
    return found, None


def _judged(figure: Figure, floor: Floor) -> Finding:
    value, least, narrow = floor.seconds, floor.least, floor.narrow
    told = f"{figure.metric} {figure.text}"
    against = f"{words.seconds(value)} against {least.arithmetic}"
    rounded = value * (1 + min(rounding(figure), SLIGHT))
    if rounded >= least.seconds:
        return Finding(
            CHECK, HOLDS, (figure.name,), f"{told} is {value / least.seconds:.3g} times its bound", against
        )
    if narrow is not None and rounded >= narrow.seconds:
        said = (
            f"{told} is below its bound in the checkpoint's dtype ({least.dtype}) and possible in {narrow.dtype}, "
            "which is not stated"
        )
        return Finding(
            CHECK, INCONSISTENT, (figure.name,), said, f"{against}; {narrow.dtype}: {narrow.arithmetic}"
        )
    if least.dtype == "by its name":
        said = f"{told} is {value / least.seconds:.0%} of the least time of a dense model of the size in its name"
        return Finding(CHECK, SUSPICIOUS, (figure.name,), said, against)
    said = f"{told} is {value / least.seconds:.0%} of the least time: impossible for a prompt computed whole"
    if figure.metric not in PREFILL and figure.metric not in ("input_throughput", "total_throughput"):
        said = f"{told} is faster than physics: {value / least.seconds:.0%} of the least time"
    return Finding(CHECK, IMPOSSIBLE, (figure.name,), said, against)


def _gpus(count: int | None, subject: Subject) -> int:
    if count is None:
        _ = subject.gpu
        raise Unknown("the number of GPUs is not stated")
    return count


def uncached(run: Run, figure: Figure) -> tuple[int, int]:
    """Prompt tokens and those of them that are stated to be cached. Raises Unknown where no length is stated."""
    tokens = run.number("input_tokens", figure)
    if tokens is None or tokens < 1:
        words = run.conditions.get("input_length") or run.conditions.get("workload")
        raise Unknown(
            f"prompt tokens are not stated as a number ({words})" if words else "prompt tokens are not stated"
        )
    cached = run.number("cached_tokens", figure)
    share = run.number("cached_share", figure)
    hits = cached if cached is not None else (share or 0.0) * tokens
    return int(tokens), int(min(hits, tokens - 1))


def _prompt(subject: Subject, run: Run, figure: Figure, dtype: str | None) -> Least:
    tokens, cached = uncached(run, figure)
    if figure.metric == "mixed_step_time":
        return _mixed(subject, run, figure, tokens, cached, dtype)
    return subject.prefill(tokens, cached, _gpus(subject.machine.most_per_prompt, subject), dtype)


def _mixed(subject: Subject, run: Run, figure: Figure, tokens: int, cached: int, dtype: str | None) -> Least:
    """A step of a whole prompt, or of as much as the token budget takes, beside the stated decodes."""
    batch = run.number("batch", figure) or 0.0
    budget = run.number("max_num_batched_tokens", figure) or float("inf")
    chunk = Chunk(int(min(tokens - cached, max(budget - batch, 1))), cached)
    return subject.mixed((chunk,), batch, 0.0, _gpus(subject.machine.most_per_step, subject), dtype)


def _step(subject: Subject, run: Run, figure: Figure, dtype: str | None) -> Least:
    """A decode step of the stated batch, of one sequence where none is stated: weights are read once all the same."""
    flags = " ".join(
        str(run.conditions.get(key, "")) for key in ("engine", "engine_flags", "engine_changes", "scenario")
    )
    if _SPECULATIVE.search(flags):
        raise Unknown("speculative decoding makes several tokens a step")
    batch = run.number("batch", figure) or 1.0
    context = batch * (run.number("input_tokens", figure) or 0.0)
    return subject.decode(batch, context, _gpus(subject.machine.most_per_step, subject), dtype)


def _per_second(figure: Figure, subject: Subject) -> float:
    """Tokens a second of all GPUs."""
    if figure.value <= 0:
        raise Unknown("a rate of zero has no time")
    return figure.value * (_gpus(subject.machine.gpus, subject) if figure.per_gpu else 1)


def _input_rate(subject: Subject, run: Run, figure: Figure) -> Floor:
    """Prompt tokens a second: the products alone, as attention depends on how long prompts are."""
    gpus = _gpus(subject.machine.gpus, subject)
    tokens, cached = 4096, 0
    with_length = run.number("input_tokens", figure)
    if with_length:
        tokens, cached = uncached(run, figure)
    rate = _per_second(figure, subject)
    least = _widened(subject, lambda dtype: subject.prefill(tokens, cached, gpus, dtype))
    return Floor(tokens / rate, *least)


def _output_rate(subject: Subject, run: Run, figure: Figure) -> Floor:
    """Output tokens a second: a step makes one of each request under way; their products count for any number."""
    machine = subject.machine
    decoding = (machine.decode or 0) * (machine.per_decode or 0) if machine.split else 0
    gpus, rate = decoding or _gpus(machine.gpus, subject), _per_second(figure, subject)
    batch = run.number("batch", figure) or run.number("concurrency", figure) or _ANY_BATCH
    context = batch * (run.number("input_tokens", figure) or 0.0) if batch < _ANY_BATCH else 0.0
    least = _widened(subject, lambda dtype: subject.decode(batch, context, gpus, dtype))
    return Floor(batch / rate, *least)


def _user_rate(subject: Subject, run: Run, figure: Figure) -> Floor:
    if figure.value <= 0:
        raise Unknown("a rate of zero has no time")
    least = _widened(subject, lambda dtype: _step(subject, run, figure, dtype))
    return Floor(1 / figure.value, *least)


_RATES = {
    "input_throughput": _input_rate,
    "total_throughput": _input_rate,
    "output_throughput": _output_rate,
    "user_throughput": _user_rate,
}


def invert_bounds(case: Case) -> Iterator[Inversion]:
    """Say which share of peak, cached share, number of GPUs or overhead would explain a figure."""
    for run, figure in _timed(case):
        try:
            floor = floor_of(case, run, figure)
        except Unknown:
            continue
        yield from _explained(run, figure, floor)


def _explained(run: Run, figure: Figure, floor: Floor) -> Iterator[Inversion]:
    of, share = (figure.name,), floor.least.seconds / floor.seconds if floor.seconds > 0 else float("inf")
    prompt = figure.metric in (*PREFILL, "input_throughput", "total_throughput")
    key = "mfu" if prompt or "FLOP" in floor.least.arithmetic else "mbu"
    arithmetic = f"{floor.least.arithmetic}; / {words.seconds(floor.seconds)} = {share:.3g}"
    said = f"{figure.metric} {figure.text} is {share:.1%} of what peak rates allow"
    yield Inversion(key, share, of, arithmetic, share <= 1, said)
    if share > 1 and prompt:
        cached = 1 - 1 / share
        yield Inversion("cached_share", cached, of, f"1 - 1 / {share:.3g} (products alone)", None,
                        f"a cache that holds {cached:.0%} of the prompt would explain it")  # fmt: skip
    if share > 1:
        yield Inversion(
            "gpus_factor", share, of, arithmetic, None, f"{share:.3g} times the GPUs would explain it"
        )
    else:
        over = floor.seconds - floor.least.seconds
        told = f"{words.seconds(floor.seconds)} - {words.seconds(floor.least.seconds)}"
        said = f"{words.seconds(over)} are not the work itself"
        yield Inversion("overhead_s", over, of, told, True, said)
