"""Points of a grid: what varies from one to the next, and the typical requests of each."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InputError
from ..inputs.workload import LONGEST, Workload
from ..serving.deployment import MOST_INSTANCES, Deployment
from .classes import distinct

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]

#: Whole numbers, and the most that each may be.
_WHOLE = {
    "isl": LONGEST,
    "osl": LONGEST,
    "cached": LONGEST,
    "prefill": MOST_INSTANCES,
    "decode": MOST_INSTANCES,
    "token_budget": LONGEST,
    "max_seqs": LONGEST,
    "nics": MOST_INSTANCES,
    "threshold": 10**9,
}
#: Names that may be 0; all others are positive.
_MAY_BE_NONE = ("cv", "cached", "control_s", "threshold")


@dataclass(frozen=True)
class GridPoints:
    """Numbers and arrays, broadcast against each other; None: what the deployment or the workload has.

    ``rate``: requests/s. ``cv``: variation of the gaps between them. ``isl``: prompt tokens, ``cached`` of them cached,
    and ``osl``: output tokens, fixed lengths in place of the workload's. ``prefill``, ``decode``: instances.
    ``threshold``: prompts with fewer uncached tokens stay on the decode side; None or NaN: the best of those that keep
    a quarter, a half, three quarters and all of the prompts there.
    """

    rate: ArrayLike | None = None
    cv: ArrayLike | None = None
    isl: ArrayLike | None = None
    osl: ArrayLike | None = None
    cached: ArrayLike | None = None
    prefill: ArrayLike | None = None
    decode: ArrayLike | None = None
    token_budget: ArrayLike | None = None
    max_seqs: ArrayLike | None = None
    nics: ArrayLike | None = None
    control_s: ArrayLike | None = None
    threshold: ArrayLike | None = None
    workload: Workload | None = None


class Requests(NamedTuple):
    """Typical requests, a row for each mix of lengths, shortest uncached prompt first."""

    uncached: Array
    cached: Array
    outputs: Array


class Rows(NamedTuple):
    """Points laid out: an array of each quantity, and ``mix``: the row of its typical requests."""

    rate: Array
    cv: Array
    prefill: Array
    decode: Array
    token_budget: Array
    max_seqs: Array
    nics: Array
    control_s: Array
    threshold: Array
    mix: Array

    def of(self, rows: Any) -> Rows:
        """Those of some points."""
        return Rows(*(column[rows] for column in self))


def laid_out(points: GridPoints, deployment: Deployment, strata: int) -> tuple[Rows, Requests]:
    """Return the points as arrays and their typical requests, ``strata`` for each distribution of lengths.

    Raises InputError for a value that no deployment or workload can have, and where neither lengths nor a workload
    are given.
    """
    import numpy as np

    given = {
        field.name: None if (value := getattr(points, field.name)) is None else _checked(field.name, value)
        for field in fields(points)
        if field.name != "workload"
    }
    if points.workload is None:
        missing = [name for name in ("rate", "isl", "osl") if given[name] is None]
        if missing:
            raise InputError(f"a grid without a workload needs {', '.join(missing)}")
    defaults = _defaults(deployment, points.workload)
    arrays = [np.asarray(defaults[n] if given[n] is None else given[n], dtype=np.float64) for n in defaults]
    lengths = [np.asarray(np.nan if given[n] is None else given[n], dtype=np.float64) for n in _LENGTHS]
    spread = [column.ravel() for column in np.broadcast_arrays(*arrays, *lengths)]
    first, mix = distinct(*spread[len(arrays) :])
    rows = Rows(*[*spread[: len(arrays)], mix])
    return rows, _requests(points.workload, [column[first] for column in spread[len(arrays) :]], strata)


_LENGTHS = ("isl", "osl", "cached")


def _defaults(deployment: Deployment, workload: Workload | None) -> dict[str, float]:
    """What a quantity is that the points do not give, in the order of :class:`Rows`."""
    settings, path = deployment.settings, deployment.path
    return {
        "rate": workload.rate if workload else math.nan,
        "cv": workload.arrivals.cv if workload else 1.0,
        "prefill": deployment.topology.prefill,
        "decode": deployment.topology.decode,
        "token_budget": settings.token_budget,
        "max_seqs": settings.max_seqs,
        "nics": path.nics,
        "control_s": path.control_s,
        "threshold": math.nan,
    }


def _checked(name: str, value: ArrayLike) -> Array:
    """Return a quantity as an array. Raises InputError with the first value that it cannot have."""
    import numpy as np

    found = np.asarray(value, dtype=np.float64)
    low = 0 if name in _MAY_BE_NONE else 1 if name in _WHOLE else np.nextafter(0, 1)
    bad = ~((found >= low) & (found <= _WHOLE.get(name, np.finfo(float).max)))
    if name in _WHOLE:
        bad |= found != np.floor(found)
    if name == "threshold":
        bad &= ~np.isnan(found)
    if bad.any():
        kind = f"a whole number from {low} to {_WHOLE[name]:,}" if name in _WHOLE else "a finite number"
        sign = "" if name in _WHOLE else ", not negative" if name in _MAY_BE_NONE else " above 0"
        raise InputError(f"{name} of a grid is {kind}{sign}, not {found[bad].ravel()[0]:g}")
    return found


def _requests(workload: Workload | None, lengths: list[Array], strata: int) -> Requests:
    """Typical requests of each mix of lengths: fixed ones, or those of the workload where they are not given."""
    import numpy as np

    isl, osl, cached = (column[:, None] for column in lengths)
    base = [np.ones((1, 1))] * 3
    if workload is not None:
        typical = sorted(workload.typical(strata), key=lambda request: request.uncached_tokens)
        columns = zip(*((r.uncached_tokens, r.cached_tokens, r.output_tokens) for r in typical))
        base = [np.array(column, dtype=np.float64)[None, :] for column in columns]
    known = np.where(np.isnan(cached), workload.cached_tokens if workload else 0, cached)
    uncached = np.where(np.isnan(isl), base[0], isl - known)
    of_prompt = np.where(np.isnan(isl) & np.isnan(cached), base[1], known)
    outputs = np.where(np.isnan(osl), base[2], osl)
    if (uncached < 1).any():
        place = np.argwhere(uncached < 1)[0][0]
        said = f"{known[place, 0]:g} of {isl[place, 0]:g} are cached"
        raise InputError(f"cached of a grid leaves a token of each prompt to compute: {said}")
    found = np.broadcast_arrays(uncached, of_prompt, outputs)
    alike = all((column == column[:, :1]).all() for column in found)
    return Requests(*(column[:, :1] if alike else np.ascontiguousarray(column) for column in found))
