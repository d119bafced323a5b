"""The main question: is the copy cheaper than the interference it replaces, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from ..answer import About
from ..evaluate import summary
from ..inputs.workload import Workload
from ..serving.deployment import Deployment
from ..serving.strategies import CHUNKED, COLOCATED, DISAGGREGATED, Rule, RuleKind, Strategy, deflected
from . import advice, alternatives
from .comparison import Comparison, Options, with_splitting
from .constant import replayed_load
from .flips import Landscape, local_flips
from .leverage import elasticities
from .operating import operating_point, self_consistent, threshold
from .provenance import assumptions, efficiencies, hardware_label, not_modelled, sources, warnings
from .results import Flip, Recommendation
from .reuse import told_without
from .tier_results import Reuse
from .verdict import judge

SCHEMA = "costmodel.recommend/1"


@dataclass(frozen=True)
class Thresholds:
    """The router threshold in uncached tokens: prompts below it stay on the decode instance.

    ``selfish`` compares one prompt's own times, ``system`` also those it delays; ``at_observed_load`` is the
    system threshold at the load of plain disaggregation, ``self_consistent`` at the load it causes itself.
    """

    unit: str
    selfish: float | None
    system: float | None
    at_observed_load: float | None
    self_consistent: float | None
    note: str


def recommend(
    deployment: Deployment,
    workload: Workload,
    options: Options | None = None,
    *,
    rule: Rule | None = None,
) -> Recommendation:
    """Compare the strategies on a deployment's GPUs and return the verdict with all it rests on.

    Parameters
    ----------
    deployment: instances, wires and settings. workload: arrivals, lengths and SLOs.
    options: ``method`` "replay" evaluates request by request, "closed" answers at once, without goodput.
    rule: routing rule of the deflected strategy; by default the better of Kairos (transfer-aware) and the
        system threshold.

    Raises NoAnswerError where a request cannot fit in any KV pool.
    """
    return _Question(deployment, workload, options or Options(), rule).answer()


class _Question:
    def __init__(
        self, deployment: Deployment, workload: Workload, options: Options, rule: Rule | None
    ) -> None:
        deployment.need_split()
        self.deployment, self.workload, self.options = deployment, workload, options
        self.compare = Comparison(deployment, workload, options)
        self.times = self.compare.times
        form = self.compare.bands.at_load[0]
        load = None if self.closed else replayed_load(self.compare)
        self.point = operating_point(deployment, workload, self.times, closed=form, overrides=load)
        self.thresholds = self._thresholds()
        self.rule = rule or self._better_rule()
        self.strategies: tuple[Strategy, ...] = (COLOCATED, CHUNKED, DISAGGREGATED, deflected(self.rule))

    @property
    def closed(self) -> bool:
        return self.options.method == "closed"

    def answer(self) -> Recommendation:
        compare, deployment, workload = self.compare, self.deployment, self.workload
        results = with_splitting([compare.result(s) for s in self.strategies], advice.POOLED)
        verdict = judge(results, self.strategies, compare.bands)
        results = [
            compare.goodput_banded(result, strategy)
            if result.name in (verdict.best, verdict.runner_up)
            else result
            for result, strategy in zip(results, self.strategies)
        ]
        best = next((s for s in self.strategies if s.name == verdict.best), None)
        splits = tuple(alternatives.splits(compare, best if best and not best.pooled else DISAGGREGATED))
        absorbed, share, reason = alternatives.deflectable(compare, self.point, self.rule)
        self.options.progress("flips and elasticities")
        return Recommendation(
            schema=SCHEMA,
            verdict=verdict.verdict,
            action=advice.action(verdict, compare, self.rule, results, self.strategies, splits),
            objective=verdict.objective,
            margin=verdict.margin,
            margin_low=verdict.margin_low,
            margin_high=verdict.margin_high,
            margin_reason=verdict.reason,
            runner_up=verdict.runner_up,
            model=deployment.decode.model.name,
            hardware=hardware_label(deployment),
            topology=str(deployment.topology),
            gpus=deployment.gpus,
            link=f"{deployment.path.nics} x {deployment.path.link.name}",
            workload=workload.name,
            rate_per_s=workload.rate,
            slo_ttft_s=workload.slo.ttft_s,
            slo_tpot_s=workload.slo.tpot_s,
            attainment_target=workload.slo.attainment,
            method=self.options.method,
            why=advice.why(results),
            strategies=tuple(results),
            splits=splits,
            splits_reason=deployment.splits_reason,
            deflectable_tokens_per_s=absorbed,
            deflectable_share=share,
            deflectable_reason=reason,
            break_even=self.thresholds,
            flips=tuple(self._flips()),
            elasticities=tuple(elasticities(compare, best)) if best else (),
            settings=advice.settings(deployment, verdict.best, self.constant, self.rule),
            efficiencies=efficiencies(deployment),
            about=About(
                assumptions(deployment, workload, self.rule, self.point.note),
                sources(deployment, workload),
                not_modelled(deployment),
                warnings(deployment, workload, results),
            ),
            reuse=self._reuse(),
        )

    def _reuse(self) -> Reuse | None:
        """What tiers gain, where there are any."""
        if not self.deployment.tiers:
            return None
        gains = tuple(self.compare.reuse(strategy) for strategy in self.strategies)
        return Reuse(gains, told_without(self.deployment))

    def _flips(self) -> list[Flip]:
        landscape = Landscape(self.deployment, self.workload, self.times, self.strategies)
        return [*landscape.all(), *local_flips(self.point, self.constant)]

    # --- threshold and rule --------------------------------------------------------------------------

    def _thresholds(self) -> Thresholds:
        point = self.point
        consistent, note = self_consistent(self.deployment, self.workload, self.times)
        selfish = threshold(point.selfish()).value if point.observed else None
        system = threshold(point.values).value if point.observed else None
        return Thresholds(
            "uncached tokens",
            selfish,
            system,
            system,
            consistent,
            f"{point.note}; self-consistent: {note}",
        )

    @property
    def constant(self) -> float | None:
        """The constant to paste into a router: the self-consistent threshold, else the observed one."""
        found = self.thresholds
        return found.self_consistent if found.self_consistent is not None else found.at_observed_load

    def _better_rule(self) -> Rule:
        """Return the better of Kairos and the system threshold by the objective of the verdict."""
        rules = [Rule(RuleKind.KAIROS)]
        if self.constant is not None:
            rules.append(Rule(RuleKind.THRESHOLD, threshold=round(self.constant)))
        stable = [rule for rule in rules if self.compare.means(deflected(rule)).stable]
        return max(stable, key=self._score) if len(stable) > 1 else (stable or rules)[0]

    def _score(self, rule: Rule) -> tuple[float, float]:
        """The objective of the verdict: goodput where SLOs are given, then less mean delay."""
        strategy = deflected(rule)
        if self.closed:
            return 0.0, -(self.compare.means(strategy).delay_s or 0.0)
        rate = self.compare.goodput(strategy).rate_per_s if self.workload.slo.given else 0.0
        return rate, -summary.mean(
            [record.delay for record in self.compare.counted(self.compare.run(strategy))]
        )
