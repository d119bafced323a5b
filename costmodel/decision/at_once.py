"""The figures of a strategy by closed form: means, and percentiles of TTFT where they may be trusted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..evaluate.closed import ClosedForm, Means
from ..evaluate.limits import check_fits, limits
from ..evaluate.line import Ttft
from ..evaluate.trust import refusal
from ..inputs.workload import Workload
from ..serving.deployment import Deployment
from ..serving.instance import InstanceKind
from ..serving.step import StepTimes
from ..serving.strategies import Strategy
from .figures import grouped
from .results import StrategyResult

#: Quantiles of lengths that stand for all of them where a percentile is asked for: of TTFT near its 99th.
POINTS = 128
PERCENTILES = {"ttft_p50_s": 0.50, "ttft_p95_s": 0.95, "ttft_p99_s": 0.99}
#: What only an evaluation request by request has.
_REST = "percentiles of TPOT, stages of P95 TTFT and goodput need an evaluation request by request: --method replay"


class AtOnce:
    """Closed forms of one deployment and workload, fine enough for percentiles."""

    def __init__(
        self, deployment: Deployment, workload: Workload, times: dict[InstanceKind, StepTimes]
    ) -> None:
        self.deployment, self.workload = deployment, workload
        self.form = ClosedForm(deployment, workload, times, POINTS)
        self._means: dict[Strategy, Means] = {}

    def means(self, strategy: Strategy) -> Means:
        """Means of a strategy, once. Raises NoAnswerError for a request that fits no KV pool."""
        if strategy not in self._means:
            known = limits(strategy, self.deployment)
            for request in self.form.requests:
                check_fits(request, known)
            self._means[strategy] = self.form.means(strategy)
        return self._means[strategy]

    def refusal(self, strategy: Strategy) -> str | None:
        """Say why there are no percentiles of TTFT; None where there are."""
        return refusal(self.deployment, self.workload, strategy, self.means(strategy))

    def ttft(self, strategy: Strategy) -> Ttft:
        """TTFT of a strategy as a distribution, whether or not it may be trusted."""
        return Ttft(self.means(strategy).lines, self.deployment.request_latency)

    def result(self, blank: StrategyResult, strategy: Strategy, factor: float | None) -> StrategyResult:
        """Return a strategy's figures; ``factor`` of the band of TTFT, where it has one."""
        means = self.means(strategy)
        if means.accounts is None or means.delay_s is None:
            return replace(blank, goodput_reason=_REST, ttft_reason=means.reason)
        ledger = {f"{name}_s": value for name, value in means.accounts.items()}
        ledger |= {"ideal_s": means.ideal_s, "e2e_s": means.ideal_s + means.delay_s}
        found = replace(
            blank,
            reason=_REST,
            goodput_reason=_REST,
            local_share=means.local_share,
            mean_delay_s=means.delay_s,
            ttft_mean_s=means.ttft_s,
            tpot_mean_s=means.tpot_s,
            ledger=ledger,
            **grouped(ledger, means.recomputed_prefix_s),
        )
        why = self.refusal(strategy)
        if why is not None:
            return replace(found, ttft_reason=why)
        law = self.ttft(strategy)
        percentiles: dict[str, Any] = {name: law.quantile(share) for name, share in PERCENTILES.items()}
        p95 = percentiles["ttft_p95_s"]
        return replace(
            found,
            **percentiles,
            ttft_p95_low_s=None if factor is None else p95 / factor,
            ttft_p95_high_s=None if factor is None else p95 * factor,
        )
