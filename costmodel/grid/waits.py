"""Mean waits of many queues at once: :func:`costmodel.evaluate.waits.mean_wait`, point by point.

Poisson arrivals have Erlang's formula of the book; of other gaps the root is found by Newton's rule, which is the
bisection of the scalar code but for the last bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..evaluate.waits import _HUGE, _NONE
from ..formulas.waiting import erlang_c

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_STEPS = 60
#: A last step of Newton's rule, over the distance to 0 and to 1: the next would be its square.
_LAST = 1e-8
#: Variations as near to 1 as rounding leaves them.
_POISSON = 1e-12
#: Servers up to which the terms of Erlang's formula are finite numbers.
_MOST_ERLANG = 512


class Moments(NamedTuple):
    """Means and squared coefficients of variation."""

    mean: Array
    scv: Array


def moments(values: Array, weights: Array) -> Moments:
    """Weighted moments over the last axis; zeros where the weights are all zero."""
    import numpy as np

    total = weights.sum(-1)
    some = np.where(total > 0, total, 1.0)
    mean = (values * weights).sum(-1) / some
    square = (values * values * weights).sum(-1) / some
    safe = np.where(mean > 0, mean, 1.0)
    return Moments(mean, np.where(mean > 0, np.maximum(0.0, square / safe**2 - 1), 0.0))


class Queues(NamedTuple):
    """Arrivals at queues: mean gaps, their squared variations, and the servers of each."""

    gap: Array
    scv: Array
    servers: Array

    @property
    def rate(self) -> Array:
        """Arrivals a second."""
        return 1 / self.gap

    def of(self, rows: Any) -> Queues:
        """Those of some rows."""
        return Queues(self.gap[rows], self.scv[rows], self.servers[rows])


def mean_wait(queues: Queues, service: Moments) -> Array:
    """Mean waits of stable queues, by two moments."""
    import numpy as np

    wait = np.zeros(len(queues.gap))
    rows = np.flatnonzero((service.mean > 0) & (queues.scv + service.scv > 0))
    if not len(rows):
        return wait
    some = len(rows) < len(wait)
    gap, scv, servers = queues.of(rows) if some else queues
    mean, spread = (service.mean[rows], service.scv[rows]) if some else service
    waits, root = _gi_m_c(Queues(gap, scv, servers), mean)
    wait[rows] = waits * mean / (servers * (1 - root)) * (scv + spread) / (scv + 1)
    return wait


def _gi_m_c(queues: Queues, service: Array) -> tuple[Array, Array]:
    """Shares that wait in GI/M/c and behind one server as fast as all."""
    import numpy as np

    servers = queues.servers
    poisson = (np.abs(queues.scv - 1) < _POISSON) & (servers <= _MOST_ERLANG)
    root = service / (servers * queues.gap)
    uneven = np.flatnonzero(~poisson)
    if len(uneven):
        root[uneven] = _root(queues.scv[uneven], root[uneven])
    waits = root.copy()
    several = (servers > 1) & (root >= _NONE)
    rows = np.flatnonzero(several & ~poisson)
    if len(rows):
        waits[rows] = _takacs(queues.of(rows), service[rows], root[rows])
    rows = np.flatnonzero(several & poisson)
    for count in np.unique(servers[rows]).tolist():
        equal = rows[servers[rows] == count]
        waits[equal] = erlang_c.function(int(count), root[equal])
    return waits, root


def _transform(scaled: Array, scv: Array) -> Array:
    """Mean of exp(-x gap), with x in arrivals: of gaps of mean 1."""
    import numpy as np

    even = scv <= 0
    safe = np.where(even, 1.0, scv) if even.any() else scv
    found: Array = np.exp(-np.log1p(scaled * safe) / safe)
    return np.where(even, np.exp(-scaled), found) if safe is not scv else found


def _root(scv: Array, busy: Array) -> Array:
    """The root below 1 of x = E[exp(-servers (1 - x) gap / service)], where a server is ``busy`` so much.

    The transform is convex: from the left of the root Newton's rule climbs to it, and from near it, steps to its left.
    """
    import numpy as np

    def sloped(x: Array, scv: Array, busy: Array) -> tuple[Array, Array]:
        scaled = (1 - x) / busy
        value = _transform(scaled, scv)
        return value, value / ((1 + scaled * scv) * busy)

    found = busy ** (2 / (1 + scv))
    found[sloped(found, scv, busy)[1] >= 1] = 0.0  # too far right
    rows = np.arange(len(busy))
    for _ in range(_STEPS):
        x = found[rows]
        value, slope = sloped(x, scv[rows], busy[rows])
        step = (value - x) / (1 - slope)
        found[rows] = x + step
        rows = rows[np.abs(step) > _LAST * np.minimum(x, 1 - x)]
        if not len(rows):
            break
    return found


def _takacs(queues: Queues, service: Array, root: Array) -> Array:
    """Shares that wait in GI/M/c: Takacs' sum over the servers, of most servers first."""
    import numpy as np

    order = np.argsort(-queues.servers, kind="stable")
    gap, scv, servers = queues.of(order)
    load, spare = gap / service[order], servers * (1 - root[order])
    total, term, never = 1 / (1 - root[order]), np.ones(len(gap)), np.zeros(len(gap), bool)
    for j in range(1, int(servers[0]) + 1):
        those = slice(0, int(np.searchsorted(-servers, -j, side="right")))
        variation, free = scv[those], spare[those]
        here = _transform(j * load[those], variation)
        term[those] *= (servers[those] - j + 1) / j * (1 - here) / here
        never[those] |= term[those] > _HUGE
        apart = free - j
        aside = np.flatnonzero(np.abs(apart) < _NONE)  # 0 / 0: a step aside
        apart[aside] = 1.0
        ratio = (servers[those] * (1 - here) - j) / apart
        if len(aside):
            place = j + 1e-4
            at = _transform(place * load[aside], variation[aside])
            ratio[aside] = (servers[aside] * (1 - at) - place) / (free[aside] - place)
        total[those] += term[those] / (1 - here) * ratio
        if never.all():
            break
    found = np.empty(len(gap))
    found[order] = np.where(never, 0.0, 1 / (total * (1 - root[order])))
    return found
