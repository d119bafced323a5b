"""What the separate regions of a copy cost: of one figure beside the wire, of a series by their size, of shares."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import permutations

from ...records import Figure
from .. import words
from ..case import Case
from ..finding import Inversion
from ..runs import Run, Series
from ..subject import Unknown
from ..wires import wire_of
from .copies import payload_of
from .trends import STRAIGHT, line

#: Part of a copy's time beyond the wire's from which its regions are told of.
_TELLING = 0.3
_COPIES = ("kv_transfer_time", "kv_transfer_bandwidth")


def invert_descriptors(case: Case) -> Iterator[Inversion]:
    """Say what each region of a copy adds to the wire's time."""
    for run, figure in case.each(*_COPIES):
        count = run.number("descriptors", figure)
        if not count or count < 2 or figure.value <= 0:
            continue
        subject = case.subject(run, figure)
        try:
            size, told = payload_of(run, subject, figure)
            wire = wire_of(run, subject, figure)
        except Unknown:
            continue
        time = figure.value if figure.metric == "kv_transfer_time" else size / figure.value
        over = time - size / wire.bytes_per_s
        if 0 <= over < _TELLING * time:
            continue  # what is left may as well be bandwidth
        each = over / count
        how = f"({words.seconds(time)} - {told} / {wire.said}) / {count:,.0f} regions"
        yield Inversion("per_descriptor_s", each, (figure.name,), how, each >= 0,
                        f"each region adds {words.seconds(each)} to the wire's time")  # fmt: skip


def invert_descriptor_sizes(case: Case) -> Iterator[Inversion]:
    """Fit T = a + bytes / bandwidth to bandwidths, or times, by the bytes of a copy or of a region."""
    for series in case.series:
        if series.varies in ("payload", "descriptor_bytes") and series.metric in _COPIES:
            if series.metric == "kv_transfer_time" and series.varies == "payload":
                continue  # a series of its own
            yield from _fitted(series)


def _fitted(series: Series) -> Iterator[Inversion]:
    count = series.run.number("descriptors") or 1.0
    regions = count if series.varies == "descriptor_bytes" else 1.0
    sizes = [x * regions for x, _ in series.points]
    times = [
        figure.value if series.metric == "kv_transfer_time" else size / figure.value
        for size, (_, figure) in zip(sizes, series.points)
        if figure.value > 0
    ]
    if len(times) < len(sizes):
        return
    constant, slope, miss = line(list(zip(sizes, times)))
    told = f"{len(times)} sizes: {words.seconds(constant)} + bytes / {words.rate(1 / slope)}, at most {miss:.0%} off"
    if miss > 2 * STRAIGHT or slope <= 0:
        reason = f"times are no constant and a bandwidth: the best line misses one by {miss:.0%}"
        yield Inversion("latency_s", None, series.names, told, None, "", reason)
        return
    yield Inversion(
        "latency_s", constant, series.names, told, constant >= 0, "the part of a copy that no byte takes"
    )
    yield Inversion("effective_bytes_per_s", 1 / slope, series.names, told, None,
                    f"bytes beyond it move at {words.rate(1 / slope)}")  # fmt: skip
    if count > 1:
        each = constant / count
        yield Inversion("per_descriptor_s", each, series.names, f"{told}; / {count:,.0f} regions", each >= 0,
                        "each region adds at most so much, if all of the constant is theirs")  # fmt: skip


def invert_blocks(case: Case) -> Iterator[Inversion]:
    """Say what each block adds, of copies of one prompt in blocks of two sizes."""
    figures = [(run, figure) for run, figure in case.each("kv_transfer_time", "handover_time")]
    for (run, small), (other, large) in permutations(figures, 2):
        sizes = run.number("block_size", small), other.number("block_size", large)
        tokens = run.number("input_tokens", small)
        if not tokens or not all(sizes) or not _alike(run, other, small, large):
            continue
        few, many = (math.ceil(tokens / (size or 1)) for size in (sizes[1], sizes[0]))
        if few >= many:
            continue
        each = (small.value - large.value) / (many - few)
        told = f"({small.text} - {large.text}) / ({many:,} - {few:,} blocks)"
        yield Inversion("per_block_s", each, (small.name, large.name), told, each >= 0,
                        f"each block adds {words.seconds(each)}")  # fmt: skip


def _alike(run: Run, other: Run, small: Figure, large: Figure) -> bool:
    """Whether two figures differ in the size of blocks alone."""
    rest = [{k: v for k, v in r.conditions.items() if k != "block_size"} for r in (run, other)]
    return (small.metric, small.statistic) == (large.metric, large.statistic) and rest[0] == rest[1]


def invert_posting(case: Case) -> Iterator[Inversion]:
    """A share s of a copy that posting takes is s / (1 - s) of what the bytes take."""
    for run, figure in case.each("posting_share"):
        if not 0 <= figure.value < 1:
            continue
        over = figure.value / (1 - figure.value)
        said = f"posting takes {over:.3g} times as long as the bytes on {_link(run)}" + (
            ": a faster link is no faster" if over > 1 else ""
        )
        yield Inversion("posting_over_wire", over, (figure.name,), f"{figure.value:.4g} / (1 - {figure.value:.4g})",
                        None, said)  # fmt: skip


def _link(run: Run) -> str:
    return str(run.conditions.get("link", "the link"))
