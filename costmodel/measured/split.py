"""Which measured runs a fit sees: every second of the sorted keys is held out, always the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

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


def works(points: Points) -> tuple[int, NDArray[np.int64]]:
    """Return how many different things runs do, and which each does, in order of size."""
    quantities = (
        points.work.flop,
        points.work.bytes_moved,
        *points.work.shape.values(),
        *points.hardware.values(),
    )
    columns = [np.broadcast_to(quantity, (len(points),)) for quantity in quantities]
    distinct, which = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    return len(distinct), which.ravel()


def alternate(points: Points) -> Mask:
    """Return the runs of every second thing that they do, by its size, whatever the order of the table."""
    distinct, which = works(points)
    if distinct > 1:
        return np.asarray(which % 2 == 0)
    return np.asarray(np.argsort(np.argsort(points.seconds, kind="stable")) % 2 == 0)


def seen(points: Points, fit: OperatorFit) -> Mask:
    """Return which runs a fit of their GPU and stack has seen.

    Where it saw every second run of one shape, that can only be told of the very table that it was fitted to.
    """
    chosen = in_fit(points, fit.fitted_on)
    same = chosen.all() and len(points) == fit.points + fit.held_out_points
    return alternate(points) if fit.split == ALTERNATE and same else chosen
