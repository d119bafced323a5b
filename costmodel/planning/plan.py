"""The smallest and the cheapest deployment that meets the SLOs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InputError
from ..inputs.prices import Price
from ..inputs.workload import Workload
from ..serving.scenario import Scenario
from .about import about
from .band import Bands
from .binding import at_more, binding, lowered
from .bounds import no_room, too_tight
from .changes import Changes
from .closed import Closed
from .headroom import Headroom, Rates
from .options import PlanOptions
from .placement import placement
from .results import Binding, Change, Plan, PlanAnswer, PlanBand, PlanMargin
from .search import SLACK, Held, Outcome, Search
from .sizing import Sizing, without
from .space import no_threshold, space
from .told import Facts, misses, plan_fields
from .trials import Trials

SCHEMA = "costmodel.plan/1"
_NONE = Headroom(None, "the plan does not hold")


def plan(
    scenario: Scenario, workload: Workload, options: PlanOptions, prices: Mapping[str, Price]
) -> PlanAnswer:
    """Search deployments of a workload's rate and SLOs, and confirm the best by replay.

    ``prices``: by the name of the GPU. Raises InputError where no SLO is given, or for names and values that cannot be.
    """
    if not workload.slo.given:
        raise InputError("no SLO: pass --slo-ttft and --slo-tpot, or one of them: a plan is what meets them")
    return _Planning(scenario, workload, options, prices).answer()


class _Planning:
    def __init__(
        self, scenario: Scenario, workload: Workload, options: PlanOptions, prices: Mapping[str, Price]
    ) -> None:
        self.scenario, self.workload, self.options, self.prices = scenario, workload, options, prices
        self.space = space(scenario, workload, options, prices)
        self.closed = Closed(workload)
        self.trials = Trials(workload, self.closed, options)
        lacking = dict.fromkeys(u.hardware for u in self.space.units if u.usd_per_hour is None)
        self.unpriced = (
            f"no price of {', '.join(lacking)} (pass --price GPU=USD): plans are ordered by GPUs"
            if lacking and options.objective == "cost"
            else None
        )

    def answer(self) -> PlanAnswer:
        reason = self._impossible()
        if reason is not None:
            return self._told((), (), (), (), reason, None, None, PlanMargin())
        goal = max(1e-6, self.workload.slo.attainment - SLACK)
        sizing = Sizing(self.closed, goal, self.options.spare)
        search = Search(self.space.layouts, sizing, self.trials, self.options, priced=self.unpriced is None)
        outcome = Outcome() if self.options.method == "distserve" else search.run()
        placed = self._placed(search)
        plans = self._lowered(self._plans(outcome, placed, search), search)
        best = next((held for held, _ in plans if held.met), None)
        self.options.progress("what binds, and what changes")
        rates = Rates(self.workload, self.closed, self.trials, self.options)
        rooms = [rates.of(held, replays=held is best) if held.met else _NONE for held, _ in plans]
        rows = self._binding(best, plans, rooms) if best else ()
        changes = self._changes(best, search) if best else ()
        reason = None if best else self._infeasible(outcome)
        facts = self._facts()
        told = tuple(
            Plan(**plan_fields(facts, held, self._name(number, held), by, room))
            for number, ((held, by), room) in enumerate(zip(plans, rooms), 1)
        )
        bands = Bands(facts, search, best) if best else None
        band = bands.band() if bands else None
        margin = (
            bands.margin([one.name for one in told], [held for held, _ in plans]) if bands else PlanMargin()
        )
        return self._told(told, _pareto(told), rows, changes, reason, best, band, margin)

    def _binding(
        self, best: Held, plans: Sequence[tuple[Held, str]], rooms: Sequence[Headroom]
    ) -> tuple[Binding, ...]:
        """What breaks with one instance fewer, and what at a higher rate."""
        room = next(room for (held, _), room in zip(plans, rooms) if held is best)
        rows = binding(best, self.closed, self.trials, self.options.spare)
        return rows if room.slo is None else (*rows, at_more(best, room))

    def _facts(self) -> Facts:
        return Facts(
            self.workload, self.closed, self.trials, self.options, self.prices, self.scenario.kv_dtype
        )

    @staticmethod
    def _name(number: int, held: Held) -> str:
        return f"{number} {held.sized.layout.strategy.name} {held.sized.topology}"

    # --- plans ---------------------------------------------------------------------------------------

    def _placed(self, search: Search) -> Held | None:
        """Return DistServe's placement, replayed."""
        cost = search.cost
        found = placement(self.closed, self.space.layouts, cost, self.workload)
        if found is None or found.layout.gpus(found.topology) > self.options.max_gpus:
            return None
        trial = self.trials.of(found.layout, found.topology, whole=True)
        spares = without(found.topology, self.options.spare) if self.options.spare and trial.met else ()
        return Held(found, trial, tuple(self.trials.of(found.layout, t) for t in spares))

    def _plans(self, outcome: Outcome, placed: Held | None, search: Search) -> list[tuple[Held, str]]:
        """Plans that hold, best first, then those that a replay refused."""

        def key(pair: tuple[Held, str]) -> tuple[Any, ...]:
            return search.key(pair[0].sized)

        held = [(one, "search") for one in outcome.plans]
        known = {(one.sized.layout, one.sized.topology) for one in outcome.plans}
        missed = [(one, "search") for one in outcome.missed]
        if placed is not None and (placed.sized.layout, placed.sized.topology) not in known:
            (held if placed.met else missed).append((placed, "distserve"))
        refused = sorted(missed, key=lambda pair: (pair[1] != "distserve", *key(pair)))
        unlike = {pair[0].sized.layout: pair for pair in reversed(refused)}
        return [*sorted(held, key=key), *list(unlike.values())[::-1][: self.options.top]]

    def _lowered(self, plans: list[tuple[Held, str]], search: Search) -> list[tuple[Held, str]]:
        """Put fewer instances in the place of the best plan, for as long as replays say that they hold."""
        if not plans or not plans[0][0].met or self.options.method == "distserve":
            return plans
        best, spare = plans[0][0], self.options.spare
        held = [search.again(best, topology) for topology in lowered(best, self.trials, spare)]
        if not held:
            return plans
        cheapest = min(held, key=lambda one: search.key(one.sized))
        return self._lowered([(cheapest, "search"), *plans[1:]], search)

    def _changes(self, best: Held, search: Search) -> tuple[Change, ...]:
        return Changes(self._facts(), self.scenario, best, search.cost, self.space.units).all()

    # --- nothing to be had ---------------------------------------------------------------------------

    def _impossible(self) -> str | None:
        units = self.space.units
        if not units:
            return no_room(self.scenario, self.space, self.workload)
        if not self.space.layouts:
            lacking = no_threshold(self.workload, self.options)
            if lacking is not None:
                return f"no layout is left to try: deflected has {lacking}"
            return "no layout is left to try: --tp, --prefill-tp, --decode-tp and --strategy allow none that fits"
        constant = min(unit.deployment.request_latency for unit in units)
        return too_tight(self.workload, units, constant)

    def _infeasible(self, outcome: Outcome) -> str:
        most = self.options.max_gpus
        if self.options.method == "distserve":
            return (
                "DistServe's placement does not attain the target in a replay, or takes more than --max-gpus"
            )
        if outcome.missed:
            nearest = min(outcome.missed, key=lambda held: held.worst.missing)
            layout, topology = nearest.sized.layout, nearest.sized.topology
            ended = (
                "before the replays allowed are spent (--replays)" if outcome.spent else f"within {most} GPUs"
            )
            return (
                f"no plan attains the target {ended}; nearest: {layout.strategy.name} {topology} of "
                f"{layout.decode.label()} ({layout.gpus(topology)} GPUs): {misses(nearest, self.workload)}"
            )
        if outcome.too_large is not None:
            layout, topology = outcome.too_large.layout, outcome.too_large.topology
            return (
                f"no plan within --max-gpus {most}: by closed form the least takes {layout.gpus(topology)} GPUs "
                f"({layout.strategy.name} {topology} of {layout.decode.label()})"
            )
        return "by closed form no number of instances of any layout attains the target"

    # --- the answer ----------------------------------------------------------------------------------

    def _told(
        self,
        plans: tuple[Plan, ...],
        pareto: tuple[str, ...],
        rows: tuple[Binding, ...],
        changes: tuple[Change, ...],
        reason: str | None,
        best: Held | None,
        band: PlanBand | None,
        margin: PlanMargin,
    ) -> PlanAnswer:
        workload, options, scenario = self.workload, self.options, self.scenario
        model = scenario.model if isinstance(scenario.model, str) else scenario.model.name
        names = tuple(dict.fromkeys(unit.hardware for unit in self.space.units)) or options.hardware
        return PlanAnswer(
            SCHEMA,
            model=model,
            workload=workload.name,
            rate_per_s=workload.rate,
            slo_ttft_s=workload.slo.ttft_s,
            slo_tpot_s=workload.slo.tpot_s,
            attainment_target=workload.slo.attainment,
            hardware=names,
            link=f"{scenario.nics} x {scenario.link}",
            objective="gpus" if self.unpriced else options.objective,
            objective_reason=self.unpriced,
            spare=options.spare,
            max_gpus=options.max_gpus,
            plans=plans,
            band=band,
            **vars(margin),
            pareto=pareto,
            binding=rows,
            changes=changes,
            infeasible_reason=reason,
            prices=tuple(price for name, price in self.prices.items() if name in names),
            layouts=len(self.space.layouts),
            replays=self.trials.count,
            about=about(self._facts(), best),
        )


def _pareto(plans: Sequence[Plan]) -> tuple[str, ...]:
    """Names of plans that hold and that no other beats in cost, GPUs and headroom (where all have one) at once."""
    held = [one for one in plans if one.feasible]
    known = all(one.headroom is not None for one in held)

    def worth(one: Plan) -> tuple[float, float, float]:
        return -(one.usd_per_hour or 0.0), -one.gpus, (one.headroom or 0.0) if known else 0.0

    def beats(other: Plan, one: Plan) -> bool:
        pairs = list(zip(worth(other), worth(one)))
        return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)

    return tuple(one.name for one in held if not any(beats(other, one) for other in held))
