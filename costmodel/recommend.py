"""The main question: is the copy cheaper than the interference it replaces, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .answer import About
from .breakeven import Values
from .comparison import Comparison, Options, with_splitting
from .deployment import Deployment
from .evaluate import summary
from .evaluate.closed import ClosedForm
from .evaluate.instances import Cap, largest_chunk
from .evaluate.reference import evaluate
from .flips import Landscape, local_flips
from .operating import measured_load, operating_point, self_consistent, threshold
from .provenance import assumptions, not_modelled, sources, warnings
from .results import Elasticity, Flip, Recommendation, Split, StrategyResult
from .strategies import (
    CHUNKED,
    COLOCATED,
    DISAGGREGATED,
    Rule,
    RuleKind,
    Strategy,
    deflected,
)
from .verdict import Verdict, judge
from .workload import Workload

SCHEMA = "costmodel.recommend/1"
_POOLED = (COLOCATED.name, CHUNKED.name)
#: Requests on which the rules of the deflected strategy are compared before one is taken.
_RULE_TRIAL = 600
_LEVERAGE_SAMPLE = 1000


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
    options: ``method`` "reference" evaluates request by request, "closed" answers at once with means only.
    rule: routing rule of the deflected strategy; by default the better of Kairos (transfer-aware) and the
        system threshold on a short trial.

    Raises NoAnswerError where a request cannot fit in any KV pool.
    """
    return _Question(deployment, workload, options or Options(), rule).answer()


class _Question:
    def __init__(
        self, deployment: Deployment, workload: Workload, options: Options, rule: Rule | None
    ) -> None:
        self.deployment, self.workload, self.options = deployment, workload, options
        self.compare = Comparison(deployment, workload, options)
        self.times = self.compare.times
        form = self.compare.bands.at_load[0]
        self.point = operating_point(
            deployment, workload, self.times, closed=form, overrides=self._measured_load()
        )
        self.thresholds = self._thresholds()
        self.rule = rule or self._better_rule()
        self.strategies: tuple[Strategy, ...] = (COLOCATED, CHUNKED, DISAGGREGATED, deflected(self.rule))

    @property
    def closed(self) -> bool:
        return self.options.method == "closed"

    def answer(self) -> Recommendation:
        results = with_splitting([self.compare.result(s) for s in self.strategies], _POOLED)
        verdict = judge(results, self.strategies, self.compare.bands)
        by_name = {r.name: r for r in results}
        deflectable, share, reason = self._deflectable()
        deployment, workload = self.deployment, self.workload
        self.options.progress("flips and elasticities")
        return Recommendation(
            schema=SCHEMA,
            verdict=verdict.verdict,
            action=self._action(verdict, results),
            objective=verdict.objective,
            margin=verdict.margin,
            margin_low=verdict.margin_low,
            margin_high=verdict.margin_high,
            margin_reason=verdict.reason,
            runner_up=verdict.runner_up,
            model=deployment.decode.model.name,
            hardware=_hardware(deployment),
            topology=str(deployment.topology),
            gpus=deployment.gpus,
            link=f"{deployment.path.nics} x {deployment.path.link.name}",
            workload=workload.name,
            rate_per_s=workload.rate,
            slo_ttft_s=workload.slo.ttft_s,
            slo_tpot_s=workload.slo.tpot_s,
            attainment_target=workload.slo.attainment,
            method=self.options.method,
            why=_why(by_name),
            strategies=tuple(results),
            splits=tuple(self._splits(verdict)),
            deflectable_tokens_per_s=deflectable,
            deflectable_share=share,
            deflectable_reason=reason,
            break_even=self.thresholds,
            flips=tuple(self._flips()),
            elasticities=tuple(self._elasticities(verdict)),
            settings=self._settings(),
            about=About(
                assumptions(deployment, workload, self.rule, self.point.note),
                sources(deployment, workload),
                not_modelled(deployment),
                warnings(deployment, results),
            ),
        )

    def _measured_load(self) -> Values | None:
        """Wait and batch of plain disaggregation, request by request where that is the method."""
        if self.closed or not self.compare.means(DISAGGREGATED).stable:
            return None
        return measured_load(self.compare.run(DISAGGREGATED), self.deployment, self.workload.rate)

    # --- threshold and rule --------------------------------------------------------------------------

    def _thresholds(self) -> Thresholds:
        point = self.point
        consistent, note = self_consistent(self.deployment, self.workload, self.times)
        system = threshold(point.values).value
        return Thresholds(
            "uncached tokens",
            threshold(point.selfish()).value,
            system,
            system if point.observed else None,
            consistent,
            f"{point.note}; self-consistent: {note}",
        )

    @property
    def constant(self) -> float | None:
        """The constant to paste into a router: the self-consistent threshold, else the observed one."""
        found = self.thresholds
        return found.self_consistent if found.self_consistent is not None else found.at_observed_load

    def _better_rule(self) -> Rule:
        """Return the better of Kairos and the system threshold on a short trial (Kairos without one)."""
        kairos = Rule(RuleKind.KAIROS)
        constant = self.constant
        if self.closed or constant is None:
            return kairos
        best, score = kairos, (-1.0, 0.0)
        requests = self.workload.sample(_RULE_TRIAL, self.options.seed)
        for rule in (kairos, Rule(RuleKind.THRESHOLD, threshold=round(constant))):
            strategy = deflected(rule)
            if not self.compare.means(strategy).stable:
                continue
            run = self.compare.trial(strategy, requests)
            found = (
                summary.attainment(run.records, self.workload.slo) if self.workload.slo.given else 0.0,
                -summary.mean([r.delay for r in run.finished]),
            )
            if found > score:
                best, score = rule, found
        return best

    # --- figures beside the strategies ---------------------------------------------------------------

    def _deflectable(self) -> tuple[float | None, float | None, str | None]:
        """Prompt tokens a second that the decode pool absorbs with every mixed step inside the TPOT SLO."""
        limit = self.workload.slo.tpot_s
        if limit is None:
            return None, None, "no TPOT SLO limits the mixed step"
        batch = round(self.point.values["batch"])
        times, form = self.times[self.deployment.decode], self.compare.bands.at_load[0]
        context = round(batch * form.context)
        prompt = round(self.point.values["uncached"])
        cap = Cap(self.rule.beta * limit, self.rule.candidates)
        budget = self.deployment.settings.token_budget
        chunk = largest_chunk(times, cap, budget, prompt // 2, batch, context, budget)
        if chunk is None:
            return 0.0, 0.0, "even the smallest chunk takes a mixed step beyond the TPOT SLO"
        from .formulas.chunking import deflectable_tokens_per_s
        from .work import Chunk

        step = times.step((Chunk(chunk, prompt // 2),), 0, batch, context)
        found = float(deflectable_tokens_per_s(self.deployment.topology.decode, chunk, step))
        return found, found / (self.workload.rate * self.point.values["uncached"]), None

    def _splits(self, verdict: Verdict) -> list[Split]:
        """Other integer splits of the same GPUs, by closed form, under the better split strategy."""
        strategy = self.strategies[3] if verdict.best == "deflected" else DISAGGREGATED
        base = self.compare.means(strategy).delay_s
        found = []
        for topology in self.deployment.splits():
            moved = self.deployment.with_topology(topology)
            means = ClosedForm(moved, self.workload, self.times, 16).means(strategy)
            worst = max(means.loads, key=lambda load: load.utilisation)
            delay = means.delay_s
            ratio = delay / base if delay is not None and base else None
            found.append(
                Split(
                    str(topology),
                    strategy.name,
                    means.stable,
                    means.utilisation,
                    worst.role,
                    delay,
                    ratio,
                    means.reason,
                )
            )
        return found

    def _flips(self) -> list[Flip]:
        landscape = Landscape(self.deployment, self.workload, self.times, self.strategies)
        return [*landscape.all(), *local_flips(self.point.values)]

    def _elasticities(self, verdict: Verdict) -> list[Elasticity]:
        """How P95 TTFT of the best strategy moves with its inputs, on the same requests."""
        name = verdict.best
        if name is None:
            return []
        strategy = next(s for s in self.strategies if s.name == name)
        base = self._statistic(strategy, self.deployment, self.workload, self.times)
        deployment, path, settings = self.deployment, self.deployment.path, self.deployment.settings
        faster = {
            kind: t.with_factors(dict.fromkeys(kind.efficiency.operators, 1 / 1.1))
            for kind, t in self.times.items()
        }
        wider = replace(path, bandwidth_override=path.bandwidth_bytes_per_s * 1.1)
        bigger = replace(settings, token_budget=round(settings.token_budget * 1.1))
        cases = [
            ("step speed", "+10 %", deployment, self.workload, faster),
            ("copy bandwidth", "+10 %", replace(deployment, path=wider), self.workload, self.times),
            (
                "arrival rate",
                "+10 %",
                deployment,
                self.workload.at_rate(self.workload.rate * 1.1),
                self.times,
            ),
            ("token budget", "+10 %", replace(deployment, settings=bigger), self.workload, self.times),
        ]
        topology = deployment.topology
        if strategy.pooled:
            more, label = replace(topology, decode=topology.decode + 1), "instances"
        else:
            more, label = replace(topology, prefill=topology.prefill + 1), "prefill instances"
        cases.append((label, "+1", replace(deployment, topology=more), self.workload, self.times))
        statistic = "ttft_mean" if self.closed else "ttft_p95"
        found = []
        for label, step, moved, workload, times in cases:
            value = self._statistic(strategy, moved, workload, times)
            known = value is not None and base is not None
            reason = None if known else "no stable answer on one side"
            change = value / base - 1 if value is not None and base is not None else None
            found.append(Elasticity(label, step, change, statistic, reason))
        return found

    def _statistic(
        self, strategy: Strategy, deployment: Deployment, workload: Workload, times: object
    ) -> float | None:
        assert isinstance(times, dict)
        means = ClosedForm(deployment, workload, times, 16).means(strategy)
        if self.closed or not means.stable:
            return means.ttft_s
        requests = workload.sample(_LEVERAGE_SAMPLE, self.options.seed)
        run = evaluate(strategy, deployment, requests, workload.slo, times)
        return summary.quantile(sorted(r.ttft for r in run.finished), 0.95)

    # --- words ---------------------------------------------------------------------------------------

    def _settings(self) -> dict[str, str]:
        """What to paste, under each project's own names."""
        budget = self.deployment.settings.token_budget
        lines = {"vllm": f"--max-num-batched-tokens {budget}"}
        if self.constant is not None:
            tokens = round(self.constant)
            lines["dynamo"] = f"eff_isl_threshold={tokens}"
            lines["llm-d"] = f"nonCachedTokens={tokens}"
        return lines

    def _action(self, verdict: Verdict, results: Sequence[StrategyResult]) -> str:
        topology, count = self.deployment.topology, self.deployment.topology.instances
        budget = self.deployment.settings.token_budget
        if verdict.best is None:
            return (
                self._unstable(results)
                if verdict.verdict == "none_stable"
                else (f"cannot rank the strategies: {verdict.reason}")
            )
        actions = {
            "colocated": f"pool all {count} instances, whole prompts before decodes",
            "chunked": f"pool all {count} instances, chunked prefill with a token budget of {budget}",
            "disaggregated": f"keep {topology}, prefill every prompt on the prefill GPUs",
            "deflected": f"keep {topology}, prefill on decode GPUs {self._deflect_rule()}",
        }
        action = actions[verdict.best]
        if verdict.verdict != "too_close_to_call":
            return action
        return f"{verdict.best} and {verdict.runner_up} are within the error; measure {self._measure(verdict)}; until then {action}"

    def _deflect_rule(self) -> str:
        if self.rule.kind is RuleKind.THRESHOLD:
            return f"below {self.rule.threshold:,} uncached tokens"
        return f"when the {self.rule.kind.value} estimate says so (alpha {self.rule.alpha:g}, beta {self.rule.beta:g})"

    def _measure(self, verdict: Verdict) -> str:
        """The operator kind whose error moves the margin most."""
        pair = [next(s for s in self.strategies if s.name == n) for n in (verdict.best, verdict.runner_up)]
        first, second = (self.compare.bands.delays(s) for s in pair)
        if first is None or second is None:
            return "step times on this GPU"
        return f"{self.compare.bands.widest([a / b for a, b in zip(first, second)])} on this GPU"

    def _unstable(self, results: Sequence[StrategyResult]) -> str:
        short = min(results, key=lambda r: r.utilisation)
        pool = max(short.pools, key=lambda p: p.utilisation)
        return (
            f"no strategy is stable: even {short.name} is offered {short.utilisation:.2f} times its capacity; "
            f"{pool.missing_instances:.1f} more {pool.role} instances are missing"
        )


def _why(results: dict[str, StrategyResult]) -> dict[str, float | None]:
    """The three numbers: what the copy, splitting the GPUs, and interference cost, in seconds a request."""
    split = results["disaggregated"]
    pooled = [results[name] for name in _POOLED if results[name].mean_delay_s is not None]
    better = min(pooled, key=lambda r: r.mean_delay_s or 0.0) if pooled else None
    return {
        "copy_s": split.copy_s,
        "splitting_s": split.splitting_s,
        "interference_s": better.interference_s if better else None,
    }


def _hardware(deployment: Deployment) -> str:
    prefill, decode = deployment.prefill, deployment.decode
    if prefill is decode:
        return f"{deployment.gpus} x {prefill.label()}"
    topology = deployment.topology
    return f"{topology.prefill} x {prefill.label()} + {topology.decode} x {decode.label()}"
