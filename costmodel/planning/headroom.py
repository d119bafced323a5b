"""How much more a plan carries: the highest rate at which it still attains the target, over the given one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..inputs.workload import Workload
from .closed import Closed
from .options import PlanOptions
from .search import Held
from .sizing import Sizing, without
from .trials import Trials

#: How narrowly the closed form finds it, and how many rates are replayed where only replays answer.
_NARROW, _TRIES = 1.01, 4
#: Highest multiple of the given rate that is looked at.
_MOST = 1000.0
_AT_LEAST = f"headroom and goodput are at least this: no more than {_MOST:,.0f} times the rate is looked at"
#: A little beyond the highest rate, where the target is missed.
_BEYOND = 1.05


@dataclass(frozen=True)
class Headroom:
    """``factor`` times the given rate is still attained; None with the ``reason``, or at least so much. ``slo`` is what
    is missed first beyond, by the pool ``short``; None where nothing is known to be missed.
    """

    factor: float | None
    reason: str | None = None
    slo: str | None = None
    short: str | None = None


class Rates:
    """Looks for the headroom of plans at one workload."""

    def __init__(self, workload: Workload, closed: Closed, trials: Trials, options: PlanOptions) -> None:
        self.workload, self.closed, self.trials, self.options = workload, closed, trials, options

    def of(self, held: Held, *, replays: bool) -> Headroom:
        """By the closed form, moved by what it missed of the replay at the given rate; ``replays``: or by replays."""
        if held.worst.attained is None:
            return Headroom(None, "the plan does not hold")
        factor = self._closed(held)
        if factor >= _MOST:
            return Headroom(_MOST, _AT_LEAST)
        load = self.closed.means(held.sized.layout, held.sized.topology).utilisation * factor
        if not self.workload.too_bursty(load):
            return Headroom(factor, None, *self._first(held, factor * _BEYOND))
        if not replays:
            return Headroom(
                None, "the load varies over time, so that only replays answer: of the best plan alone"
            )
        return self._replayed(held)

    def _at(self, factor: float) -> Closed:
        return self.closed.under(self.workload.at_rate(self.workload.rate * factor))

    def _closed(self, held: Held) -> float:
        layout, topology, spare = held.sized.layout, held.sized.topology, self.options.spare
        now = Sizing(self.closed, 0.0, spare).attained(layout, topology)
        goal = self.workload.slo.attainment + now - (held.worst.attained or 0.0)
        goal = max(0.0, min(1 - 1e-6, goal))
        return _highest(
            lambda factor: Sizing(self._at(factor), goal, spare).attained(layout, topology) >= goal
        )

    def _first(self, held: Held, factor: float) -> tuple[str | None, str | None]:
        """The SLO that fewer requests meet at a rate, and the pool behind it."""
        layout, topology = held.sized.layout, held.sized.topology
        closed = self._at(factor)
        left = min(without(topology, self.options.spare), key=lambda t: closed.shares(layout, t).both)
        loads, shares = closed.loads(layout, left), closed.shares(layout, left)
        pool = max(loads, key=lambda role: loads[role])
        if loads[pool] >= 1:
            return "stability", pool
        if layout.pooled:
            return ("ttft" if shares.ttft < shares.tpot else "tpot"), "shared"
        return ("ttft", "prefill") if shares.ttft < shares.tpot else ("tpot", "decode")

    def _replayed(self, held: Held) -> Headroom:
        layout, topology = held.sized.layout, held.sized.topology
        loads = [self.closed.means(layout, t).utilisation for t in without(topology, self.options.spare)]
        low, high = 1.0, min(_MOST, 1 / max(loads))
        slo = short = None
        for _ in range(_TRIES):
            middle = (low * high) ** 0.5
            closed = self._at(middle)
            trials = Trials(closed.given, closed, self.options)
            found = [trials.of(layout, t) for t in without(topology, self.options.spare)]
            self.trials.count += trials.count
            if all(trial.met for trial in found):
                low = middle
            else:
                worst = max(found, key=lambda trial: trial.missing)
                high, slo, short = middle, worst.slo, worst.short
        return Headroom(low, None, slo or "stability", short)


def _highest(reaches: Callable[[float], bool]) -> float:
    """The highest factor from 1 to the most that is reached."""
    low, high = 1.0, 1.25
    while reaches(high):
        if high == _MOST:
            return high
        low, high = high, min(_MOST, high * 1.25)
    while high / low > _NARROW:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if reaches(middle) else (low, middle)
    return low
