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


class Prompts(NamedTuple):
    """Typical prompts, a row for each mix of lengths, shortest uncached part first; one where all are alike."""

    uncached: Array
    cached: Array


class Requests(NamedTuple):
    """Typical requests, a row for each mix of lengths: ``outputs``, and the row ``of`` their prompts."""

    prompts: Prompts
    outputs: Array
    of: Array

    @property
    def isl(self) -> Array:
        """All prompt tokens."""
        found: Array = (self.prompts.uncached + self.prompts.cached)[self.of]
        return found


class Rows(NamedTuple):
    """Points laid out: an array of each quantity, and the rows of its typical requests and of their prompts."""

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
    prompt: Array

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
    given_lengths = [np.asarray(np.nan if given[n] is None else given[n], dtype=np.float64) for n in _LENGTHS]
    spread = [column.ravel() for column in np.broadcast_arrays(*arrays, *given_lengths)]
    isl, osl, cached = spread[len(arrays) :]
    first, mix = distinct(isl, osl, cached)
    known = isl[first, None], osl[first, None], cached[first, None]
    requests = _requests(points.workload, *known, strata)
    return Rows(*[*spread[: len(arrays)], mix, requests.of[mix]]), requests


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


def _requests(workload: Workload | None, isl: Array, osl: Array, cached: Array, strata: int) -> Requests:
    """Typical requests of each mix of lengths: fixed ones, or those of the workload where they are not given (NaN)."""
    import numpy as np

    base = [np.ones((1, 1))] * 3
    if workload is not None:
        if workload.hit_rate < 1:
            raise InputError(
                f"prompts of a grid find all their cached tokens or have none: a hit rate of {workload.hit_rate:g} "
                "needs one point at a time, with the closed form of each"
            )
        typical = sorted(workload.typical(strata), key=lambda request: request.uncached_tokens)
        columns = zip(*((r.uncached_tokens, r.cached_tokens, r.output_tokens) for r in typical))
        base = [np.array(column, dtype=np.float64)[None, :] for column in columns]
    outputs = np.where(np.isnan(osl), base[2], osl)
    first, of = distinct(isl[:, 0], cached[:, 0])
    isl, cached = isl[first], cached[first]
    known = np.where(np.isnan(cached), workload.cached_tokens if workload else 0, cached)
    uncached = np.where(np.isnan(isl), base[0], isl - known)
    kept = np.where(np.isnan(isl) & np.isnan(cached), base[1], known)
    if (uncached < 1).any():
        place = np.argwhere(uncached < 1)[0][0]
        said = f"{known[place, 0]:g} of {isl[place, 0]:g} are cached"
        raise InputError(f"cached of a grid leaves a token of each prompt to compute: {said}")
    return Requests(Prompts(*_alike(uncached, kept)), _alike(outputs)[0], of)


def _alike(*columns: Array) -> list[Array]:
    """Return arrays of one shape, with one column where all columns are the same."""
    import numpy as np

    found = np.broadcast_arrays(*columns)
    alike = all((one == one[:, :1]).all() for one in found)
    return [one[:, :1] if alike else np.ascontiguousarray(one) for one in found]
