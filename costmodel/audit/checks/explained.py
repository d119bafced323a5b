"""What would explain a figure beside its bound: a share of peak, a cached share, tokens a step, a slip of its unit."""

from __future__ import annotations

from collections.abc import Iterator

from ...records import Figure
from .. import words
from ..case import Case
from ..finding import Inversion
from ..runs import Run
from ..subject import Unknown
from .bounds import DECODE, PREFILL, Floor, drafted, floor_of, step_of, timed
from .cached import OF_PROMPTS, needed_tokens

#: Multiples of the least time that a figure read in another unit may be, to be a usual one.
_USUAL = 50.0
_UNITS = {"us": "ms", "ms": "s"}
_ONE_STREAM = (*DECODE, "user_throughput")


def invert_bounds(case: Case) -> Iterator[Inversion]:
    """Say which share of peak, cached share, tokens a step, number of GPUs or overhead would explain a figure."""
    for run, figure in timed(case):
        try:
            floor = floor_of(case, run, figure)
        except Unknown:
            yield from _several_tokens(case, run, figure)
            continue
        yield from _explained(case, run, figure, floor)


def _explained(case: Case, run: Run, figure: Figure, floor: Floor) -> Iterator[Inversion]:
    of, share = (figure.name,), floor.least.seconds / floor.seconds if floor.seconds > 0 else float("inf")
    prompt = figure.metric in PREFILL or figure.metric in ("input_throughput", "total_throughput")
    key = "mfu" if prompt or "FLOP" in floor.least.arithmetic else "mbu"
    arithmetic = f"{floor.least.arithmetic}; / {words.seconds(floor.seconds)} = {share:.3g}"
    said = f"{figure.metric} {figure.text} is {share:.1%} of what peak rates allow"
    yield Inversion(key, share, of, arithmetic, share <= 1, said)
    if share <= 1:
        over = floor.seconds - floor.least.seconds
        told = f"{words.seconds(floor.seconds)} - {words.seconds(floor.least.seconds)}"
        said = f"{words.seconds(over)} are not the work itself"
        yield Inversion("overhead_s", over, of, told, True, said)
        return
    yield Inversion(
        "gpus_factor", share, of, arithmetic, None, f"{share:.3g} times the GPUs would explain it"
    )
    yield from _cached(case, run, figure, floor)
    yield from _in_another_unit(figure, floor, share)
    if figure.metric in _ONE_STREAM:
        said = f"{share:.3g} tokens of each step, as speculative decoding makes them, would explain it"
        yield Inversion("tokens_per_step", share, of, arithmetic, None, said)


def _cached(case: Case, run: Run, figure: Figure, floor: Floor) -> Iterator[Inversion]:
    """The least share of a prompt that a cache must hold; none where no share is enough."""
    if figure.metric not in OF_PROMPTS:
        return
    try:
        needed, tokens, how = needed_tokens(case, run, figure, floor.seconds)
    except Unknown:
        return
    if needed is not None:
        said = f"a cache that holds {needed / tokens:.1%} of the prompt would explain it"
        yield Inversion("cached_share", needed / tokens, (figure.name,), how, None, said)


def _in_another_unit(figure: Figure, floor: Floor, share: float) -> Iterator[Inversion]:
    """A time a thousand times too short is usual in the next larger unit."""
    larger = _UNITS.get(figure.unit)
    if larger and 1 <= 1000 / share <= _USUAL:
        told = f"1000 x {words.seconds(floor.seconds)} = {1000 / share:.3g} x {words.seconds(floor.least.seconds)}"
        said = f"in {larger} instead of {figure.unit} it would be {1000 / share:.3g} times its bound"
        yield Inversion("unit_factor", 1000.0, (figure.name,), told, None, said)


def _several_tokens(case: Case, run: Run, figure: Figure) -> Iterator[Inversion]:
    """Tokens that a step of drafted tokens must give at least."""
    if figure.metric not in _ONE_STREAM or figure.value <= 0 or not drafted(run, figure):
        return
    try:
        least = step_of(case.subject(run, figure), run, figure, None)
    except Unknown:
        return
    seconds = figure.value if figure.dimension == "second" else 1 / figure.value
    share = least.seconds / seconds
    if share > 1:
        said = f"a step gives at least {share:.3g} tokens on average"
        yield Inversion("tokens_per_step", share, (figure.name,), f"{least.arithmetic} / {words.seconds(seconds)}",
                        None, said)  # fmt: skip
