"""The work of prefill and decode of a request: which ratio of instances it asks for, and what other ratios lose."""

from __future__ import annotations

from collections.abc import Iterator

from .. import words
from ..case import MEANS, Case
from ..finding import Inversion
from ..runs import Run, named
from ..subject import Unknown
from ..wires import wire_of
from .copies import COPY, WITH_COPY


def invert_split(case: Case) -> Iterator[Inversion]:
    """Say which P:D the stated times of a request's prefill and decode ask for, and what whole instances lose."""
    for run in case.runs:
        prefill, decode = run.get("prefill_time", *MEANS, "p50"), run.get("decode_time", *MEANS, "p50")
        if prefill is None or decode is None or not prefill.value or not decode.value:
            continue
        p, d, of = prefill.value, decode.value, named((prefill, decode))
        share = p / (p + d)
        yield Inversion("prefill_share", share, of, f"{prefill.text} / ({prefill.text} + {decode.text})", None,
                        f"prefill is {share:.1%} of a request's time on GPUs")  # fmt: skip
        yield Inversion("decode_instances_per_prefill", d / p, of, f"{decode.text} / {prefill.text}", None,
                        f"one prefill instance feeds {d / p:.3g} decode instances of one sequence each")  # fmt: skip
        yield from _whole_instances(case, run, p, d, of)


def _whole_instances(case: Case, run: Run, p: float, d: float, of: tuple[str, ...]) -> Iterator[Inversion]:
    """x prefill and y decode instances finish min(x / p, y / d); x + y colocated ones (x + y) / (p + d)."""
    machine = case.subject(run).machine
    x, y = machine.prefill, machine.decode
    if not x or not y:
        return
    most, together = min(x / p, y / d), (x + y) / (p + d)
    ratio = most / together
    told = f"min({x} / {words.seconds(p)}, {y} / {words.seconds(d)}) over {x + y} / {words.seconds(p + d)}"
    best = max(range(1, x + y), key=lambda n: min(n / p, (x + y - n) / d)) if x + y > 1 else x
    other = "" if best == x else f"; {best}P{x + y - best}D would be the best of {x + y}"
    said = f"{x}P{y}D finishes at most {ratio:.2f}x of {x + y} colocated instances, at the same batch{other}"
    yield Inversion("split_over_colocated", ratio, of, told, None, said)


def invert_wire(case: Case) -> Iterator[Inversion]:
    """Say what the copy of a prompt takes at least on the stated link, where a report gives no copy."""
    for run in case.runs:
        tokens = run.number("input_tokens")
        if not tokens or run.all(*COPY, *WITH_COPY, "kv_transfer_bandwidth"):
            continue
        figure = run.get("ttft", *MEANS, "p50", "p90", "p95", "p99") or run.figures[0]
        subject = case.subject(run, figure)
        if not subject.machine.split:
            continue
        try:
            wire, size = wire_of(run, subject, figure), subject.kv_bytes(int(tokens))
        except Unknown:
            continue
        least = size / wire.bytes_per_s
        told = f"{tokens:,.0f} tokens, {words.size(size, 4)} / {wire.said}"
        said = f"the copy of a prompt takes {words.seconds(least)} on the wire"
        if figure.metric == "ttft" and figure.value > 0:
            said += f", {least / figure.value:.1%} of TTFT {figure.text}"
        yield Inversion("wire_s", least, (figure.name,), told, None, said)


def invert_ratios(case: Case) -> Iterator[Inversion]:
    """A TTFT r times that of one instance means a hand-over of r - 1 prefills; one r times faster, a cache."""
    for _, figure in case.each("ttft_speedup"):
        if figure.value > 1:
            said = "a cache that holds this share of the prompt would explain it, if TTFT is the prefill"
            told = f"1 - 1 / {figure.value:g}"
            yield Inversion("cached_share", 1 - 1 / figure.value, (figure.name,), told, None, said)
    for run, figure in case.each("ttft_ratio"):
        if not case.subject(run, figure).machine.split or figure.value <= 1:
            continue
        over = figure.value - 1
        said = f"the hand-over would take {over:.3g} of the time of the prefill itself" + (
            "; as long as the prefill is what computing the prompt again takes" if 0.8 <= over <= 1.2 else ""
        )
        yield Inversion("handover_over_prefill", over, (figure.name,), f"{figure.value:g} - 1", None, said)
