"""Which measured runs a fit sees: every second of the sorted keys is held out, always the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..inputs.efficiency import OperatorFit
from .points import Points
from .table import Mask

#: How runs of one key are split.
ALTERNATE = "every second row held out, as there is one shape, model or size only"


def in_order(keys: Sequence[str]) -> list[str]:
    """Return distinct keys, sorted: by number where all are numbers such as 8/1, else as text."""
    distinct = set(keys)
    if all(part.isdecimal() for key in distinct for part in key.split("/")):
        return sorted(distinct, key=lambda key: [int(part) for part in key.split("/")])
    return sorted(distinct)


def fitted_keys(points: Sequence[Points]) -> tuple[str, ...]:
    """Return the first, third, ... of the distinct keys: what a fit sees. All of them where there is only one."""
    return tuple(in_order([key for part in points for key in part.keys.tolist()])[::2])


def in_fit(points: Points, keys: Sequence[str]) -> Mask:
    """Return which runs have one of the fitted keys."""
    return np.isin(points.keys, np.array(list(keys)))


def alternate(points: Points) -> Mask:
    """Return every second run by what it does, whatever the order of the table."""
    shape = [points.work.shape[name] for name in sorted(points.work.shape)]
    columns = (points.seconds, *points.hardware.values(), *shape, points.work.bytes_moved, points.work.flop)
    order = np.lexsort([np.broadcast_to(column, (len(points),)) for column in columns])
    found = np.zeros(len(points), dtype=bool)
    found[order[::2]] = True
    return found


def seen(points: Points, fit: OperatorFit) -> Mask:
    """Return which runs a fit of their GPU and stack has seen.

    Where it saw every second run of one shape, that can only be told of the very table that it was fitted to.
    """
    chosen = in_fit(points, fit.fitted_on)
    same = chosen.all() and len(points) == fit.points + fit.held_out_points
    return alternate(points) if fit.split == ALTERNATE and same else chosen
