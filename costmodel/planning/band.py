"""The band of a plan: what its layout takes where step times are off, and by what it beats the next kind of plan.

All step times are moved by one factor (:mod:`.edges`), those of both plans alike, and the layout is sized again: by
closed form where that can vouch for it, moved by its difference from the replay at nominal step times, else by a few
replays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..serving.deployment import Topology
from .closed import Closed
from .edges import step_factor
from .results import PlanBand, PlanMargin
from .search import SLACK, Held, Search
from .sizing import Sizing, without
from .space import Layout
from .told import Facts
from .trials import Trial, Trials

#: Replays that may look for a size at moved step times, for each layout and edge.
_REPLAYS = 8
#: GPUs of a size at moved step times: no limit, whatever a plan may take.
_ANY = 10**6
_NOMINAL = 1.0


class Found(NamedTuple):
    """Instances that a layout takes at moved step times; None with the reason."""

    topology: Topology | None
    reason: str | None = None


class Bands:
    """Sizes plans at moved step times; ``search`` has what they are ordered by."""

    def __init__(self, facts: Facts, search: Search, best: Held) -> None:
        self.facts, self.search, self.best = facts, search, best
        self.factor = step_factor(facts.closed, best.sized.layout, best.sized.topology)
        self._closed: dict[float, Closed] = {_NOMINAL: facts.closed}
        self._trials: dict[tuple[Layout, float], Trials] = {}
        self._found: dict[tuple[Layout, float], Found] = {}

    # --- the best plan -------------------------------------------------------------------------------

    def band(self) -> PlanBand:
        """Return what the best plan's layout takes at either edge, and what it attains as it is at the slower one."""
        layout = self.best.sized.layout
        slower = self._as_it_is(self.best, self.factor, whole=True)
        fewer, more = self.size(self.best, 1 / self.factor), self.size(self.best, self.factor)
        low, high = fewer.topology, more.topology
        return PlanBand(
            step_time_factor=self.factor,
            topology_low=None if low is None else str(low),
            topology_high=None if high is None else str(high),
            gpus_low=None if low is None else layout.gpus(low),
            gpus_high=None if high is None else layout.gpus(high),
            usd_per_hour_low=None if low is None else layout.usd_per_hour(low),
            usd_per_hour_high=None if high is None else layout.usd_per_hour(high),
            low_reason=fewer.reason,
            high_reason=more.reason,
            holds_if_slower=slower.met,
            attainment_if_slower=slower.attained,
            attainment_if_slower_reason=slower.reason,
        )

    # --- beside the next kind of plan ----------------------------------------------------------------

    def margin(self, names: Sequence[str], plans: Sequence[Held]) -> PlanMargin:
        """Return by what factor the best plan beats the next best of another kind, and how far that may move."""
        best = self.best
        pairs = [
            (name, held)
            for name, held in zip(names, plans)
            if held.met and held.sized.layout.family != best.sized.layout.family
        ]
        if not pairs:
            return PlanMargin(margin_reason="no plan of another kind (strategy and GPUs) is known to hold")
        name, rival = pairs[0]
        if self.search.by_cost and not best.sized.layout.usd_per_hour(best.sized.topology):
            return PlanMargin(name, margin_reason="the best plan costs nothing")
        nominal = self._cost(rival, rival.sized.topology) / self._cost(best, best.sized.topology)
        ratios = [nominal]
        for ours, theirs in self._moves(rival):
            mine, other = self.size(best, ours), self.size(rival, theirs)
            if mine.topology is None and other.topology is None:
                return PlanMargin(name, nominal, margin_reason=mine.reason)
            if mine.topology is None or other.topology is None:
                lost = "the best plan" if mine.topology is None else name
                close = True if mine.topology is None or nominal <= 1 else None
                return PlanMargin(name, nominal, None, None, f"{lost}: {mine.reason or other.reason}", close)
            ratios.append(self._cost(rival, other.topology) / self._cost(best, mine.topology))
        return PlanMargin(name, nominal, min(ratios), max(ratios), None, min(ratios) <= 1)

    def _moves(self, rival: Held) -> Iterator[tuple[float, float]]:
        """Yield factors on the step times of both: alike, and of one alone where the fits are of other GPUs."""
        slow, fast = self.factor, 1 / self.factor
        yield from ((slow, slow), (fast, fast))
        mine, other = (
            {one.sized.layout.prefill.hardware, one.sized.layout.decode.hardware}
            for one in (self.best, rival)
        )
        if mine != other:
            yield from ((slow, _NOMINAL), (_NOMINAL, fast))

    def _cost(self, held: Held, topology: Topology) -> float:
        return self.search.counted(held.sized.layout, topology)

    # --- sizes ---------------------------------------------------------------------------------------

    def size(self, held: Held, factor: float) -> Found:
        """Return the instances that a plan's layout takes with step times ``factor`` times as long, once."""
        if factor == _NOMINAL:
            return Found(held.sized.topology)
        key = held.sized.layout, factor
        if key not in self._found:
            found = self._sized(held, factor)
            if factor < _NOMINAL and found.topology is not None:  # what holds now holds then
                found = Found(min(found.topology, held.sized.topology, key=lambda t: self._cost(held, t)))
            self._found[key] = found
        return self._found[key]

    def _sized(self, held: Held, factor: float) -> Found:
        layout, topology = held.sized.layout, held.sized.topology
        stays = held is self.best and factor > 1 and self._as_it_is(held, factor).met
        if stays or (factor < _NOMINAL and self._fewest(held, factor)):
            return Found(topology)
        if self._vouches(layout, topology, _NOMINAL):
            found = self._shifted(held, factor)
            if found.topology is None:
                return found
            misses = held is self.best and factor > 1
            if self._vouches(layout, found.topology, factor) and not (
                misses and self._cost(held, found.topology) <= self._cost(held, topology)
            ):
                return found
        return self._by_replay(held, factor)

    def _fewest(self, held: Held, factor: float) -> bool:
        """Say whether nothing that costs less is stable."""
        layout = held.sized.layout
        floor = Sizing(self._at(factor), 0.0, self.facts.options.spare).floor(layout)
        return self._cost(held, floor) >= self._cost(held, held.sized.topology)

    def _shifted(self, held: Held, factor: float) -> Found:
        """By closed form: as many instances more, or fewer, than it takes at nominal step times."""
        layout, topology = held.sized.layout, held.sized.topology
        spare = self.facts.options.spare
        now = Sizing(self._at(_NOMINAL), 0.0, spare).attained(layout, topology)
        goal = self.facts.workload.slo.attainment + now - (held.worst.attained or 0.0)
        goal = max(1e-6, min(1 - 1e-6, goal, now))
        base, moved = (
            Sizing(self._at(one), goal, spare).least(layout, self.search.cost) for one in (_NOMINAL, factor)
        )
        if base is None or moved is None:
            return Found(None, f"at step times x {factor:.2f} no number of instances attains the target")
        found = Topology(
            max(1 + spare, topology.prefill + moved.topology.prefill - base.topology.prefill),
            topology.decode
            and max(1 + spare, topology.decode + moved.topology.decode - base.topology.decode),
        )
        return Found(found)

    def _by_replay(self, held: Held, factor: float) -> Found:
        layout, topology = held.sized.layout, held.sized.topology
        trials = self._replays(held, factor)
        before = trials.count
        goal = max(1e-6, self.facts.workload.slo.attainment - SLACK)
        sizing = Sizing(self._at(factor), goal, self.facts.options.spare)
        search = Search((layout,), sizing, trials, trials.options, priced=self.search.by_cost)
        found = search.run()
        self.facts.trials.count += trials.count - before
        if found.plans and not found.spent:
            return Found(found.plans[0].sized.topology)
        why = (
            f"not settled by {_REPLAYS} replays"
            if found.spent
            else "no number of instances attains the target"
        )
        return Found(None, f"at step times x {factor:.2f}: {why} ({topology} holds at nominal ones)")

    def _as_it_is(self, held: Held, factor: float, *, whole: bool = False) -> Trial:
        """Replay a plan at moved step times, the spares down: the worst of these."""
        layout, trials = held.sized.layout, self._replays(held, factor)
        before = trials.count
        left = without(held.sized.topology, self.facts.options.spare)
        worst = max((trials.of(layout, t, whole=whole) for t in left), key=lambda trial: trial.missing)
        self.facts.trials.count += trials.count - before
        return worst

    # --- what is moved -------------------------------------------------------------------------------

    def _at(self, factor: float) -> Closed:
        if factor not in self._closed:
            self._closed[factor] = self.facts.closed.moved(factor)
        return self._closed[factor]

    def _replays(self, held: Held, factor: float) -> Trials:
        """Replays of a plan's layout at moved step times, of the very requests of its own replay."""
        layout, topology, own = held.sized.layout, held.sized.topology, self.facts.options
        if (layout, factor) not in self._trials:
            requests = len(self.facts.trials.requests(layout, topology))
            options = replace(own, replays=_REPLAYS, top=1, requests=requests, max_gpus=_ANY)
            self._trials[layout, factor] = Trials(self.facts.workload, self._at(factor), options)
        return self._trials[layout, factor]

    def _vouches(self, layout: Layout, topology: Topology, factor: float) -> bool:
        """Say whether the closed form can vouch for a size, the spares down."""
        closed = self._at(factor)
        return all(closed.refusal(layout, t) is None for t in without(topology, self.facts.options.spare))
