"""A stated number of bytes against what it must be, and the slip of units that explains the difference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..records import Figure
from ..units import format_si
from .finding import HOLDS, INCONSISTENT, SUSPICIOUS, Finding, not_computable
from .runs import named
from .written import COARSE, Reading

#: What a reading is called in a sentence.
_SLIPS = {
    "binary_as_decimal": "binary and decimal units are mixed up",
    "bits_as_bytes": "bits and bytes are mixed up",
}


#: What must be true besides, where bytes agree with something else than each byte stored once.
_BESIDES = {
    "replicated_kv": "every copy is counted, and was moved if this was measured",
    "narrow_kv": "an 8-bit cache, which is not stated",
    "expanded_latents": "keys and values of every head are counted, where a cache of latents holds one vector for all",
}
#: Those of them that no cache holds.
_WRONG = ("expanded_latents",)


class Expected(NamedTuple):
    """Bytes that a figure should be, how they are counted, and what must be true besides ("": nothing)."""

    size: float
    told: str
    id: str = ""


def judge(
    check: str,
    of: Sequence[Figure],
    what: str,
    stated: float,
    wanted: Sequence[Expected],
    meant: Sequence[Reading],
    open_: float,
    apart: str = INCONSISTENT,
) -> Iterator[Finding]:
    """Yield what ``stated`` bytes agree with: as written first, then in another unit, else nothing.

    ``what``: the figures ``of`` in words. ``wanted``: what it may be, the likeliest first. ``meant``: what its unit may
    mean. ``open_``: how far it may be off, relative. ``apart``: the grade where it agrees with nothing.
    """
    names, written = named(of), format_si(stated, "byte", 4)
    wanted = [expected for expected in wanted if expected.size > 0]
    if not wanted:
        yield not_computable(check, names, what, "the model holds no bytes of that")
        return
    if open_ > COARSE:
        reason = f"its digits leave {open_:.0%} open, as much as a slip of units"
        yield not_computable(check, names, what, reason)
        return
    for expected in sorted(wanted, key=lambda each: bool(each.id)):
        if abs(stated / expected.size - 1) <= open_:
            yield _agreed(check, names, what, f"{what} = {written} against {expected.told}", expected)
            return
    for reading in meant:
        for expected in wanted:
            if abs(stated * reading.factor / expected.size - 1) <= open_:
                told = f"{what} = {written} against {expected.told}: ratio {stated / expected.size:.4g}"
                said = f"{what} fits if its unit is {reading.unit}: {_SLIPS[reading.slip]}"
                yield Finding(reading.slip, INCONSISTENT, names, said, told)
                return
    nearest = min(wanted, key=lambda each: abs(stated / each.size - 1))
    said = f"{what} is {stated / wanted[0].size:.3g} times {wanted[0].told}"
    yield Finding(check, apart, names, said, f"{written}; nearest: {nearest.told}")


def _agreed(check: str, names: tuple[str, ...], what: str, told: str, expected: Expected) -> Finding:
    said = f"{what} is {expected.told}"
    if expected.id:
        grade = INCONSISTENT if expected.id in _WRONG else SUSPICIOUS
        return Finding(expected.id, grade, names, f"{said}: {_BESIDES[expected.id]}", told)
    return Finding(check, HOLDS, names, said, told)
