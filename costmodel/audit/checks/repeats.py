"""Copies of the same bytes under the same conditions: how far apart their times are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ...records import Figure
from .. import words
from ..case import Case
from ..finding import SUSPICIOUS, Finding, Inversion
from ..runs import named

CHECK = "copies_of_one_size"
#: Times of equal copies this far apart have another cause than bytes.
_APART = 3.0


def _groups(case: Case) -> list[tuple[float, list[Figure]]]:
    """Times of copies of one statistic and payload, of one set of conditions."""
    groups: dict[tuple[object, ...], list[Figure]] = defaultdict(list)
    for run, figure in case.each("kv_transfer_time"):
        size = run.number("payload", figure)
        if size and figure.value > 0:
            groups[(size, figure.statistic, tuple(sorted(map(str, run.conditions.items()))))].append(figure)
    return [(float(str(key[0])), figures) for key, figures in groups.items() if len(figures) > 1]


def check_repeats(case: Case) -> Iterator[Finding]:
    """Equal copies far apart wait for something, or pay for being the first."""
    for size, figures in _groups(case):
        fast, slow = min(figures, key=_value), max(figures, key=_value)
        ratio = slow.value / fast.value
        if ratio < _APART:
            continue
        first = figures[0] is slow
        said = f"copies of {words.size(size)} take {fast.text} to {slow.text}: " + (
            "the first one sets up the connection, a cost that no byte has"
            if first
            else "they wait, for each other or for software; the link is as fast as before"
        )
        yield Finding(CHECK, SUSPICIOUS, named(figures), said, f"{slow.text} / {fast.text} = {ratio:.3g}")


def invert_repeats(case: Case) -> Iterator[Inversion]:
    """Say what the slowest of equal copies spends beyond the fastest, and at which steps the others wait."""
    for size, figures in _groups(case):
        fast, slow = min(figures, key=_value), max(figures, key=_value)
        over = slow.value - fast.value
        if over > 0:
            yield Inversion("wait_s", over, (slow.name, fast.name), f"{slow.text} - {fast.text}", True,
                            f"{words.seconds(over)} of the slowest copy are no copying")  # fmt: skip
        step = _even_step([figure.value for figure in figures])
        if step is not None:
            speed, apart = size / step, words.seconds(step)
            said = f"copies end {apart} apart: one link carries them in turn, at {words.rate(speed)}"
            yield Inversion(
                "link_bytes_per_s", speed, named(figures), f"{words.size(size)} / {apart}", None, said
            )


def _even_step(times: list[float]) -> float | None:
    """The step of three times that are evenly apart, each later by the same service: a queue of one link."""
    ordered = sorted(times)
    for low, middle, high in zip(ordered, ordered[1:], ordered[2:]):
        first, second = middle - low, high - middle
        if first > 0.1 * low and abs(second - first) <= 0.15 * first:
            return (high - low) / 2
    return None


def _value(figure: Figure) -> float:
    return figure.value
