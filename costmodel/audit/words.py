"""Quantities as sentences and arithmetic of findings write them."""

from __future__ import annotations

from ..units import format_si


def seconds(value: float, digits: int = 3) -> str:
    """Return a time with its unit.

    >>> seconds(0.0042), seconds(12.0)
    ('4.2 ms', '12 s')
    """
    return format_si(value, "second", digits)


def size(value: float, digits: int = 3) -> str:
    """Return bytes with their unit, decimal.

    >>> size(1.5e9)
    '1.5 GB'
    """
    return format_si(value, "byte", digits)


def rate(value: float, digits: int = 3) -> str:
    """Return bytes a second with their unit.

    >>> rate(50e9)
    '50 GB/s'
    """
    return format_si(value, "byte/second", digits)


def flops(value: float) -> str:
    """Return FLOP a second with their unit.

    >>> flops(989e12)
    '989 TFLOP/s'
    """
    return format_si(value, "flop/second")
