"""Strict reading of "number space unit" by a small table of exact factors, and printing in SI prefixes.

Bytes are never bits ("80 Gb" is refused where bytes are meant), decimal GB is never binary GiB, case counts
and a comma is never guessed at. Everything is converted to byte, flop, second, watt or a plain count.
"""

from __future__ import annotations

import math
import re
from difflib import get_close_matches
from typing import Literal, NamedTuple

from .errors import InputError, shorten

Dimension = Literal["byte", "byte/second", "flop/second", "second", "1", "1/second", "watt", "token"]


class Unit(NamedTuple):
    """One unit is ``multiplier * 10**exponent`` of its dimension's SI unit; both are exact."""

    dimension: Dimension
    exponent: int
    multiplier: float = 1.0


_DECIMAL = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4}
_BIT = 0.125

UNITS: dict[str, Unit] = {
    **{f"{p}B": Unit("byte", e) for p, e in _DECIMAL.items()},
    **{f"{p}B": Unit("byte", 0, 1024.0**e) for p, e in _BINARY.items()},
    **{f"{p}B/s": Unit("byte/second", e) for p, e in _DECIMAL.items()},
    **{f"{p}B/s": Unit("byte/second", 0, 1024.0**e) for p, e in _BINARY.items()},
    **{f"{p}{bit}/s": Unit("byte/second", e, _BIT) for bit in ("b", "bit") for p, e in _DECIMAL.items()},
    "flop/s": Unit("flop/second", 0),
    **{f"{p}FLOP/s": Unit("flop/second", e) for p, e in _DECIMAL.items()},
    "ns": Unit("second", -9),
    "us": Unit("second", -6),
    "ms": Unit("second", -3),
    "s": Unit("second", 0),
    "min": Unit("second", 0, 60.0),
    "h": Unit("second", 0, 3600.0),
    "/s": Unit("1/second", 0),
    "1/s": Unit("1/second", 0),
    "req/s": Unit("1/second", 0),
    "W": Unit("watt", 0),
    "kW": Unit("watt", 3),
    "token": Unit("token", 0),
    "tokens": Unit("token", 0),
}

_MEANS: dict[Dimension, tuple[str, str]] = {
    # dimension: (what it is, an example)
    "byte": ("an amount of bytes", "80 GiB"),
    "byte/second": ("a bandwidth", "25 GB/s"),
    "flop/second": ("a compute rate", "312 TFLOP/s"),
    "second": ("a time", "50 ms"),
    "1": ("a plain number", "0.9"),
    "1/second": ("a rate", "2.5 req/s"),
    "watt": ("a power", "700 W"),
    "token": ("a number of tokens", "2048"),
}

_LONGEST = 60
_NUMBER = re.compile(
    r"(?P<sign>-?)(?P<mantissa>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE](?P<exponent>[+-]?[0-9]{1,3})(?![0-9]))?"
    r"(?P<gap>\s*)(?P<unit>.*)",
    re.DOTALL,
)
_BIT_AMOUNT = re.compile(r"([kKMGT]?)i?b(?:its?)?")
_PREFIX_NAMES = {"": "", "k": "kilo", "K": "kilo", "M": "mega", "G": "giga", "T": "tera"}
# Spellings that mean one unit without doubt, named in the error; they are not accepted.
_SPELLINGS = (
    (re.compile(r"(?<=[bB])ps$|/sec(ond)?$"), "/s"),
    (re.compile(r"(?i)flops?(/s)?$"), "FLOP/s"),
    (re.compile(r"^[µμ]"), "u"),
    (re.compile(r"^sec(ond)?s?$"), "s"),
)


def parse(text: str, dimension: Dimension, what: str, *, positive: bool = False) -> float:
    """Return the value of ``text`` in SI: "3.35 TB/s" is 3.35e12, "200 Gb/s" is 25e9, "80 GiB" is 80 * 2**30.

    Exactly one space stands between number and unit; "1" takes no unit and "token" needs none.
    ``what`` names the value in errors; ``positive`` refuses zero. Raises InputError.
    """
    return _parse(text, dimension, what, positive, spaced=True, bare=dimension in ("1", "token"))


#: What an option may say at most, in SI: beyond any system, and far from where floats overflow.
_MOST: dict[Dimension, float] = {"byte": 1e18, "byte/second": 1e18, "flop/second": 1e24}
_MOST_ELSE, _LEAST = 1e9, 1e-12


def parse_option(
    text: str,
    dimension: Dimension,
    option: str,
    *,
    positive: bool = False,
    signed: bool = False,
    most: float | None = None,
) -> float:
    """Return the value of a command-line option in SI: as :func:`parse`, but the space may be left out.

    A bare number is taken as SI for times, rates, tokens and shares. ``signed`` accepts negative values,
    ``most`` replaces the dimension's upper limit. Raises InputError naming ``option``.
    """
    bare = dimension in ("second", "1/second", "token", "1")
    found = _parse(text.strip(), dimension, option, positive, spaced=False, bare=bare, signed=signed)
    limit = _MOST.get(dimension, _MOST_ELSE) if most is None else most
    if abs(found) > limit:
        raise InputError(
            f"{option}: {shorten(text.strip())!r} is too large; at most {format_si(limit, dimension)}"
        )
    if 0 < abs(found) < _LEAST:
        raise InputError(f"{option}: {shorten(text.strip())!r} is too small to mean anything")
    return found


def _parse(
    text: str,
    dimension: Dimension,
    what: str,
    positive: bool,
    *,
    spaced: bool,
    bare: bool,
    signed: bool = False,
) -> float:
    if len(text) > _LONGEST:
        raise InputError(f"{what}: {shorten(text)!r} is too long; expected {_expected(dimension)}")
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise InputError(f"{what}: {_no_number(text, dimension)}")
    number = found["mantissa"] + (f"e{found['exponent']}" if found["exponent"] else "")
    gap, symbol = found["gap"], found["unit"]
    unit = UNITS.get(symbol, Unit(dimension, 0) if bare and not symbol else None)
    if unit is None or unit.dimension != dimension:
        raise InputError(f"{what}: {text!r}: {_bad_unit(number, gap, symbol, dimension)}")
    if spaced and gap != (" " if symbol else ""):
        written = f"{number} {symbol}".strip()
        raise InputError(f"{what}: {text!r}: exactly one space stands before a unit: {written!r}")
    # Shifting the decimal exponent rounds once; multiplying by 1e-6 would round twice.
    value = float(f"{found['mantissa']}e{int(found['exponent'] or 0) + unit.exponent}") * unit.multiplier
    if not math.isfinite(value):
        raise InputError(f"{what}: {text!r} is too large to be finite")
    if found["sign"] and signed:
        return -value
    if found["sign"]:
        raise InputError(f"{what}: {text!r} is negative; expected {_expected(dimension)}")
    if positive and value == 0:
        raise InputError(f"{what}: {text!r} is zero; expected more than zero")
    if dimension == "token" and not value.is_integer():
        raise InputError(f"{what}: {text!r}: tokens are whole numbers")
    return value


def _expected(dimension: Dimension) -> str:
    kind, example = _MEANS[dimension]
    return f"{kind} such as {example!r}"


def _no_number(text: str, dimension: Dimension) -> str:
    if not text.strip():
        return f"empty; expected {_expected(dimension)}"
    if re.match(r"\s*[+-]?(nan|inf)", text, re.IGNORECASE):
        return f"{text!r} is not a finite number; expected {_expected(dimension)}"
    return f"{text!r} does not start with a number; expected {_expected(dimension)}"


def _bad_unit(number: str, gap: str, symbol: str, dimension: Dimension) -> str:
    """Say what is wrong with ``symbol``, which is no unit of ``dimension``; the likeliest slip first."""
    return (
        _separator(number, gap, symbol)
        or _other_quantity(number, symbol, dimension)
        or _suffix_of_count(number, symbol, dimension)
        or _misspelt(symbol, dimension)
    )


def _separator(number: str, gap: str, symbol: str) -> str | None:
    if not re.match(r"[.,_'’]?[0-9]|,", symbol):
        return None
    written = f"{number}{gap}{symbol}"
    decimals = re.match(r",([0-9]+)(?![0-9.,_])", symbol)
    if decimals is None or "." in number:
        return "separators between digits are refused; write the digits alone, with a point before decimals"
    point = written.replace(",", ".")
    if len(decimals[1]) == 3:
        return f"a comma is refused; write {point!r} (a decimal point) or {written.replace(',', '')!r}"
    return f"a decimal comma is refused; write a point: {point!r}"


def _other_quantity(number: str, symbol: str, dimension: Dimension) -> str | None:
    if not symbol:
        return f"the unit is missing; expected {_expected(dimension)}"
    bits = _BIT_AMOUNT.fullmatch(symbol)
    if bits:
        prefix, decimal = bits[1], bits[1].replace("K", "k")
        name = f"{symbol} is {_PREFIX_NAMES[prefix]}bit"
        if dimension == "byte":
            binary = f" or '{number} {prefix.upper()}iB' (binary)" if prefix else ""
            return f"{name}; write '{number} {decimal}B' (decimal){binary}"
        if dimension == "byte/second":
            bits_or_bytes = f"'{number} {decimal}b/s' (bits) or '{number} {decimal}B/s' (bytes)"
            return f"{name}, an amount; write {bits_or_bytes}"
    if symbol in UNITS:
        given = _MEANS[UNITS[symbol].dimension][0]
        return f"{symbol} measures {given}; expected {_expected(dimension)}"
    return None


def _suffix_of_count(number: str, symbol: str, dimension: Dimension) -> str | None:
    power = {"k": 1, "m": 2}.get(symbol.lower())
    if dimension == "token" and power:
        decimal, binary = float(number) * 1000**power, float(number) * 1024**power
        return f"{symbol} is ambiguous; write {decimal:.0f} or {binary:.0f}, whichever is meant"
    if dimension == "1" and symbol == "%":
        return f"write a share, not a percentage: '{float(number) / 100:g}'"
    return None


def _misspelt(symbol: str, dimension: Dimension) -> str:
    known = [name for name, unit in UNITS.items() if unit.dimension == dimension]
    if not known:
        return f"unknown unit {symbol!r}; expected {_expected(dimension)}, without a unit"
    folded = [name for name in known if name.lower() == symbol.lower()]
    if folded:
        return f"unknown unit {symbol!r}: case matters; did you mean {' or '.join(map(repr, folded))}?"
    spelt = [s for pattern, right in _SPELLINGS if (s := pattern.sub(right, symbol)) in known]
    match = spelt or get_close_matches(symbol, known, n=1, cutoff=0.4)
    hint = f"did you mean {match[0]!r}? " if match else ""
    return f"unknown unit {symbol!r}; {hint}expected {_expected(dimension)}"


_PRINTED: dict[Dimension, tuple[tuple[str, float], ...]] = {
    # largest first; the last one also prints everything smaller
    "byte": tuple((f"{p}B", 10.0**e) for p, e in reversed(_DECIMAL.items())),
    "byte/second": tuple((f"{p}B/s", 10.0**e) for p, e in reversed(_DECIMAL.items())),
    "flop/second": tuple((f"{p}FLOP/s", 10.0**e) for p, e in reversed(_DECIMAL.items())),
    "second": (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)),
    "1": (("", 1.0),),
    "1/second": (("/s", 1.0),),
    "watt": (("kW", 1e3), ("W", 1.0)),
    "token": (("tokens", 1.0),),
}
_PRINTED_BINARY = (*((f"{p}B", 1024.0**e) for p, e in reversed(_BINARY.items())), ("B", 1.0))


#: Parts of the smallest prefix below which a number is printed by its exponent.
_TINY = 1e-4


def format_si(value: float, dimension: Dimension, digits: int = 3, *, binary: bool = False) -> str:
    """Return ``value`` (SI) with a prefix and ``digits`` significant digits: "25 GB/s", "31.1 kB", "1.39 ms".

    Digits left of the point are never rounded away, trailing zeros are dropped; what is far below the smallest
    prefix is told by its exponent: "7.34e-31 s". ``binary`` prints bytes in KiB, MiB, GiB, TiB. Negative values are
    legal (accounts of a ledger are signed).
    """
    scales = _PRINTED[dimension]
    if binary:
        if dimension not in ("byte", "byte/second"):
            raise ValueError(f"binary prefixes are for bytes, not {dimension}")
        rate = "/s" if dimension == "byte/second" else ""
        scales = tuple((name + rate, factor) for name, factor in _PRINTED_BINARY)
    base = next(name for name, factor in scales if factor == 1.0)
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {base}".strip()
    # The prefix is chosen after rounding, so that 999.96 B is 1 kB.
    rounded = [(float(f"{value / factor:.{digits - 1}e}"), name, factor) for name, factor in scales]
    leading, name, factor = next((entry for entry in rounded if abs(entry[0]) >= 1), rounded[-1])
    if abs(leading) < _TINY:
        return f"{value:.{digits}g} {base}".strip()
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(leading))))
    shown = f"{value / factor:.{decimals}f}"
    return f"{shown.rstrip('0').rstrip('.') if decimals else shown} {name}".strip()
