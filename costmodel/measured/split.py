"""Which measured runs a fit sees: every second of the sorted keys is held out, always the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .points import Points
from .table import Mask


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
