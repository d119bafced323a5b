"""Fitting parameters to measured runs: soft-L1 on the logarithm of predicted over measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..operators.catalogue import PARAMETERS
from .table import Array

#: Log errors below this count by their square, above it by their size.
SOFT = 0.1
#: Factors on the starting point of each fit, tried in turn.
STARTS = (1.0, 0.4, 0.7)

#: A parameter to find: the operator kind it is of, and its name.
Unknown = tuple[str, str]
Values = dict[Unknown, float]


class Found(NamedTuple):
    """The cost of a fit and its parameters."""

    cost: float
    values: Values


def fit(residual: Callable[[Values], Array], unknowns: Sequence[Unknown]) -> Found:
    """Return the parameters with the least cost of ``residual``: log errors of the runs that the fit may see.

    Parameters with choices are tried in turn, the others fitted inside their range. Raises InputError where
    scipy is missing.
    """
    tried = [unknown for unknown in unknowns if PARAMETERS[unknown[1]].choices]
    smooth = [unknown for unknown in unknowns if not PARAMETERS[unknown[1]].choices]
    best: Found | None = None
    for values in product(*(PARAMETERS[name].choices for _, name in tried)):
        found = _smooth(residual, smooth, dict(zip(tried, values)))
        if best is None or found.cost < best.cost * (1 - 1e-9):
            best = found
    assert best is not None
    return best


def _smooth(residual: Callable[[Values], Array], unknowns: Sequence[Unknown], chosen: Values) -> Found:
    try:
        from scipy.optimize import least_squares
    except ImportError:
        raise InputError("fitting needs scipy: pip install 'llm-costmodel[calibrate]'") from None
    known = [PARAMETERS[name] for _, name in unknowns]
    units = np.array([p.start if p.dimension != "1" or p.high > 100 else 1.0 for p in known])
    low = np.array([p.low for p in known]) / units
    high = np.array([p.high for p in known]) / units

    def of(x: Array) -> Array:
        return residual({**chosen, **dict(zip(unknowns, (x * units).tolist()))})

    best: Any = None
    for factor in STARTS:
        start = np.clip(np.array([p.start for p in known]) / units * factor, low + 1e-9, high * (1 - 1e-9))
        found = least_squares(
            of, start, bounds=(low, high), loss="soft_l1", f_scale=SOFT, x_scale=np.maximum(start, 0.05)
        )
        if best is None or found.cost < best.cost:
            best = found
    return Found(float(best.cost), {**chosen, **dict(zip(unknowns, (best.x * units).tolist()))})
