"""Batches whose prompts fill the token budget: every decode step then carries a full chunk, and gaps are its time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from ...records import Figure
from ...serving.work import Chunk
from .. import words
from ..case import Case
from ..finding import HOLDS, SUSPICIOUS, Finding, Inversion, not_computable
from ..runs import Run
from ..subject import Least, Subject, Unknown

CHECK, GROWTH = "full_chunks", "full_chunks_growth"
_GAPS = ("itl", "tpot")
#: Prompt tokens a decode step below which no usual token budget is full.
_LEAST_BUDGET = 2048
#: Share of a growth that reads explain below which something else makes it.
_EXPLAINED = 0.4


@dataclass(frozen=True)
class Demand:
    """A gap of ``batch`` requests and the prompt tokens that come to each of its decode steps in the long run."""

    run: Run
    figure: Figure
    subject: Subject
    batch: float
    isl: float
    osl: float

    @property
    def tokens(self) -> float:
        """Prompt tokens a step: a request brings its prompt once in OSL steps."""
        return self.batch * self.isl / self.osl

    @property
    def told(self) -> str:
        """How they come about."""
        return f"{self.batch:g} x {self.isl:g} / {self.osl:g} = {self.tokens:,.0f} prompt tokens a step"


def _demands(case: Case) -> Iterator[Demand]:
    for run, figure in case.each(*_GAPS):
        subject = case.subject(run, figure)
        batch = run.number("batch", figure) or run.number("concurrency", figure)
        isl, osl = run.number("input_tokens", figure), run.number("output_tokens", figure)
        if batch and isl and osl and not subject.machine.split:
            yield Demand(run, figure, subject, batch, isl, osl)


def _budget(demand: Demand) -> float | None:
    return demand.run.number("max_num_batched_tokens", demand.figure)


def _full(demand: Demand) -> bool:
    budget = _budget(demand)
    return budget is not None and demand.tokens > budget > demand.batch


def check_saturated(case: Case) -> Iterator[Finding]:
    """Compare gaps of saturated batches with the least time of a step that carries a full chunk."""
    full = []
    for demand in _demands(case):
        figure, told = demand.figure, f"{demand.figure.metric} {demand.figure.text}"
        if _budget(demand) is None and demand.tokens > _LEAST_BUDGET:
            reason = f"the token budget is not stated; {demand.told} would fill any below that"
            yield not_computable(CHECK, (figure.name,), f"{told} against the time of a full chunk", reason)
        if not _full(demand):
            continue
        full.append(demand)
        try:
            least = _chunk_step(demand)
        except Unknown as why:
            yield not_computable(CHECK, (figure.name,), told, str(why))
            continue
        arithmetic = f"{demand.told}, more than {_budget(demand):,.0f}; {least.arithmetic}"
        if figure.value < least.seconds:
            said = f"{told} is below the least time of a step with a full chunk: the prompts did not run beside decodes"
            yield Finding(CHECK, SUSPICIOUS, (figure.name,), said, arithmetic)
        else:
            said = f"every step carries a full chunk, so {told} is the chunk's time, not the batch's"
            yield Finding(CHECK, HOLDS, (figure.name,), said, arithmetic)
    yield from _growth([demand for demand in full if "predicted_by" not in demand.figure.conditions])


def _chunk_step(demand: Demand) -> Least:
    """The step of a full chunk whose tokens see half of their prompt on average, beside decodes of whole prompts."""
    chunk = int((_budget(demand) or 0) - demand.batch)
    own = min(chunk, int(demand.isl))
    chunks = [Chunk(own, int(demand.isl - own) // 2)] * max(1, round(chunk / own))
    gpus = demand.subject.machine.most_per_step
    if gpus is None:
        _ = demand.subject.gpu
        raise Unknown("the number of GPUs is not stated")
    return demand.subject.mixed(chunks, demand.batch, demand.batch * demand.isl, gpus)


def _growth(full: list[Demand]) -> Iterator[Finding]:
    """Between two saturated batches only the decodes' reads grow."""
    ordered = sorted(full, key=lambda demand: (demand.figure.metric, demand.batch))
    for small, large in pairwise(ordered):
        if (
            small.figure.metric != large.figure.metric
            or (small.isl, small.osl) != (large.isl, large.osl)
            or small.batch == large.batch
        ):
            continue
        gpus = large.subject.machine.most_per_step
        try:
            bytes_ = large.subject.kv_bytes(int(large.isl)) * (large.batch - small.batch)
            reads = bytes_ / (large.subject.bandwidth * (gpus or 1))
        except Unknown:
            continue
        grown = large.figure.value - small.figure.value
        if grown <= 0:
            continue
        told = (
            f"{words.size(bytes_)} more are read, {words.seconds(reads)} at peak, of {words.seconds(grown)}"
        )
        of = (small.figure.name, large.figure.name)
        if reads < _EXPLAINED * grown:
            said = f"chunks are as full as before; reads explain {reads / grown:.0%} of the growth, whose cause is open"
            yield Finding(GROWTH, SUSPICIOUS, of, said, told)
        else:
            yield Finding(
                GROWTH, HOLDS, of, f"reads at peak are {reads / grown:.0%} of what the gap grows by", told
            )


def invert_saturated(case: Case) -> Iterator[Inversion]:
    """Say which share of peak a full chunk's time is, or how many prompt tokens at peak a gap has room for."""
    for demand in _demands(case):
        figure = demand.figure
        try:
            if _full(demand):
                least = _chunk_step(demand)
                share = least.seconds / figure.value
                said = f"{figure.metric} {figure.text} as the time of a full chunk is {share:.0%} of peak"
                yield Inversion("mfu", share, (figure.name,), least.arithmetic, share <= 1, said)
            elif _budget(demand) is None and demand.tokens > _LEAST_BUDGET:
                gpus = demand.subject.machine.most_per_step or 1
                one = demand.subject.prefill(int(demand.isl), 0, gpus)
                tokens = demand.isl * figure.value / one.seconds
                told = f"{figure.text} / ({one.arithmetic}) x {demand.isl:g}"
                said = f"at peak a gap has room for {tokens:,.0f} prompt tokens; {demand.told}"
                yield Inversion("chunk_tokens", tokens, (figure.name,), told, None, said)
        except Unknown:
            continue
