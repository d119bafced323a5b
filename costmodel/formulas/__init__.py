"""The formula book: one topic a module, one documented function a formula.

Importing this package imports every topic, so that :data:`costmodel.formula.BOOK` is complete. It imports
neither numpy nor sympy.
"""

from __future__ import annotations

from ..errors import InputError, unknown
from ..formula import BOOK, Formula
from . import (
    chunking,
    decode,
    gemm,
    kv,
    latent,
    memory,
    mixed,
    moe,
    operators,
    prefill,
    reuse,
    roofline,
    threshold,
    transfer,
    waiting,
    whole,
    work,
)

__all__ = [
    "BOOK",
    "formula_named",
    "chunking",
    "decode",
    "gemm",
    "kv",
    "latent",
    "memory",
    "mixed",
    "moe",
    "operators",
    "prefill",
    "reuse",
    "roofline",
    "threshold",
    "transfer",
    "waiting",
    "whole",
    "work",
]


def formula_named(name: str) -> Formula:
    """Return the formula of that name. Raises InputError, with the nearest name, if there is none."""
    if name not in BOOK:
        raise InputError(unknown("formula", name, BOOK, remedy="(costmodel show formulas lists all)"))
    return BOOK[name]
