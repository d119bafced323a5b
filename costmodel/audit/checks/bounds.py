"""Figures against what physics needs at least: FLOPs over the peak rate, bytes over the peak bandwidth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ...records import Figure
from ...records.flags import speculates
from ...serving.work import Chunk
from .. import words
from ..case import Case
from ..finding import HOLDS, IMPOSSIBLE, INCONSISTENT, SUSPICIOUS, Finding, not_computable
from ..runs import Run
from ..subject import NARROW, Least, Subject, Unknown
from ..written import rounding
from .states import may_hit

CHECK = "below_bound"
PREFILL = ("ttft", "prefill_time", "stall_time", "mixed_step_time")
DECODE = ("tpot", "itl", "decode_step_time")
#: Most that rounding excuses: beyond it a figure was meant as it is written.
SLIGHT = 0.01
#: Where a floor counts no more than parameters: nothing faster can be meant.
_SIZES = ("as stated", "by its name", "of the model")
#: Sequences of a step whose weights are read for next to nothing each.
_ANY_BATCH = 65536.0
#: Figures that a cache which answered prompts shortens.
_CACHED = (*PREFILL[:3], "input_throughput", "total_throughput", "throughput")
#: Share of peak that measured products and reads stay below (sustained_bf16 of GPU files: 0.51 to 0.87 of peak).
_REACHED = 0.9
_ONE_PERCENT = 0.01

Making = Callable[[Subject, str | None], Least]


@dataclass(frozen=True)
class Floor:
    """A figure as a time beside the least time, of the stated or checkpoint's dtypes, and how that is made.

    ``narrower``: least times in narrower dtypes of weights and cache where the report states none, the mildest first.
    """

    seconds: float
    least: Least
    narrower: Callable[[], Iterator[tuple[str, Least]]]

    def explained_by(self, seconds: float) -> tuple[str, Least] | None:
        """Return the mildest narrower dtypes whose least time is no longer than ``seconds``."""
        return next(((what, least) for what, least in self.narrower() if least.seconds <= seconds), None)

    @property
    def fastest(self) -> float:
        """Least time in seconds, whatever dtypes that are not stated were."""
        return min((least.seconds for _, least in self.narrower()), default=self.least.seconds)


def check_bounds(case: Case) -> Iterator[Finding]:
    """Compare times of prompts and decode steps, and rates of tokens, with their least times."""
    for run, figure in timed(case):
        try:
            floor = floor_of(case, run, figure)
        except Unknown as why:
            yield not_computable(CHECK, (figure.name,), f"{figure.metric} {figure.text}", str(why))
            continue
        if _whole(run, figure, floor):
            yield _judged(case.subject(run, figure), figure, floor)
        else:
            yield _warm(run, figure, floor)


def timed(case: Case) -> Iterator[tuple[Run, Figure]]:
    """Return the figures that are times or rates: a deviation is neither."""
    return ((run, f) for run, f in case.each(*PREFILL, *DECODE, *_RATES) if f.statistic != "std")


def _whole(run: Run, figure: Figure, floor: Floor) -> bool:
    """Whether a time below its bound is that of whole prompts: a cache stated as warm may have answered a part."""
    below = floor.seconds * (1 + min(rounding(figure), SLIGHT)) < floor.least.seconds
    counted = (
        run.number("cached_tokens", figure) is not None or run.number("cached_share", figure) is not None
    )
    state = str(figure.conditions.get("cache_state") or run.text("cache_state"))
    return not (below and not counted and figure.metric in _CACHED and may_hit(state))


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
        return _floor(figure.value, subject, lambda s, dtype: _prompt(s, run, figure, dtype))
    if figure.metric in DECODE:
        _one_token(run, figure)
        return _floor(figure.value, subject, lambda s, dtype: step_of(s, run, figure, dtype))
    return _RATES[figure.metric](subject, run, figure)


def drafted(run: Run, figure: Figure) -> bool:
    """Return whether a step may have given several tokens, by the words of a report."""
    return speculates({**run.conditions, **figure.conditions}, figure.note)


def _one_token(run: Run, figure: Figure) -> None:
    if drafted(run, figure):
        raise Unknown("speculative decoding makes several tokens a step")


def _floor(seconds: float, subject: Subject, making: Making) -> Floor:
    least = making(subject, None)
    return Floor(seconds, least, lambda: _narrower(subject, least, making))


def _narrower(subject: Subject, found: Least, making: Making) -> Iterator[tuple[str, Least]]:
    """Least times below the found one in dtypes that a report may have left out."""
    weights = NARROW if subject.stated_dtype is None and found.dtype not in _SIZES else ()
    narrow = replace(subject, conditions={**subject.conditions, "kv_dtype": "fp8"})
    caches = [] if {"kv_dtype", "kv_bytes_per_token"} & subject.conditions.keys() else [narrow]
    tried: list[tuple[Subject, str | None, str]] = [(other, None, "an fp8 cache") for other in caches]
    for word in weights:
        tried += [(subject, word, f"{word} weights")]
        tried += [(other, word, f"{word} weights and an fp8 cache") for other in caches]
    for other, dtype, what in tried:
        try:
            least = making(other, dtype)
        except Unknown:
            continue
        if least.seconds < found.seconds:
            yield what, least


def _judged(subject: Subject, figure: Figure, floor: Floor) -> Finding:
    value, least = floor.seconds, floor.least
    told, of = f"{figure.metric} {figure.text}", (figure.name,)
    against = f"{words.seconds(value)} against {least.arithmetic}"
    rounded = value * (1 + min(rounding(figure), SLIGHT))
    if rounded >= least.seconds:
        return _reached(subject, floor, told, of, against, least.seconds / rounded)
    explained = floor.explained_by(rounded)
    if explained is not None:
        what, narrow = explained
        said = f"{told} is below its bound as the checkpoint is ({least.dtype}); {what}, not stated, would do"
        return Finding(CHECK, INCONSISTENT, of, said, f"{against}; {what}: {narrow.arithmetic}")
    if least.dtype == "by its name":
        said = f"{told} is {value / least.seconds:.0%} of the least time of a dense model of the size in its name"
        return Finding(CHECK, SUSPICIOUS, of, said, against)
    share = value / least.seconds
    part = f"{share:.0%}" if share >= _ONE_PERCENT else f"{share:.2g}"
    said = f"{told} is {part} of the least time: impossible for a prompt computed whole"
    if figure.metric not in PREFILL and figure.metric not in ("input_throughput", "total_throughput"):
        said = f"{told} is faster than physics: {part} of the least time"
    return Finding(CHECK, IMPOSSIBLE, of, said, against)


def _reached(
    subject: Subject, floor: Floor, told: str, of: tuple[str, ...], against: str, share: float
) -> Finding:
    """A figure above its bound: one closer to it than anything measured has another cause."""
    products = "FLOP" in floor.least.arithmetic
    best = subject.gpu.values.get("sustained_bf16") if products else None
    most = best.value / subject.peak() if best else 0.0
    if share <= max(_REACHED, most) or floor.least.dtype == "by its name":
        ratio = floor.seconds / floor.least.seconds
        return Finding(CHECK, HOLDS, of, f"{told} is {ratio:.3g} times its bound", against)
    measured = f" (measured of {subject.gpu.name} at best: {most:.0%})" if best else ""
    rate = "of peak FLOPs" if products else "of peak bandwidth"
    cause = "a narrower dtype, or several tokens a step"
    if products:
        cause = "a narrower dtype, or a cached part of prompts"
    said = f"{told} is {share:.0%} {rate}, more than measurements reach{measured}: {cause} is the likelier"
    return Finding(CHECK, SUSPICIOUS, of, said, against)


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


def step_of(subject: Subject, run: Run, figure: Figure, dtype: str | None) -> Least:
    """Return the least step of the stated batch, of one sequence where none is: weights are read once all the same."""
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
    return _floor(tokens / rate, subject, lambda s, dtype: s.prefill(tokens, cached, gpus, dtype))


def _output_rate(subject: Subject, run: Run, figure: Figure) -> Floor:
    """Output tokens a second: a step makes one of each request under way; their products count for any number."""
    machine = subject.machine
    decoding = (machine.decode or 0) * (machine.per_decode or 0) if machine.split else 0
    gpus, rate = decoding or _gpus(machine.gpus, subject), _per_second(figure, subject)
    batch = run.number("batch", figure) or run.number("concurrency", figure) or _ANY_BATCH
    batch = (
        _ANY_BATCH if drafted(run, figure) else batch
    )  # a step checks several tokens for one read of the weights
    context = batch * (run.number("input_tokens", figure) or 0.0) if batch < _ANY_BATCH else 0.0
    return _floor(batch / rate, subject, lambda s, dtype: s.decode(batch, context, gpus, dtype))


def _user_rate(subject: Subject, run: Run, figure: Figure) -> Floor:
    if figure.value <= 0:
        raise Unknown("a rate of zero has no time")
    _one_token(run, figure)
    return _floor(1 / figure.value, subject, lambda s, dtype: step_of(s, run, figure, dtype))


_RATES = {
    "input_throughput": _input_rate,
    "total_throughput": _input_rate,
    "throughput": _input_rate,  # whichever tokens it counts, each is multiplied with all weights
    "output_throughput": _output_rate,
    "user_throughput": _user_rate,
}
