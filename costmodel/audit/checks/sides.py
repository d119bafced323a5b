"""Runs that a report sets side by side: two ways to serve the same load, and what makes them unlike."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ...records import Figure
from ..case import Case
from ..finding import INCONSISTENT, SUSPICIOUS, Finding
from ..runs import OF_FIGURES, Run, named

TWICE, GPUS, TOKENS = "prefill_twice", "unequal_gpus", "unlike_throughput"
#: Conditions that tell ways apart, those that come with a way, and those that say how it was loaded.
_WAYS = ("strategy", "topology", "scenario")
_WITH_IT = ("hardware", "prefill_hardware", "decode_hardware", "gpus", "gpus_per_node", "nodes", "instances", "tp",
            "prefill_tp", "decode_tp", "pp", "ep", "link", "link_bandwidth", "nics", "connector", "first_token",
            "engine_flags")  # fmt: skip
_LOAD = ("concurrency", "arrival_rate", "arrival_process", "burst", "requests", "batch")
_SPLIT = re.compile(r"disagg|\bp/?d\b|prefill[- ]decode|\bsplit\b|\d+p:?\d+d")
_RATES = ("request_throughput", "output_throughput", "input_throughput", "total_throughput", "goodput")
#: Rates of tokens, called throughput in reports.
_COUNTED = ("throughput", "output_throughput", "input_throughput", "total_throughput")
#: TTFT over that of one instance where the decode side computes the prompt once more.
_TWICE = (1.9, 2.1)


@dataclass(frozen=True)
class Way:
    """A run, whether its prefill is apart, its GPUs in all and of a prompt, and which (None: not stated)."""

    run: Run
    split: bool
    gpus: int | None
    per_prompt: int | None
    board: str | None

    @property
    def name(self) -> str:
        """The way in words."""
        told = [str(self.run.conditions[key]) for key in _WAYS if key in self.run.conditions]
        return " ".join(told) or self.run.name


def _way(case: Case, run: Run) -> Way:
    machine = case.subject(run).machine
    split = machine.split or bool(_SPLIT.search(" ".join(run.text(key) for key in _WAYS)))
    board = machine.gpu.name if machine.gpu else None
    return Way(run, split, None if machine.presumed else machine.gpus, machine.per_prefill, board)


def _sides(case: Case, *besides: str) -> Iterator[tuple[Way, Way]]:
    """Pairs of runs that differ in their way, in what comes with it, and in ``besides`` at most."""
    groups: dict[frozenset[tuple[str, object]], list[Way]] = {}
    free = {*_WAYS, *_WITH_IT, *OF_FIGURES, *besides}
    for run in case.runs:
        rest = frozenset((key, value) for key, value in run.conditions.items() if key not in free)
        groups.setdefault(rest, []).append(_way(case, run))
    for ways in groups.values():
        for place, one in enumerate(ways):
            yield from ((one, other) for other in ways[place + 1 :] if _apart(one, other))


def _apart(one: Way, other: Way) -> bool:
    return any(one.run.conditions.get(key) != other.run.conditions.get(key) for key in _WAYS)


def _differ(one: object, other: object) -> bool:
    """Whether both are stated and not the same."""
    return one is not None and other is not None and one != other


def _both(one: Way, other: Way, *metrics: str) -> Iterator[tuple[Figure, Figure]]:
    """Figures of the same metric and statistic that each has of its own."""
    for metric in metrics:
        for figure in one.run.all(metric):
            twin = other.run.get(metric, figure.statistic)
            if twin is not None and twin is not figure and figure.value > 0 and twin.value > 0:
                yield figure, twin


def check_prefill_twice(case: Case) -> Iterator[Finding]:
    """A lone request's TTFT twice that of one instance: the decode side computed the prompt again."""
    for one, other in _sides(case):
        if one.split == other.split or one.run.number("concurrency") != 1:
            continue
        if _differ(one.per_prompt, other.per_prompt) or _differ(one.board, other.board):
            continue
        apart, whole = (one, other) if one.split else (other, one)
        for far, near in _both(apart, whole, "ttft"):
            ratio = far.value / near.value
            if _TWICE[0] <= ratio <= _TWICE[1]:
                said = (
                    f"TTFT of {apart.name} is {ratio:.3g} times that of {whole.name} at one request at a time: what it "
                    "is where the decode side computes the prompt again instead of taking its KV"
                )
                told = f"{far.text} / {near.text} = {ratio:.4g}"
                yield Finding(TWICE, SUSPICIOUS, named((far, near)), said, told)


def check_ratio_of_two(case: Case) -> Iterator[Finding]:
    """The same of a report that gives the ratio alone."""
    for run, figure in case.each("ttft_ratio"):
        lone = run.number("concurrency", figure) == 1
        if lone and _way(case, run).split and _TWICE[0] <= figure.value <= _TWICE[1]:
            said = (
                f"TTFT is {figure.value:.3g} times that of the other way at one request at a time: what it is "
                "where the decode side computes the prompt again instead of taking its KV"
            )
            yield Finding(
                TWICE,
                SUSPICIOUS,
                (figure.name,),
                said,
                f"{figure.value:g} is within {_TWICE[0]} to {_TWICE[1]}",
            )


def check_gpus(case: Case) -> Iterator[Finding]:
    """Rates of ways on unlike numbers of the same GPU: per GPU, and whether that turns the verdict."""
    seen: set[tuple[str, ...]] = set()
    fair = {(one.name, other.name) for one, other in _sides(case) if one.gpus and one.gpus == other.gpus}
    for one, other in _sides(case):
        if not one.gpus or not other.gpus or one.gpus == other.gpus or one.board != other.board:
            continue
        if (one.name, other.name) in fair or (other.name, one.name) in fair:
            continue
        for a, b in _both(one, other, *_RATES):
            if not a.per_gpu and not b.per_gpu and named((a, b)) not in seen:
                seen.add(named((a, b)))
                yield _per_gpu(one, other, a, b)


def _per_gpu(one: Way, other: Way, a: Figure, b: Figure) -> Finding:
    each = a.value / (one.gpus or 1), b.value / (other.gpus or 1)
    turned = (a.value > b.value) != (each[0] > each[1])
    told = f"{a.text} / {one.gpus} = {each[0]:.4g} against {b.text} / {other.gpus} = {each[1]:.4g} per GPU"
    better = one.name if each[0] > each[1] else other.name
    verdict = (
        f"per GPU {better} is ahead, in all it is behind"
        if turned
        else f"{better} is ahead in all and per GPU"
    )
    said = f"{a.metric} of {one.name} on {one.gpus} GPUs beside {other.name} on {other.gpus}: {verdict}"
    return Finding(GPUS, INCONSISTENT if turned else SUSPICIOUS, named((a, b)), said, told)


def check_tokens(case: Case) -> Iterator[Finding]:
    """Throughput that counts prompts beside throughput that does not: the one is no multiple of the other."""
    for one, other in _sides(case, *_LOAD):
        for whole, part in ((one.run, other.run), (other.run, one.run)):
            total, output = whole.get("total_throughput"), part.get("output_throughput")
            like = part.get("total_throughput") or whole.get("output_throughput")
            if total is not None and output is not None and output.value and like is None:
                yield _unlike(total, output, part.get("input_throughput"))
    yield from _counted(case)


def _unlike(total: Figure, output: Figure, inputs: Figure | None) -> Finding:
    told = f"{total.text} / {output.text} = {total.value / output.value:.3g}"
    said = f"{total.text} counts prompts and outputs, {output.text} outputs alone: they do not compare"
    if inputs is None:
        return Finding(TOKENS, SUSPICIOUS, named((total, output)), said, told)
    both = inputs.value + output.value
    said += f"; {both:,.5g} of prompts and outputs do"
    told += f"; {total.text} / ({inputs.text} + {output.text}) = {total.value / both:.3g}"
    return Finding(TOKENS, SUSPICIOUS, named((total, output, inputs)), said, told)


def _counted(case: Case) -> Iterator[Finding]:
    """Figures called throughput that are stated to count unlike tokens."""
    by_words: dict[str, list[Figure]] = {}
    for figure in case.record.figures:
        words = figure.conditions.get("throughput_counts")
        if figure.metric in _COUNTED and words is not None:
            by_words.setdefault(str(words), []).append(figure)
    if len(by_words) > 1:
        of = named([figure for figures in by_words.values() for figure in figures])
        said = f"throughput counts {' here and '.join(by_words)} there: such figures do not compare"
        yield Finding(TOKENS, SUSPICIOUS, of, said)
