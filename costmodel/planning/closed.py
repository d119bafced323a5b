"""Attainment of layouts by closed form: one set of prompt times for each pair of instances, many topologies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..evaluate.attained import NONE, Shares, attained, few, paced, prompt
from ..evaluate.closed import ClosedForm, Means
from ..evaluate.trust import refusal
from ..inputs.workload import Workload
from ..serving.band import WHOLE, factors
from ..serving.deployment import Topology
from ..serving.instance import InstanceKind
from ..serving.step import StepTimes
from .space import Layout, Unit

#: Quantiles of lengths that stand for all of them; of a trace eight times as many requests are picked.
POINTS, _OF_A_TRACE = 40, 8


class Closed:
    """Closed forms of every layout at one workload, step times ``factor`` times as long.

    Load that varies counts as if it did not: it orders, no more.
    """

    def __init__(self, workload: Workload, factor: float = 1.0) -> None:
        self.given, self.factor = workload, factor
        self.workload = steady(workload)
        self._times: dict[InstanceKind, StepTimes] = {}
        self._forms: dict[tuple[Unit, Unit], ClosedForm] = {}
        self._means: dict[tuple[Layout, Topology], Means] = {}
        self._shares: dict[tuple[Layout, Topology], Shares] = {}

    def under(self, workload: Workload) -> Closed:
        """Return the same at another rate, or with other SLOs."""
        other = Closed(workload, self.factor)
        other._times = self._times
        other._forms = {pair: form.on(form.deployment, other.workload) for pair, form in self._forms.items()}
        return other

    def moved(self, factor: float) -> Closed:
        """Return the same with every step time multiplied."""
        other = Closed(self.given, self.factor * factor)
        other._times = {
            kind: times.with_factors(factors(kind, WHOLE, other.factor - 1))
            for kind, times in self._times.items()
        }
        return other

    def _steps(self, kind: InstanceKind) -> StepTimes:
        """Return the step times of a kind of instance, once."""
        if kind not in self._times:
            off = factors(kind, WHOLE, self.factor - 1) if self.factor != 1 else {}
            self._times[kind] = StepTimes(kind, off)
        return self._times[kind]

    def form(self, layout: Layout, topology: Topology) -> ClosedForm:
        """Return the closed form of a layout's deployment."""
        pair = layout.prefill, layout.decode
        deployment = layout.at(topology)
        if pair not in self._forms:
            own = {kind: self._steps(kind) for kind in deployment.kinds}
            points = _OF_A_TRACE if self.workload.requests else POINTS
            self._forms[pair] = ClosedForm(deployment, self.workload, own, points)
        return self._forms[pair].on(deployment)

    def means(self, layout: Layout, topology: Topology) -> Means:
        """Return the means of a layout with so many instances, once."""
        key = layout, topology
        if key not in self._means:
            self._means[key] = self.form(layout, topology).means(layout.strategy)
        return self._means[key]

    def loads(self, layout: Layout, topology: Topology) -> Mapping[str, float]:
        """Offered work over capacity by pool."""
        return {load.role: load.utilisation for load in self.means(layout, topology).loads}

    def paced(self, layout: Layout, topology: Topology) -> float:
        """Share that meets the SLO of TPOT, which no wait for prefill moves; 0 where a pool is unstable."""
        means = self.means(layout, topology)
        return paced(means, self.form(layout, topology).requests, self.workload) if means.decodes else 0.0

    def prompt(self, layout: Layout, topology: Topology) -> float:
        """Share that meets the SLO of TTFT, whatever decodes then do; 0 where a pool is unstable."""
        means = self.means(layout, topology)
        return prompt(means, self.workload, layout.at(topology).request_latency) if means.lines else 0.0

    def shares(self, layout: Layout, topology: Topology) -> Shares:
        """Return the shares that meet the SLOs, once; none where a pool is unstable."""
        key = layout, topology
        if key not in self._shares:
            means = self.means(layout, topology)
            found = NONE
            if means.reason is None:
                form = self.form(layout, topology)
                found = attained(means, form.requests, self.workload, form.deployment.request_latency)
            self._shares[key] = found
        return self._shares[key]

    def refusal(self, layout: Layout, topology: Topology) -> str | None:
        """Say why the closed form cannot vouch for an attainment; None where it can."""
        means = self.means(layout, topology)
        if means.reason is not None:
            return means.reason
        if self.given.too_bursty(means.utilisation):
            return "the load varies over time: the closed form takes it as steady, and orders plans by that alone"
        return refusal(layout.at(topology), self.given, layout.strategy, means) or few(means, self.given)


def steady(workload: Workload) -> Workload:
    """Return a workload of the same mean rate, variation of gaps and lengths, whose load does not vary."""
    arrivals = replace(workload.arrivals, on_share=1.0, on_period_s=0.0)
    return replace(workload, arrivals=arrivals, peak=0.0)
