"""Strategies side by side: each evaluated on the same requests, on the same GPUs, with one ideal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..evaluate import summary
from ..evaluate.closed import ClosedForm, Means
from ..evaluate.ideal import Ideal
from ..evaluate.replay import replay
from ..evaluate.tally import Tally
from ..evaluate.timeline import Record, Run
from ..inputs.workload import Request, Workload
from ..serving.band import spread
from ..serving.deployment import Deployment
from ..serving.instance import InstanceKind
from ..serving.step import StepTimes, step_times
from ..serving.strategies import Strategy
from ..serving.table import step_tables
from .at_once import AtOnce
from .bands import Bands
from .figures import figures, pools
from .goodput import PROBE, Goodput, Search
from .moved import Moved
from .results import StrategyResult
from .reuse import Seen, cold_workload, gain, gain_at_once, places, places_at_once, tier_results
from .tier_results import ReuseGain

#: Requests drawn at the given rate: a P95 with a confidence interval, at once.
REQUESTS = 2000

_ONLY_TWO = "the closed form has no means of this load; goodput is replayed at moved step times for the best two alone"
_NO_BAND = "the closed form has no means at every moved step time, and bands rest on them"

Progress = Callable[[str], None]


def silent(message: str) -> None:
    """Report no progress."""
    del message


@dataclass(frozen=True)
class Options:
    """How to evaluate: ``method`` replay or closed, sizes of the samples, the seed, where progress goes.

    ``requests`` None: all that are kept of a trace, else ``REQUESTS``.
    """

    method: str = "replay"
    requests: int | None = None
    probe: int = PROBE
    seed: int = 1
    progress: Progress = silent


class Comparison:
    """Evaluates strategies over one deployment and workload; step times, ideal and requests are shared."""

    def __init__(
        self,
        deployment: Deployment,
        workload: Workload,
        options: Options,
        times: dict[InstanceKind, StepTimes] | None = None,
    ) -> None:
        self.deployment, self.workload, self.options = deployment, workload, options
        self.times = times or step_times(deployment.kinds)
        self.tables = step_tables(deployment.kinds)
        self.ideal = Ideal(list(self.tables.values()))
        self.bands = Bands(deployment, workload, self.times)
        if options.method == "replay":
            self.bands.replayed = Moved(
                self.bands.moves, self.tables, workload, lambda: self.requests, options.seed, options.progress,
                options.probe,
            )  # fmt: skip
        self._at_once: AtOnce | None = None
        self._requests: list[Request] | None = None
        self._runs: dict[Strategy, Run] = {}
        self._goodputs: dict[Strategy, Goodput] = {}

    @property
    def at_once(self) -> AtOnce:
        """Closed forms at nominal step times, fine enough for percentiles."""
        if self._at_once is None:
            self._at_once = AtOnce(self.deployment, self.workload, self.times)
        return self._at_once

    @property
    def requests(self) -> list[Request]:
        """The requests at the given rate, drawn once."""
        if self._requests is None:
            count = self.options.requests or len(self.workload.requests) or REQUESTS
            self._requests = self.workload.sample(count, self.options.seed)
        return self._requests

    def means(self, strategy: Strategy) -> Means:
        """Closed-form means at nominal step times."""
        return self.bands.means(strategy)[0]

    def trial(self, strategy: Strategy, requests: Sequence[Request]) -> Run:
        """Evaluate a strategy on other requests."""
        return replay(strategy, self.deployment, requests, self.workload.slo, self.tables, self.ideal)

    def run(self, strategy: Strategy) -> Run:
        """Evaluate a strategy request by request at the given rate, once."""
        if strategy not in self._runs:
            self.options.progress(f"{strategy.name}: {len(self.requests):,} requests")
            self._runs[strategy] = self.trial(strategy, self.requests)
        return self._runs[strategy]

    def result(self, strategy: Strategy) -> StrategyResult:
        """Return the figures of one strategy; none but stability where it is unstable."""
        means = self.means(strategy)
        blank = StrategyResult(
            name=strategy.name,
            stable=means.stable,
            utilisation=means.utilisation,
            pools=pools(means.loads, ()),
            method=self.options.method,
            reason=means.reason,
            ttft_reason=None if means.stable else means.reason,
            rule=strategy.rule.label if strategy.rule else None,
        )
        if self.options.method == "closed":
            found = self.at_once.result(blank, strategy, self.bands.factor(strategy, "ttft_s"))
            times = self.times[self.deployment.prefill]
            shares = places_at_once(self.deployment, self.workload, times, means, pooled=strategy.pooled)
            return replace(found, hit_rate_tokens=shares)
        result = blank
        if means.stable:
            result = self._measured(blank, strategy, means)
        return self._with_goodput(result, strategy)

    def _measured(self, blank: StrategyResult, strategy: Strategy, means: Means) -> StrategyResult:
        run = self.run(strategy)
        done, first = self.counted(run), self.deployment.settings.first_token
        slo, factor = self.workload.slo, self.bands.factor(strategy, "ttft_s")
        tally = Tally(slo, first, exact=True)
        for record in done:
            tally.add(record)
        found = figures(tally.totals(), self.workload.rate, self.deployment, slo=slo.given)
        gap = self._gap_band(strategy, found.get("tpot_p99_s"))
        return replace(
            blank,
            **found,
            pools=pools(means.loads, run.pools),
            reason=None,
            requests=len(run.records),
            finished=len(run.finished),
            ttft_p95_low_s=None if factor is None else found["ttft_p95_s"] / factor,
            ttft_p95_high_s=None if factor is None else found["ttft_p95_s"] * factor,
            tpot_p99_low_s=gap[0],
            tpot_p99_high_s=gap[1],
            ttft_stage_p95_not_additive=summary.stage_percentiles(done, first),
            band_reason=_NO_BAND if factor is None else self._turned(),
            gpu_s=summary.gpu_seconds(run),
            hit_rate_tokens=places(run.prefixes),
            tiers=tier_results(self.deployment, run.prefixes),
        )

    def reuse(self, strategy: Strategy) -> ReuseGain:
        """Return what the tiers gain under a strategy."""
        bare, workload = self.deployment.without_tiers(), cold_workload(self.deployment, self.workload)
        without = ClosedForm(bare, workload, self.times, 16).means(strategy)
        if self.options.method == "closed":
            sides = without, self.means(strategy)
            return gain_at_once(
                self.deployment, self.workload, strategy, self.times[self.deployment.prefill], sides
            )
        self.options.progress(f"{strategy.name}: without tiers")
        requests = workload.sample(len(self.requests), self.options.seed)
        runs = replay(strategy, bare, requests, workload.slo, self.tables), self.run(strategy)
        blocks = any(request.blocks for request in requests)
        seen = [
            Seen(
                summary.mean([r.ttft for r in self.counted(run)]) if means.stable else None,
                summary.gpu_seconds(run),
                reason=None if means.stable else f"{side} the tiers {means.reason}",
                load=None if blocks else means.utilisation,
            )
            for run, means, side in zip(runs, (without, self.means(strategy)), ("without", "with"))
        ]
        return gain(strategy.name, runs[1].prefixes, len(requests), *seen)

    def _turned(self) -> str | None:
        """Say which kinds were moved to the faster edge; None where none was."""
        turned = ", ".join(self.bands.turned)
        return (
            f"slower by as much as they may be off, {turned} would exceed capacity: moved to the faster edge"
            if (turned)
            else None
        )

    def _gap_band(self, strategy: Strategy, best: float | None) -> tuple[float | None, float | None]:
        """The band of P99 TPOT, where there is one."""
        factor = self.bands.factor(strategy, "tpot_s")
        return (None, None) if best is None or factor is None else (best / factor, best * factor)

    def counted(self, run: Run) -> list[Record]:
        """Requests whose figures count: of drawn ones those between warm-up and drain, of a trace all."""
        return run.finished if self.workload.requests else summary.settled(run.records)

    def goodput(self, strategy: Strategy) -> Goodput:
        """Search the goodput of a strategy, once."""
        if strategy not in self._goodputs:
            self._goodputs[strategy] = self._search(strategy)
        return self._goodputs[strategy]

    def _search(self, strategy: Strategy) -> Goodput:
        options = self.options
        search = Search(
            strategy,
            self.deployment,
            self.workload,
            self.times,
            self.tables,
            self.ideal,
            options.seed,
            options.progress,
            options.probe,
        )
        return search.run()

    def _with_goodput(self, result: StrategyResult, strategy: Strategy) -> StrategyResult:
        if not self.workload.slo.given:
            return replace(result, goodput_reason="no SLO is given")
        found, gpus = self.goodput(strategy), self.deployment.gpus
        bare = replace(
            result,
            goodput_per_gpu_per_s=found.rate_per_s / gpus,
            goodput_binding=found.binding,
            goodput_sampling=found.sampling,
            goodput_reason=found.reason,
        )
        if self.bands.by_replay(strategy):
            return replace(bare, band_reason=_ONLY_TWO)
        return self.goodput_banded(bare, strategy)

    def goodput_banded(self, result: StrategyResult, strategy: Strategy) -> StrategyResult:
        """Return a result with the band of its goodput, where it has one."""
        if result.goodput_per_gpu_per_s is None or result.goodput_low_per_gpu_per_s is not None:
            return result
        found, best = self.goodput(strategy), result.goodput_per_gpu_per_s
        rates = self.bands.rates(strategy, found.rate_per_s, found.binding)
        noise = [rates[0] * (1 + (found.sampling or 0.0))] if rates else []
        factor = None if rates is None else spread(rates[0], rates[1:] + noise)
        return replace(
            result,
            goodput_low_per_gpu_per_s=None if factor is None else best / factor,
            goodput_high_per_gpu_per_s=None if factor is None else best * factor,
            band_reason=_NO_BAND if factor is None else self._turned(),
        )


def with_splitting(results: Sequence[StrategyResult], pooled: Sequence[str]) -> list[StrategyResult]:
    """Fill ``splitting_s``: stranding and stretch beyond those of the better (less delayed) pooled strategy.

    Without what either computes of prefixes that the ideal has cached.
    """
    stable = [r for r in results if r.name in pooled and r.mean_delay_s is not None]
    if not stable:
        reason = "no pooled strategy has a mean delay on these GPUs"
        return [replace(r, splitting_reason=reason) for r in results]
    better = min(stable, key=lambda r: r.mean_delay_s or 0.0)
    base = _split_cost(better)
    return [r if r.ledger is None else replace(r, splitting_s=_split_cost(r) - base) for r in results]


def _split_cost(result: StrategyResult) -> float:
    assert result.ledger is not None
    stretch = result.ledger["stretch_s"] - (result.recomputed_prefix_s or 0.0)
    return result.ledger["queue_s"] + result.ledger["admission_s"] + stretch
