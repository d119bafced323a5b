"""Decode steps of a mixture of experts: what a batch reads where its tokens choose experts evenly."""

from __future__ import annotations

from collections.abc import Iterator

from .. import words
from ..case import Case
from ..finding import HOLDS, SUSPICIOUS, Finding
from ..subject import Unknown
from .bounds import DECODE, drafted
from .chunks import expert_bytes

CHECK = "experts_of_a_batch"
#: Sequences of a step from which on experts that several of them choose are a good part.
_SEVERAL = 8


def check_experts(case: Case) -> Iterator[Finding]:
    """Compare a step with the reads of the experts that its batch chooses on average: routing may be less even."""
    for run, figure in case.each(*DECODE):
        batch = run.number("batch", figure) or run.number("concurrency", figure) or 0.0
        subject = case.subject(run, figure)
        gpus, context = subject.machine.most_per_step, batch * (run.number("input_tokens", figure) or 0.0)
        if batch < _SEVERAL or not gpus or figure.statistic == "min" or drafted(run, figure):
            continue
        try:
            more = expert_bytes(subject, int(batch)) - expert_bytes(subject, 1)
            size = subject.decode(1, context, 1).bytes_moved + more
            rate = gpus * subject.bandwidth
        except Unknown:
            continue
        if more <= 0 or size <= 0:
            continue
        told = f"{words.size(size)}, {words.size(more)} of them for experts beyond those of one token"
        told += f" / ({gpus} x {words.rate(subject.bandwidth)}) = {words.seconds(size / rate)} against {figure.text}"
        what = f"{figure.metric} {figure.text} of {batch:g} sequences"
        ratio = figure.value * rate / size
        if ratio < 1:
            said = f"{what} is {ratio:.0%} of the time of reading its experts, if tokens choose them evenly"
            yield Finding(CHECK, SUSPICIOUS, (figure.name,), said, told)
        else:
            said = (
                f"{what} is {ratio:.3g} times the time of reading its experts, if tokens choose them evenly"
            )
            yield Finding(CHECK, HOLDS, (figure.name,), said, told)
