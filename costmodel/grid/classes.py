"""Points that have the same of some quantities: what follows from these is computed once for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def distinct(*columns: Array) -> tuple[Array, Array]:
    """Return one point of each combination of values, and the place of every point's own among them."""
    import numpy as np

    count = len(columns[0])
    key, classes = np.zeros(count, np.int64), 1
    for column in columns:
        if not count or column[0] != column[0] or (column == column[0]).all():  # NaN: not given anywhere
            continue
        values, place = np.unique(column, return_inverse=True)
        key = key * len(values) + place
        classes *= len(values)
        if classes > 1 << 31:  # keep keys small
            values, key = np.unique(key, return_inverse=True)
            classes = len(values)
    _, first, place = np.unique(key, return_index=True, return_inverse=True)
    return first, place
