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

    poisson = (np.abs(queues.scv - 1) < _POISSON) & (queues.servers <= _MOST_ERLANG)
    root = service / (queues.servers * queues.gap)
    uneven = np.flatnonzero(~poisson)
    if len(uneven):
        root[uneven] = _root(queues.scv[uneven], root[uneven])
    waits = root.copy()
    for servers in np.unique(queues.servers):
        here = (queues.servers == servers) & (root >= _NONE)
        rows = np.flatnonzero(here & poisson)
        if len(rows) and servers > 1:
            waits[rows] = erlang_c.function(int(servers), root[rows])
        rows = np.flatnonzero(here & ~poisson)
        if len(rows) and servers > 1:
            waits[rows] = _takacs(queues.of(rows), service[rows], root[rows], int(servers))
    return waits, root


def _transform(gap: Array, scv: Array, x: Array) -> Array:
    """Mean of exp(-x gap)."""
    import numpy as np

    even = scv <= 0
    safe = np.where(even, 1.0, scv) if even.any() else scv
    found: Array = np.exp(-np.log1p(x * gap * safe) / safe)
    return np.where(even, np.exp(-x * gap), found) if safe is not scv else found


def _root(scv: Array, busy: Array) -> Array:
    """The root below 1 of x = E[exp(-servers (1 - x) gap / service)], where a server is ``busy`` so much.

    The transform is convex: from the left of the root Newton's rule climbs to it, and from near it, steps to its left.
    """
    import numpy as np

    found = busy ** (2 / (1 + scv))
    rows = np.arange(len(busy))
    first = True
    for _ in range(_STEPS):
        x, load, spread = found[rows], busy[rows], scv[rows]
        scaled = (1 - x) / load
        value = _transform(np.ones(1), spread, scaled)
        slope = value / ((1 + scaled * spread) * load)
        if first:  # too far right: from zero
            far = slope >= 1
            first = False
            if far.any():
                x = np.where(far, 0.0, x)
                scaled = (1 - x) / load
                value = _transform(np.ones(1), spread, scaled)
                slope = value / ((1 + scaled * spread) * load)
        step = (value - x) / (1 - slope)
        found[rows] = x + step
        rows = rows[np.abs(step) > _LAST * np.minimum(x, 1 - x)]
        if not len(rows):
            break
    return found


def _takacs(queues: Queues, service: Array, root: Array, servers: int) -> Array:
    """Share that waits in GI/M/c: Takacs' sum over the servers."""
    import numpy as np

    gap, scv, _ = queues
    total, term = 1 / (1 - root), np.ones(len(gap))
    never = np.zeros(len(gap), bool)
    for j in range(1, servers + 1):
        here = _transform(gap, scv, j / service)
        term = term * ((servers - j + 1) / j * (1 - here) / here)
        never |= term > _HUGE
        aside = np.abs(servers * (1 - root) - j) < _NONE  # 0 / 0: a step aside
        place, at = j * np.ones(1), here
        if aside.any():
            place = np.where(aside, j + 1e-4, j)
            at = _transform(gap, scv, place / service)
        ratio = (servers * (1 - at) - place) / (servers * (1 - root) - place)
        total = total + term / (1 - here) * ratio
        if never.all():
            break
    return np.where(never, 0.0, 1 / (total * (1 - root)))
