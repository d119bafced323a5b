"""The operating point of the threshold: on round numbers by hand, and at the load of a real deployment."""

from __future__ import annotations

import math
from typing import Any

import pytest

from costmodel.decision.operating import (
    QUANTILES,
    measured_load,
    operating_point,
    piggyback,
    prefill_line,
    self_consistent,
    threshold,
)
from costmodel.evaluate.closed import ClosedForm
from costmodel.evaluate.reference import evaluate
from costmodel.inputs.workload import Arrivals, Lengths, Request, Slo, Workload
from costmodel.serving.scenario import Scenario
from costmodel.serving.strategies import DISAGGREGATED, Rule, RuleKind, deflected
from costmodel.workloads import load_workload


def riding(bench: Any, share: float, fixed: float) -> Any:
    """Round times in which a mixed step takes its decode step, 2 ticks x share a token, and ``fixed``."""

    class Times(bench.RoundTimes):  # type: ignore[misc,name-defined]
        def step(self, chunks: Any, last: int, batch: int, context: float) -> float:
            if not (chunks and batch):
                return float(super().step(chunks, last, batch, context))
            tokens = sum(c.tokens for c in chunks)
            return float((fixed + 2 * share * tokens) * bench.tick + self.decode(batch, context))

    return Times(token=2, fixed=8)


def test_line_and_shares_by_hand(bench: Any) -> None:
    # Prefill alone 8 + 2 u ticks. Beside decodes 2 + 1.5 u: a quarter of 2 and three quarters of 8 hidden.
    times = riding(bench, 0.75, 2)
    for chunk in (1, 2, 3, 64, 2048):
        assert [v / bench.tick for v in prefill_line(times, chunk)] == [8, 2]
        assert piggyback(times, chunk, 3, 100) == (0.25, 0.75)
    # somebody to ride on two fifths of the time
    assert piggyback(times, 64, 0.4, 100) == (pytest.approx(0.1), pytest.approx(0.3))
    assert piggyback(times, 64, 0, 100) == (0, 0)
    assert piggyback(riding(bench, 1, 8), 64, 3, 100) == (0, 0)
    assert piggyback(riding(bench, 1.25, 10), 64, 3, 100) == (-0.25, -0.25)  # mixing may cost, too


def small(bench: Any, rate: float, **engine: Any) -> tuple[Any, Workload]:
    lengths = Lengths(600, 0.6), Lengths(20, 0.5)
    workload = Workload("small", Arrivals(rate), lengths[0], 0, lengths[1], Slo(), "here")
    return bench.deployment("2P2D", control_s=0.002, **engine), workload


def test_the_values_are_those_of_the_deployment_and_its_load(bench: Any) -> None:
    deployment, workload = small(bench, 40.0)
    times = bench.times(deployment)
    means = ClosedForm(deployment, workload, times).means(DISAGGREGATED)
    point = operating_point(deployment, workload, times)
    values = point.values
    assert point.observed and values["chunk"] == 2048 and values["control"] == 0.002
    assert values["wait"] == means.prefill_wait_s and values["batch"] == means.batch
    path = deployment.path
    prompt = round(values["uncached"])
    copied = values["latency"] + values["kv_bytes_per_token"] * prompt / values["link_bytes_per_s"]
    assert copied == pytest.approx(path.wire_s(prompt), rel=1e-9)
    fixed, slope = values["prefill_fixed"], values["prefill_per_token"]
    kind = times[deployment.prefill]
    for tokens in (512, 2048):
        assert fixed + slope * tokens == pytest.approx(kind.prefill(tokens), rel=1e-9)
    # q = rate of one instance x wait / (1 - utilisation)
    busy = means.loads[0].utilisation
    assert values["queued_prefill"] == pytest.approx(20 * means.prefill_wait_s / (1 - busy))
    assert point.selfish()["queued_prefill"] == 0 and point.selfish()["wait"] == values["wait"]


def test_overrides_stand_and_missing_load_is_said(bench: Any) -> None:
    deployment, workload = small(bench, 1e6)
    times = bench.times(deployment)
    point = operating_point(deployment, workload, times)
    assert not point.observed and "times its capacity" in point.note
    assert point.values["wait"] == point.values["batch"] == point.values["queued_prefill"] == 0
    given = operating_point(
        deployment, workload, times, overrides={"wait": 0.3, "batch": 7.0, "chunk": 512.0}
    )
    assert given.observed and (given.values["wait"], given.values["batch"]) == (0.3, 7)
    assert given.values["chunk"] == 512


def test_measured_load_by_hand(bench: Any) -> None:
    # Two prompts of 20 tokens at once on 1P1D, budget 20: the second waits 20. Decode: copies end at 32 and
    # 52; with 3 and 2 output tokens the requests decode 32-52 and 52-62.
    deployment = bench.round_deployment(token_budget=20)
    requests = [Request(0.0, 20, 0, 3), Request(0.0, 20, 0, 2)]
    run = evaluate(DISAGGREGATED, deployment, requests, Slo(), {deployment.prefill: bench.RoundTimes()})
    rate = 0.01 / bench.tick
    found = measured_load(run, run.finished, deployment, rate)
    assert found["wait"] == 10 * bench.tick
    assert found["batch"] == pytest.approx(0.01 * (20 + 10) / 2)  # Little: rate x mean decode time
    assert found["queued_prefill"] == pytest.approx(0.01 * 10 / (1 - 40 / 62))


def follows(deployment: Any, workload: Workload, times: Any, current: float) -> float:
    """Threshold that follows from the load under a threshold, with the quantiles of the fixed point."""
    form = ClosedForm(deployment, workload, times, points=QUANTILES)
    strategy = deflected(Rule(RuleKind.THRESHOLD, threshold=round(current)))
    point = operating_point(deployment, workload, times, closed=form, strategy=strategy)
    assert point.observed
    found = threshold(point.values).value
    return math.inf if found is None else found


@pytest.mark.parametrize(("name", "share"), [("hphd", 0.7), ("hphd", 1.15), ("hpld", 1.0), ("lphd", 1.0)])
def test_the_self_consistent_threshold_reproduces_itself(name: str, share: float) -> None:
    deployment = Scenario("deepseek-ai/DeepSeek-V2-Lite", "a100-sxm-80gb").deployment()
    packaged = load_workload(name)
    workload = packaged.at_rate(packaged.rate * share)
    times = ClosedForm(deployment, workload, _times(deployment)).times
    found, how = self_consistent(deployment, workload, times)
    assert found is not None and how == "fixed point of closed-form means"
    # It lies where what follows crosses the diagonal: longer before, shorter after.
    assert follows(deployment, workload, times, found / 1.02) >= found / 1.02
    assert follows(deployment, workload, times, found * 1.02) <= found * 1.02
    if (name, share) in {("hphd", 0.7), ("lphd", 1.0)}:  # no length lies between: no step to cross in
        assert follows(deployment, workload, times, found) == pytest.approx(found, rel=0.02)


def _times(deployment: Any) -> Any:
    from costmodel.serving.step import step_times

    return step_times(deployment.kinds)


def test_more_load_keeps_more_prompts_local() -> None:
    deployment = Scenario("deepseek-ai/DeepSeek-V2-Lite", "a100-sxm-80gb").deployment()
    packaged, times = load_workload("hphd"), _times(deployment)
    found = [
        self_consistent(deployment, packaged.at_rate(packaged.rate * x), times)[0] for x in (0.4, 0.7, 1.0)
    ]
    assert None not in found and found == sorted(found) and len(set(found)) == 3  # type: ignore[type-var]
    bursty, reason = self_consistent(deployment, load_workload("bursty"), times)
    assert bursty is None and "varies" in reason
