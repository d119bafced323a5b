"""How many instances a layout takes, by closed form: the least that attain a goal, for every split the least."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..serving.deployment import MOST_INSTANCES, Topology
from .closed import Closed
from .space import Layout

#: Attainment gained by twice the instances, below which more of them will not do.
_GAIN = 0.005
#: Utilisation above which more instances always gain.
_LOADED = 0.4


@dataclass(frozen=True)
class Sized:
    """A layout with so many instances, and the attainment that the closed form gives it (with spares down)."""

    layout: Layout
    topology: Topology
    attained: float


def without(topology: Topology, spare: int) -> Iterator[Topology]:
    """Yield what is left of a topology when ``spare`` instances of any one role are down."""
    if spare == 0:
        yield topology
    elif topology.decode:
        yield Topology(topology.prefill - spare, topology.decode)
        yield Topology(topology.prefill, topology.decode - spare)
    else:
        yield Topology(topology.prefill - spare, 0)


class Sizing:
    """Sizes layouts so that ``goal`` is attained, ``spare`` instances of any one role down."""

    def __init__(self, closed: Closed, goal: float, spare: int = 0) -> None:
        self.closed, self.goal, self.spare = closed, goal, spare

    def attained(self, layout: Layout, topology: Topology) -> float:
        """Attainment of a layout with the spares down, in the worst of ways."""
        left = list(without(topology, self.spare))
        if any(t.prefill < 1 or (topology.decode and t.decode < 1) for t in left):
            return 0.0
        return min(self.closed.shares(layout, t).both for t in left)

    def floor(self, layout: Layout) -> Topology:
        """Fewest instances that are stable, spares besides."""
        if layout.pooled:
            return Topology(self._stable(layout, "shared") + self.spare, 0)
        roles = (self._stable(layout, role) + self.spare for role in ("prefill", "decode"))
        return Topology(*roles)

    def _stable(self, layout: Layout, role: str) -> int:
        """Fewest instances of a role that carry their load.

        Load falls with their number, and faster than in proportion where prompts run beside decodes: an instance that
        has too much to do decodes many at once, which leaves little room for prompts.
        """

        def load(count: int) -> float:
            return self.closed.loads(layout, Topology(count, 0 if layout.pooled else count))[role]

        low, high = 0, 1
        while (now := load(high)) >= 1 and high < MOST_INSTANCES:
            low, high = high, min(2 * high, math.floor(high * now) + 1, MOST_INSTANCES)
        return _least(low + 1, high, lambda count: load(count) < 1)

    def least(self, layout: Layout, cost: Callable[[Layout, Topology], float]) -> Sized | None:
        """Return the cheapest number of instances that attains the goal; None where no number does."""
        found = self._pooled(layout) if layout.pooled else self._split(layout, cost)
        return None if found is None else Sized(layout, found, self.attained(layout, found))

    # --- one pool ------------------------------------------------------------------------------------

    def _pooled(self, layout: Layout) -> Topology | None:
        low = self.floor(layout).prefill
        top = self._grown(layout, Topology(low, 0))
        if top is None:
            return None
        count = _least(low, top.prefill, lambda n: self._meets(layout, Topology(n, 0)))
        return Topology(count, 0)

    def _meets(self, layout: Layout, topology: Topology) -> bool:
        return self.attained(layout, topology) >= self.goal

    def _grown(self, layout: Layout, topology: Topology) -> Topology | None:
        """Return instances that attain the goal, from ``topology`` on by growing every pool; None where none will."""
        before = self.attained(layout, topology)
        if before >= self.goal:
            return topology
        step, last = 1, before
        while topology.instances <= MOST_INSTANCES // 4:
            size = math.ceil(topology.prefill * 0.2 * step)
            rest = math.ceil(topology.decode * 0.2 * step)
            topology = Topology(topology.prefill + size, topology.decode + rest)
            step = min(5, step + 1)
            now = self.attained(layout, topology)
            if now >= self.goal:
                return topology
            busiest = max(self.closed.loads(layout, topology).values())
            if step == 5 and busiest < _LOADED and now - last < _GAIN:
                return None
            last = now
        return None

    # --- two pools -----------------------------------------------------------------------------------

    def _split(self, layout: Layout, cost: Callable[[Layout, Topology], float]) -> Topology | None:
        """For each number of prefill instances the fewest decode instances: the cheapest of these pairs."""
        floor = self.floor(layout)
        paced = self._paced(layout, floor)
        if paced is None:
            return None
        floor = Topology(floor.prefill, paced)
        top = self._grown(layout, floor)
        if top is None:
            return None
        best = self._decodes(layout, floor, top.prefill, top.decode)
        assert best is not None
        for prefill in (*range(top.prefill - 1, floor.prefill - 1, -1), *self._more(top.prefill)):
            if prefill > top.prefill and cost(layout, Topology(prefill, floor.decode)) >= cost(layout, best):
                break
            most = _affordable(layout, prefill, best, cost)
            if most >= floor.decode:
                best = self._decodes(layout, floor, prefill, most) or best
        return best

    @staticmethod
    def _more(prefill: int) -> range:
        return range(prefill + 1, 2 * prefill + 8)

    def _decodes(self, layout: Layout, floor: Topology, prefill: int, most: int) -> Topology | None:
        """Fewest decode instances, at most ``most``, beside so many that prefill; None where no number will do."""
        if not self._meets(layout, Topology(prefill, most)):
            return None
        count = _least(floor.decode, most, lambda n: self._meets(layout, Topology(prefill, n)))
        return Topology(prefill, count)

    def _paced(self, layout: Layout, floor: Topology) -> int | None:
        """Fewest decode instances at which TPOT alone attains the goal; None where none do."""

        def enough(count: int) -> bool:
            return self.closed.paced(layout, Topology(floor.prefill, max(1, count - self.spare))) >= self.goal

        low = high = floor.decode
        last = 0.0
        while not enough(high):
            at = Topology(floor.prefill, high)
            now = self.closed.paced(layout, at)
            load = self.closed.loads(layout, at)["decode"]
            if (load < _LOADED and now - last < _GAIN) or high > MOST_INSTANCES // 4:
                return None
            low, high, last = high, math.ceil(high * 1.5), now
        return _least(low, high, enough)


def _affordable(
    layout: Layout, prefill: int, best: Topology, cost: Callable[[Layout, Topology], float]
) -> int:
    """Most decode instances that, beside so many that prefill, still cost less than the best."""
    each = cost(layout, Topology(0, 1))
    left = cost(layout, best) - cost(layout, Topology(prefill, 0))
    return math.ceil(left / each - 1e-9) - 1


def _least(low: int, high: int, enough: Callable[[int], bool]) -> int:
    """Least number in low .. high that is enough; ``high`` is."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return high
