"""Single changes to the best plan, and what each buys: its layout sized again by closed form.

Closed form is set beside closed form: where it would take fewer instances for the plan as it is, too, that is no merit
of a change, and only the difference counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ..inputs.prices import Price
from ..inputs.workload import Workload
from ..serving.deployment import Topology
from ..serving.scenario import Scenario
from .closed import Closed
from .options import PlanOptions
from .results import Change
from .search import Held
from .sizing import Sized, Sizing
from .space import Layout, Unit, space
from .told import Facts

Cost = Callable[[Layout, Topology], float]
_LOOSER, _CHEAPER = 1.25, 0.8
#: Degrees beside which others are.
_DOUBLE = 2


class Changes:
    """Sizes what a change leads to, and sets it beside the plan."""

    def __init__(
        self, facts: Facts, scenario: Scenario, held: Held, cost: Cost, units: tuple[Unit, ...]
    ) -> None:
        self.facts, self.scenario, self.held, self.cost, self.units = facts, scenario, held, cost, units
        self.layout, self.topology = held.sized.layout, held.sized.topology
        spare = facts.options.spare
        self.goal = Sizing(facts.closed, 0.0, spare).attained(self.layout, self.topology)
        self.goal = min(self.goal, facts.workload.slo.attainment)
        now = self._sized(self.layout, facts.closed)
        self.now = self.topology if now is None else now.topology

    def all(self) -> tuple[Change, ...]:
        """Return the changes, the best first."""
        found = [*self._looser(), *self._hardware(), *self._settings(), *self._price()]
        return tuple(sorted(found, key=self._order))

    @staticmethod
    def _order(change: Change) -> tuple[float, float]:
        usd, gpus = change.usd_per_hour_saved, change.gpus_saved
        return (
            -usd if usd is not None else float("inf") if gpus is None else 0.0,
            -gpus if gpus is not None else 0.0,
        )

    def _sized(self, layout: Layout, closed: Closed) -> Sized | None:
        return Sizing(closed, self.goal, self.facts.options.spare).least(layout, self.cost)

    def _change(
        self, name: str, sized: Sized | None, reason: str | None = None, factor: float = 1.0
    ) -> Change:
        if sized is None:
            said = reason or "by closed form no number of instances attains the target"
            return Change(name, None, None, None, None, None, said)
        gpus = self.layout.gpus(self.now) - sized.layout.gpus(sized.topology)
        usd, left = self._dollars(sized, factor)
        same = self.now == self.topology
        return Change(
            name,
            str(sized.topology) if same else None,
            self.layout.gpus(self.topology) - gpus,
            gpus,
            left,
            usd,
            reason or (None if same else f"closed form: {self.now} becomes {sized.topology}"),
        )

    def _dollars(self, sized: Sized, factor: float) -> tuple[float | None, float | None]:
        """Dollars an hour saved, and what is left to pay; None where a GPU has no price."""
        own, now = self.layout.usd_per_hour(self.topology), self.layout.usd_per_hour(self.now)
        usd = sized.layout.usd_per_hour(sized.topology)
        if own is None or now is None or usd is None:
            return None, None
        return now - usd * factor, own - (now - usd * factor)

    def _looser(self) -> Iterator[Change]:
        workload, slo = self.facts.workload, self.facts.workload.slo
        for name, key in (("TTFT", "ttft_s"), ("TPOT", "tpot_s")):
            value = getattr(slo, key)
            if value is not None:
                looser = replace(workload, slo=replace(slo, **{key: value * _LOOSER}))
                closed = self.facts.closed.under(looser)
                yield self._change(f"{name} SLO +25 %", self._sized(self.layout, closed))

    def _hardware(self) -> Iterator[Change]:
        """The same strategy with other instances that were tried: another degree, another GPU."""
        pooled = self.layout.pooled
        roles = ("prefill",) if pooled else ("prefill", "decode")
        for role in roles:
            unit: Unit = getattr(self.layout, role)
            for other in self.units:
                doubled = other.hardware == unit.hardware and other.tp in (
                    unit.tp * _DOUBLE,
                    unit.tp / _DOUBLE,
                )
                if not doubled and not (other.hardware != unit.hardware and other.tp == unit.tp):
                    continue
                first = other if pooled or role == "prefill" else self.layout.prefill
                last = other if pooled or role == "decode" else self.layout.decode
                layout = replace(self.layout, prefill=first, decode=last)
                of = "" if pooled else f" of {role}"
                name = f"TP{other.tp}{of}" if doubled else f"{other.hardware}{of}"
                yield self._change(name, self._sized(layout, self.facts.closed))

    def _settings(self) -> Iterator[Change]:
        if self.layout.strategy.name in ("chunked", "deflected"):
            for budget in (self.layout.budget // _DOUBLE, self.layout.budget * _DOUBLE):
                if budget >= 1:
                    layout = replace(self.layout, budget=budget)
                    yield self._change(f"token budget {budget:,}", self._sized(layout, self.facts.closed))
        if not self.layout.pooled:
            faster = replace(self.scenario, nics=self.scenario.nics * _DOUBLE)
            yield self._again(f"link x {_DOUBLE}", faster)
        if self.layout.decode.deployment.decode.kv_dtype != "fp8":
            yield self._again("KV in fp8", replace(self.scenario, kv_dtype="fp8"))

    def _again(self, name: str, scenario: Scenario) -> Change:
        """The same layout of a changed scenario."""
        from ..errors import CostmodelError

        own = self.layout
        try:
            prices = dict(self.facts.prices)
            units = {
                unit: _only(scenario, self.facts.workload, self.facts.options, prices, unit)
                for unit in dict.fromkeys((own.prefill, own.decode))
            }
        except CostmodelError as error:
            return self._change(name, None, str(error))
        if None in units.values():
            return self._change(name, None, "the model fits no such instance")
        first, last = units[own.prefill], units[own.decode]
        assert first is not None and last is not None
        layout = replace(own, prefill=first, decode=last)
        return self._change(name, self._sized(layout, Closed(self.facts.workload)))

    def _price(self) -> Iterator[Change]:
        if self.layout.usd_per_hour(self.topology) is not None:
            yield self._change("prices -20 %", Sized(self.layout, self.now, 0.0), factor=_CHEAPER)


def _only(
    scenario: Scenario, workload: Workload, options: PlanOptions, prices: dict[str, Price], unit: Unit
) -> Unit | None:
    """A unit of the same GPU and degree under another scenario; None where the model does not fit it."""
    one = replace(options, hardware=(unit.hardware,), tp=(unit.tp,), prefill_tp=None, decode_tp=None)
    found = space(scenario, workload, one, prices).units
    return found[0] if found else None
