"""The work of prefill and decode of a request: which ratio of instances it asks for, and what other ratios lose."""

from __future__ import annotations

from collections.abc import Iterator

from ..units import format_si
from .case import MEANS, Case
from .finding import Inversion
from .runs import Run, named


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
    told = (
        f"min({x} / {format_si(p, 'second')}, {y} / {format_si(d, 'second')}) over {x + y} / "
        f"{format_si(p + d, 'second')}"
    )
    best = max(range(1, x + y), key=lambda n: min(n / p, (x + y - n) / d)) if x + y > 1 else x
    other = "" if best == x else f"; {best}P{x + y - best}D would be the best of {x + y}"
    said = (
        f"{x}P{y}D finishes at most {ratio:.2f}x of {x + y} colocated instances, at the same batch{other}"
    )
    yield Inversion("split_over_colocated", ratio, of, told, None, said)


def invert_ratios(case: Case) -> Iterator[Inversion]:
    """A TTFT r times that of one instance: the copy would have to take r - 1 of the prefill."""
    for run, figure in case.each("ttft_ratio"):
        if not case.subject(run, figure).machine.split or figure.value <= 1:
            continue
        over = figure.value - 1
        said = f"the hand-over would take {over:.3g} of the time of the prefill itself" + (
            "; as long as the prefill is what computing the prompt again takes" if 0.8 <= over <= 1.2 else ""
        )
        yield Inversion("handover_over_prefill", over, (figure.name,), f"{figure.value:g} - 1", None, said)
