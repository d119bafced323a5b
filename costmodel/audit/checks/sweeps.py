"""Sweeps over load and over GPUs: more clients never make each faster, and more GPUs seldom more than so many times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from ...records import Figure, Stated
from ..case import Case
from ..finding import HOLDS, SUSPICIOUS, Finding, Inversion
from ..runs import Series, named, series_of

_RATES = ("request_throughput", "output_throughput", "total_throughput", "input_throughput")
_TIMES = ("ttft", "tpot", "itl", "e2e")
#: Relative gain of a client, or fall of a latency, beyond noise.
_GAIN, _FALL = 0.1, 0.2
#: Conditions that tell how many GPUs there are.
_MACHINE = (
    "tp",
    "pp",
    "ep",
    "gpus",
    "instances",
    "nodes",
    "hardware",
    "topology",
    "concurrency",
    "prefill_tp",
    "decode_tp",
)


def check_sweeps(case: Case) -> Iterator[Finding]:
    """Find points of a sweep at which more load makes a client faster: a cache, a warm-up or another run."""
    for series in series_of(case.record, 2):
        if series.varies not in ("concurrency", "arrival_rate") or "predicted_by" in series.run.conditions:
            continue
        if series.metric in _RATES and series.varies == "concurrency":
            yield from _gaining(series)
        elif series.metric in _TIMES:
            yield from _falling(series)


def _gaining(series: Series) -> Iterator[Finding]:
    for (few, first), (many, second) in pairwise(series.points):
        if few <= 0 or first.value <= 0:
            continue
        gain = second.value / first.value / (many / few) - 1
        if gain > _GAIN:
            told = f"{first.text} / {few:g} clients, {second.text} / {many:g}: {gain:+.0%} a client"
            said = "each client gets more with more clients: prompts found in a cache, or a first point that warms up"
            yield Finding("faster_with_load", SUSPICIOUS, named((first, second)), said, told)


def _falling(series: Series) -> Iterator[Finding]:
    for (few, first), (many, second) in pairwise(series.points):
        fall = 1 - second.value / first.value if first.value > 0 else 0.0
        if fall > _FALL:
            told = f"{first.text} at {few:g}, {second.text} at {many:g}: {-fall:.0%}"
            said = f"{series.metric} falls as the load grows: prompts found in a cache, or a first point that warms up"
            yield Finding("faster_with_load", SUSPICIOUS, named((first, second)), said, told)


def _scaled(case: Case) -> Iterator[tuple[tuple[int, Figure], tuple[int, Figure]]]:
    """Pairs of rates that differ in GPUs of one kind alone, fewest against each of the others."""
    groups: dict[tuple[object, ...], list[tuple[int, Figure]]] = defaultdict(list)
    for run, figure in case.each(*_RATES):
        machine = case.subject(run, figure).machine
        if figure.per_gpu or machine.gpu is None or machine.gpus is None or figure.value <= 0:
            continue
        stated = case.record.conditions_of(figure)
        key = (figure.metric, figure.statistic, machine.gpu.name, machine.split, *_rest(stated))
        groups[key].append((machine.gpus, figure))
    for points in groups.values():
        fewest, *more = sorted(points, key=lambda point: point[0])
        yield from (
            (fewest, other) for other in more if other[0] > fewest[0] and _alike_loaded(case, fewest, other)
        )


def _alike_loaded(case: Case, few: tuple[int, Figure], many: tuple[int, Figure]) -> bool:
    """Whether two runs have the same load, in all or of each GPU: another load is another point of a curve."""
    one, other = (case.record.conditions_of(figure).get("concurrency") for _, figure in (few, many))
    if not isinstance(one, int | float) or not isinstance(other, int | float):
        return one == other
    return one == other or abs(other / many[0] - one / few[0]) <= _GAIN * one / few[0]


def _rest(stated: dict[str, Stated]) -> tuple[str, ...]:
    return tuple(sorted(f"{key}={value}" for key, value in stated.items() if key not in _MACHINE))


def check_scaling(case: Case) -> Iterator[Finding]:
    """A rate over more GPUs against the same rate over fewer: more than so many times needs another cause."""
    for (few, first), (many, second) in _scaled(case):
        share = second.value / first.value / (many / few)
        told = f"{second.text} on {many} / {first.text} on {few} = {second.value / first.value:.3g} times, {share:.0%}"
        if share > 1 + _GAIN:
            said = f"{many} GPUs do {share:.3g} times their part: room for KV, another batch or another load does it"
            yield Finding("scaling", SUSPICIOUS, named((first, second)), said, told)
        else:
            yield Finding("scaling", HOLDS, named((first, second)), f"GPUs scale at {share:.0%}", told)


def invert_scaling(case: Case) -> Iterator[Inversion]:
    """Say at which share of proportional growth a rate scales."""
    for (few, first), (many, second) in _scaled(case):
        share = second.value / first.value / (many / few)
        told = f"({second.text} / {first.text}) / ({many} / {few})"
        yield Inversion("scaling_efficiency", share, named((second, first)), told, None,
                        f"{many} GPUs do {share:.0%} of what {many / few:.3g} times {few} would")  # fmt: skip
