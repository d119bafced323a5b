"""Best first: the cheapest layouts are sized by closed form, the cheapest of those replayed, until one holds.

A layout enters with one instance of each role, comes back with the fewest that are stable, which no plan of it can
undercut, then sized. A replay that misses sends it back with more instances; one that holds with fewer, after a leap or
where the closed form is in doubt of these. So the first that is taken is the best of all, as far as the closed form is
not too low by more than twice ``SLACK``.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from ..serving.deployment import Topology
from .options import PlanOptions
from .sizing import Sized, Sizing, without
from .space import Layout
from .trials import Trial, Trials

#: Attainment by which the closed form may be too low, in nine cases of ten: sizes start that much below the target.
SLACK = 0.1
#: Instances, as a share of the pool, that are added for each time that more requests missed than may.
_LEAP = 0.12
#: Dollars an hour that each GPU counts besides its price: of equal costs fewer GPUs are better, even of free ones.
_EACH = 1e-6

ENTERED, STABLE, FEWER, SIZED, HELD = range(5)


class Key(NamedTuple):
    """Order of what is tried: by the objective, then GPUs, then what the closed form thinks least of."""

    cost: float
    gpus: int
    missed: float


@dataclass(frozen=True)
class Held:
    """A layout with so many instances that was replayed: with all of them, and in each way of losing the spares."""

    sized: Sized
    trial: Trial
    spares: tuple[Trial, ...] = ()

    @property
    def met(self) -> bool:
        """True where every replay attains the target."""
        return self.trial.met and all(trial.met for trial in self.spares)

    @property
    def worst(self) -> Trial:
        """The replay that attains least."""
        return max((self.trial, *self.spares), key=lambda trial: trial.missing)


@dataclass
class Outcome:
    """What a search found: plans that hold, best first, sizes that a replay refused, the least that was too large."""

    plans: list[Held] = field(default_factory=list)
    missed: list[Held] = field(default_factory=list)
    sized: list[Sized] = field(default_factory=list)
    hopeless: list[Layout] = field(default_factory=list)
    too_large: Sized | None = None
    spent: bool = False


class Search:
    """One search over layouts."""

    def __init__(
        self, layouts: tuple[Layout, ...], sizing: Sizing, trials: Trials, options: PlanOptions, priced: bool
    ) -> None:
        self.layouts, self.sizing, self.trials = layouts, sizing, trials
        self.options, self.by_cost = options, priced and options.objective == "cost"
        self._heap: list[tuple[Key, int, int, Sized, Topology | None]] = []
        self._number = count()
        self.found = Outcome()

    def cost(self, layout: Layout, topology: Topology) -> float:
        """What plans are ordered by: what the objective counts, and where that is dollars, a little for each GPU."""
        counted = self.counted(layout, topology)
        return counted + _EACH * layout.gpus(topology) if self.by_cost else counted

    def counted(self, layout: Layout, topology: Topology) -> float:
        """What the objective counts: dollars an hour, or GPUs."""
        usd = layout.usd_per_hour(topology) if self.by_cost else None
        return float(layout.gpus(topology)) if usd is None else usd

    def key(self, sized: Sized) -> Key:
        """Where a size stands in the order."""
        layout, topology = sized.layout, sized.topology
        return Key(round(self.cost(layout, topology), 9), layout.gpus(topology), 1 - sized.attained)

    def run(self) -> Outcome:
        """Search until ``top`` kinds of plans hold, or nothing is left to try."""
        for layout in self.layouts:
            one = 1 + self.options.spare
            self._push(Sized(layout, Topology(one, 0 if layout.pooled else one), 1.0), ENTERED)
        done: set[tuple[str, str, str]] = set()
        while self._heap and len(done) < self.options.top:
            _, _, stage, sized, below = heapq.heappop(self._heap)
            if sized.layout.family in done:
                continue
            if stage == ENTERED:
                self._push(Sized(sized.layout, self.sizing.floor(sized.layout), 1.0), STABLE)
            elif stage == STABLE:
                self._size(sized)
            elif stage == HELD or self._holds(sized, below, stage):
                self.found.plans.append(self._held(sized))
                done.add(sized.layout.family)
            if self.trials.spent:
                self._take_the_rest(done)
                break
        return self.found

    def _take_the_rest(self, done: set[tuple[str, str, str]]) -> None:
        """Where no replay is left: take what is known to hold, though fewer instances might have, too."""
        self.found.spent = True
        for _, _, stage, sized, _ in sorted(self._heap, key=lambda entry: entry[:2]):
            if stage == HELD and sized.layout.family not in done:
                self.found.plans.append(self._held(sized))
                done.add(sized.layout.family)

    def _push(self, sized: Sized, stage: int, below: Topology | None = None) -> None:
        key = self.key(sized)
        if key.gpus > self.options.max_gpus:
            large = self.found.too_large
            if stage > STABLE and (large is None or key.gpus < large.layout.gpus(large.topology)):
                self.found.too_large = sized
            if stage > STABLE or self.found.too_large is not None:
                return
        heapq.heappush(self._heap, (key, next(self._number), stage, sized, below))

    def _size(self, rough: Sized) -> None:
        layout = rough.layout
        found = self.sizing.least(layout, self.cost)
        if found is None:
            self.found.hopeless.append(layout)
            return
        self.found.sized.append(found)
        self._push(found, SIZED)
        if layout.gpus(found.topology) > self.options.max_gpus:
            for one, stage in self._smaller(found, None):
                self._push(one, stage)

    def _held(self, sized: Sized) -> Held:
        """Replay a size; where it holds, also with spares down."""
        layout, topology = sized.layout, sized.topology
        trial = self.trials.of(layout, topology)
        left = without(topology, self.options.spare) if self.options.spare and trial.met else ()
        return Held(sized, trial, tuple(self.trials.of(layout, t) for t in left))

    def again(self, held: Held, topology: Topology) -> Held:
        """The same layout with other instances, replayed."""
        return self._held(self._at(held.sized.layout, topology))

    def _holds(self, sized: Sized, below: Topology | None, stage: int) -> bool:
        """Replay a size; queue a larger one where it misses, a smaller one where it may be too large."""
        held = self._held(sized)
        if held.met:
            smaller = list(self._smaller(sized, below))
            for one, stage in smaller:
                self._push(one, stage, below)
            if smaller:
                self._push(sized, HELD)
            return not smaller
        if stage == FEWER:
            return False
        self.found.missed.append(held)
        larger = self._larger(held)
        if larger is not None:
            self._push(self._at(sized.layout, larger), SIZED, sized.topology)
        return False

    def _smaller(self, sized: Sized, below: Topology | None) -> Iterator[tuple[Sized, int]]:
        """Yield sizes to look at before one that holds is taken: half-way down to one that missed; of none, one
        instance fewer, where the closed form is in doubt and that would be the best plan.
        """
        layout, topology = sized.layout, sized.topology
        if below is not None:
            middle = _between(below, topology)
            if middle is not None:
                yield self._at(layout, middle), SIZED
            return
        least, doubtful = 1 + self.options.spare, self.sizing.goal - SLACK
        x, y = topology.prefill, topology.decode
        for fewer in (Topology(x - 1, y), *((Topology(x, y - 1),) if y else ())):
            if fewer.prefill < least or (y and fewer.decode < least) or self.trials.known(layout, fewer):
                continue
            if self.found.plans and self.cost(layout, fewer) >= self.key(self.found.plans[0].sized).cost:
                continue
            one = self._at(layout, fewer)
            if one.attained >= doubtful:
                yield one, FEWER

    def _at(self, layout: Layout, topology: Topology) -> Sized:
        return Sized(layout, topology, self.sizing.attained(layout, topology))

    def _larger(self, held: Held) -> Topology:
        """More instances of the pool that most late requests waited for: one, or some where very many were late."""
        topology, worst = held.sized.topology, held.worst
        leap = _LEAP * min(4.0, worst.missing - 1)
        if worst.short == "prefill" or not topology.decode:
            more = max(1, math.floor(topology.prefill * leap))
            return Topology(topology.prefill + more, topology.decode)
        return Topology(topology.prefill, topology.decode + max(1, math.floor(topology.decode * leap)))


def _between(below: Topology | None, above: Topology) -> Topology | None:
    """Half-way between a size that missed and one that holds; None where they are neighbours."""
    if below is None:
        return None
    prefill, decode = (below.prefill + above.prefill) // 2, (below.decode + above.decode) // 2
    middle = Topology(
        max(prefill, below.prefill + (above.prefill > below.prefill)),
        max(decode, below.decode + (above.decode > below.decode)),
    )
    return None if middle == above else middle
