"""Amounts as reports write them: units in any of their spellings, and values as text such as "~1.2k tok/s"."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from ..errors import nearest, shorten
from ..units import UNITS

#: Units of figures beside those of :data:`..units.UNITS`: (dimension, factor to SI).
_MORE: dict[str, tuple[str, float]] = {
    "%": ("1", 0.01), "percent": ("1", 0.01), "pct": ("1", 0.01), "x": ("1", 1.0), "×": ("1", 1.0),
    "times": ("1", 1.0), "fraction": ("1", 1.0), "": ("1", 1.0), "share": ("1", 1.0), "ratio": ("1", 1.0),
    "requests": ("1", 1.0), "1": ("1", 1.0),
    "tok/s": ("token/second", 1.0), "tokens/s": ("token/second", 1.0), "token/s": ("token/second", 1.0),
    "toks/s": ("token/second", 1.0), "t/s": ("token/second", 1.0), "ktok/s": ("token/second", 1e3),
    "tps": ("token/second", 1.0),
    "requests/s": ("1/second", 1.0), "request/s": ("1/second", 1.0), "reqs/s": ("1/second", 1.0),
    "rps": ("1/second", 1.0), "qps": ("1/second", 1.0), "r/s": ("1/second", 1.0), "req/s": ("1/second", 1.0),
    "queries/s": ("1/second", 1.0),
    "blocks": ("token", 1.0), "tok": ("token", 1.0), "toks": ("token", 1.0),
    "sec": ("second", 1.0), "secs": ("second", 1.0), "second": ("second", 1.0), "seconds": ("second", 1.0),
    "msec": ("second", 1e-3), "msecs": ("second", 1e-3), "millisecond": ("second", 1e-3),
    "milliseconds": ("second", 1e-3), "usec": ("second", 1e-6), "usecs": ("second", 1e-6),
    "microseconds": ("second", 1e-6), "µs": ("second", 1e-6), "μs": ("second", 1e-6),
    "ms/token": ("second", 1e-3), "s/token": ("second", 1.0), "ms/tok": ("second", 1e-3), "s/tok": ("second", 1.0),
    "ms/it": ("second", 1e-3), "s/it": ("second", 1.0), "ms/step": ("second", 1e-3), "s/step": ("second", 1.0),
    "hours": ("second", 3600.0), "hour": ("second", 3600.0), "minutes": ("second", 60.0),
    "minute": ("second", 60.0), "mins": ("second", 60.0),
    "KB": ("byte", 1e3), "KB/s": ("byte/second", 1e3), "bytes": ("byte", 1.0),
    "Gbps": ("byte/second", 0.125e9), "Mbps": ("byte/second", 0.125e6), "Tbps": ("byte/second", 0.125e12),
    "GBps": ("byte/second", 1e9), "MBps": ("byte/second", 1e6), "TBps": ("byte/second", 1e12),
    "TFLOPS": ("flop/second", 1e12), "TFLOPs": ("flop/second", 1e12), "TFLOP/s": ("flop/second", 1e12),
    "PFLOPS": ("flop/second", 1e15), "GFLOPS": ("flop/second", 1e9), "TFLOPS/s": ("flop/second", 1e12),
    "TFLOPs/s": ("flop/second", 1e12), "TOPS": ("flop/second", 1e12),
}  # fmt: skip
#: Units by their small letters, where case tells nothing: a b may be a bit or a byte by its case alone.
_FOLDED = {
    unit.lower(): unit
    for unit, dimension in [(u, d.dimension) for u, d in UNITS.items()] + [(u, d) for u, (d, _) in _MORE.items()]
    if dimension not in ("byte", "byte/second", "watt") or "bit" in unit
}  # fmt: skip
#: What a rate may be divided by at its end, and whether that is a GPU, a node or a user.
_EACH = (
    (re.compile(r"(?i)(?:[\s_]*/[\s_]*|[\s_]+per[\s_]+)(?:gpu|chip|card|accelerator|device)s?$"), "gpu"),
    (re.compile(r"(?i)(?:[\s_]*/[\s_]*|[\s_]+per[\s_]+)(?:node|server|host)s?$"), "node"),
    (re.compile(r"(?i)(?:[\s_]*/[\s_]*|[\s_]+per[\s_]+)(?:user|stream|client)s?$"), "user"),
)
#: Largest number that is one: whole numbers of a file may be too large for a float.
_MOST = 1e300
_EXAMPLES = {"second": "ms", "byte": "GiB", "byte/second": "GB/s", "1/second": "req/s", "token/second": "tok/s",
             "flop/second": "TFLOP/s"}  # fmt: skip
_THOUSANDS = {"k": 1e3, "K": 1e3, "M": 1e6}
_COUNTED = re.compile(r"([kKM])\s?((?:tok|token|req|request|block)s?\b.*)")
_NUMBER = r"[+-]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d{1,3})?"
_ABOUT = r"~|≈|about|approx\.?|approximately|around|roughly|ca\.?|circa|nearly|almost"
_BOUND = r"<=|>=|<|>|≤|≥|up to|at least|at most|over|under|less than|more than"
_AMOUNT = re.compile(
    rf"(?:(?P<hedge>(?i:{_ABOUT}|{_BOUND}))\s*)?(?P<low>{_NUMBER})"
    rf"(?:\s*(?:-|–|—|\.\.\.?|\bto\b)\s*(?P<high>{_NUMBER}))?"
    rf"(?:\s*(?P<spread>(?:±|\+/-|\+-)\s*{_NUMBER}))?"
    r"(?P<times>[kKM](?=$|\s))?\s*(?P<unit>(?![\d.,]).*)"
)


class Amount(NamedTuple):
    """A value, the upper end where it is a range, the unit that stands with it, and what its words leave open."""

    low: float
    high: float | None = None
    unit: str = ""
    hedge: str | None = None


def amount_of(value: object) -> Amount | None:
    """Return a finite number, both ends of a range (a list or "22-57 %"), or a text with its unit; None for else.

    >>> amount_of("~1.2k tok/s"), amount_of([57, 22])
    (Amount(low=1200.0, high=None, unit='tok/s', hedge='~'), Amount(low=22.0, high=57.0, unit='', hedge=None))
    """
    if isinstance(value, list) and len(value) == 2:
        ends = [amount_of(each) for each in value if not isinstance(each, str | list)]
        low, *high = sorted(end.low for end in ends if end is not None) or [0.0]
        return Amount(low, high[0]) if high else None
    if isinstance(value, str):
        return _written(value.strip())
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _MOST:
        return None
    return Amount(float(value))


def _written(text: str) -> Amount | None:
    found = _AMOUNT.fullmatch(text)
    if found is None:
        return None
    power = {"k": 3, "m": 6}.get((found["times"] or "").lower(), 0)
    ends = [_shifted(found[end], power) for end in ("low", "high") if found[end]]
    if not all(map(math.isfinite, ends)):
        return None
    low, *high = sorted(ends)
    hedge = " ".join(word for word in (found["hedge"], found["spread"]) if word) or None
    return Amount(low, high[0] if high else None, found["unit"].strip(), hedge)


def _shifted(number: str, power: int) -> float:
    # Shifting the decimal exponent keeps 1.1k the float nearest to 1100; a product may not.
    mantissa, _, exponent = number.replace(",", "").lower().partition("e")
    return float(f"{mantissa}e{int(exponent or 0) + power}")


def apart(unit: str) -> tuple[str, str | None]:
    """Return a unit without "/GPU", "per node" or "/user" at its end, and which of gpu, node, user stood there.

    >>> apart("tok/s per GPU"), apart("GB/s")
    (('tok/s', 'gpu'), ('GB/s', None))
    """
    for pattern, each in _EACH:
        bare = pattern.sub("", unit.strip())
        if bare != unit.strip():
            return bare, each
    return unit.strip(), None


def spelt(unit: str) -> str:
    """Return a unit as it is known here: "Tokens per second" is tokens/s. Bits and bytes keep their case.

    >>> spelt("Tokens per sec"), spelt("GB/sec"), spelt("gb")
    ('tokens/s', 'GB/s', 'gb')
    """
    if unit in _MORE or unit in UNITS:
        return unit
    text = re.sub(r"(?:[\s_]+per[\s_]+|\s*/\s*)", "/", unit.strip(), flags=re.IGNORECASE)
    text = re.sub(r"/sec(?:ond)?s?$", "/s", text, flags=re.IGNORECASE)
    text = re.sub(r"bits/s$", "bit/s", re.sub(r"^([kKMGT]?i?B)ytes", r"\1", text))
    if text in _MORE or text in UNITS:
        return text
    return _FOLDED.get(text.lower(), unit)


def in_si(value: float, unit: str, dimension: str | None) -> tuple[float, str | None]:
    """Return a value in SI with the dimension of its unit; the dimension is None where the unit is not known."""
    if dimension == "token" and unit in _THOUSANDS:
        return value * _THOUSANDS[unit], "token"
    unit = spelt(unit)
    if unit in _MORE:
        own, factor = _MORE[unit]
        return value * factor, own
    if unit in UNITS:
        found = UNITS[unit]
        exact = (
            float(f"{value!r}e{found.exponent}") if "e" not in repr(value) else value * 10.0**found.exponent
        )
        return exact * found.multiplier, found.dimension
    counted = _COUNTED.fullmatch(unit)
    if counted:
        return in_si(value * _THOUSANDS[counted[1]], counted[2], dimension)
    return value, None


def example_of(dimension: str | None) -> str:
    """Return a usual unit of a dimension."""
    return _EXAMPLES.get(dimension or "", "1")


def fitting(own: str | None, wanted: str | None) -> bool:
    """Whether a unit of dimension ``own`` measures what a metric of dimension ``wanted`` is."""
    return wanted is None or own == wanted or {own, wanted} <= {"1", "token"}


def unit_problem(where: str, unit: str, metric: str, wanted: str) -> str:
    """Say that a unit does not measure a metric, with the nearest that does."""
    known = [u for u, (d, _) in _MORE.items() if d == wanted] + [
        u for u, d in UNITS.items() if d.dimension == wanted
    ]
    match = nearest(unit, known, cutoff=0.6) if unit else None
    hint = f"; did you mean {match!r}?" if match else f"; expected one such as {example_of(wanted)}"
    return f"{where}: unit {shorten(unit)!r} does not measure {metric} ({wanted}){hint}"
