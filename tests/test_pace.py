"""TPOT as a distribution: laws that are known by hand, and replays."""

from __future__ import annotations

import math
from typing import Any

import pytest

from costmodel.evaluate import summary
from costmodel.evaluate.attained import attained, paced, prompt
from costmodel.evaluate.closed import ClosedForm
from costmodel.evaluate.ideal import Ideal
from costmodel.evaluate.pace import Decodes, Inflow, Stalls, Tpot, inflow, normal_beyond
from costmodel.evaluate.prompts import Moments
from costmodel.evaluate.replay import replay
from costmodel.inputs.workload import Arrivals, Lengths, Request, Slo, Workload
from costmodel.serving.deployment import Topology
from costmodel.serving.scenario import Scenario
from costmodel.serving.step import step_times
from costmodel.serving.strategies import (
    CHUNKED,
    COLOCATED,
    DISAGGREGATED,
    Rule,
    RuleKind,
    Strategy,
    deflected,
)
from costmodel.serving.table import step_tables

REQUESTS = [Request(0.0, 1000, 0, 101)] * 4


def decodes(
    step: Any, *, tokens: float, batch: float, stalls: Any = None, instances: int = 1, scv: float = 1.0
) -> Decodes:
    return Decodes(instances, tokens, 400.0, batch, step, stalls, lambda _: 0.0, Inflow(scv, scv))  # fmt: skip


def test_steps_that_do_not_depend_on_the_batch_make_it_poisson() -> None:
    # 100 tokens/s of 20 ms each: 2 at once on average, and a Poisson number has a variance of its mean.
    law = Tpot(decodes(lambda _: 0.02, tokens=100, batch=2.0), REQUESTS, ())
    assert law.mean == pytest.approx(2.0, rel=1e-9)
    assert law.variance == pytest.approx(2.0, rel=1e-9)


def test_steps_that_grow_with_the_batch_make_it_negative_binomial() -> None:
    # A step of n decodes takes (10 + 5 n) ms, 100 tokens/s: p(n) / p(n - 1) = (1 + n / 2) / n = (2 + n) / 2 n, that of
    # a negative binomial law of size 3 and ratio 1/2: mean 3 (1/2) / (1/2) = 3, variance 3 (1/2) / (1/2)**2 = 6.
    law = Tpot(decodes(lambda others: 0.010 + 0.005 * (others + 1), tokens=100, batch=3.0), REQUESTS, ())
    assert law.mean == pytest.approx(3.0, rel=1e-6)
    assert law.variance == pytest.approx(6.0, rel=1e-4)


def test_a_pool_of_instances_shares_its_decodes_evenly() -> None:
    # Four instances of the same load: 8 at once in the pool, 2 on each; the pool's variance of 8 is 8 / 16 of each.
    law = Tpot(decodes(lambda _: 0.02, tokens=100, batch=2.0, instances=4), REQUESTS, ())
    assert law.mean == pytest.approx(2.0, rel=1e-9)
    assert law.variance == pytest.approx(0.5, rel=1e-9)


def test_what_a_stay_averages() -> None:
    # Stays all of T seconds: the autocorrelation falls in a straight line from 1 to 0 over T, so that the variance of
    # the average over T is 2 / T**2 times the integral of (T - u)**2 / T: 2/3. A stay of 3 T: (2/9) (3/2 - 1/6) = 8/27.
    law = Tpot(decodes(lambda _: 0.02, tokens=100, batch=2.0), REQUESTS, ())
    assert law._averaged() == pytest.approx([2 / 3] * 4, rel=1e-6)
    # One of a thousand that stays three times as long hardly changes the law of the others.
    mixed = [Request(0.0, 1000, 0, 101)] * 999 + [Request(0.0, 1000, 0, 301)]
    assert Tpot(decodes(lambda _: 0.02, tokens=100, batch=2.0), mixed, ())._averaged()[-1] == pytest.approx(
        8 / 27, rel=0.01
    )


def test_bursts_widen_it_by_their_peakedness() -> None:
    # Equal stays: the shorter of two is a stay, so that the variance grows with that of the gaps, 4 to 1.
    law = Tpot(decodes(lambda _: 0.02, tokens=100, batch=2.0, scv=4.0), REQUESTS, ())
    assert law._peaked() == pytest.approx(4.0)


def test_even_steps_are_met_or_missed_by_all() -> None:
    law = Tpot(decodes(lambda _: 0.02, tokens=100, batch=2.0), REQUESTS, ())
    assert law.beyond(0.0201) == pytest.approx([0.0] * 4)
    assert law.beyond(0.0199) == pytest.approx([1.0] * 4)
    assert law.quantile(0.9) == pytest.approx(0.02, rel=2e-3)


def test_what_comes_late_is_spread_over_the_tokens() -> None:
    # 0.5 s between token 1 and the decode steps of 100 tokens: 5 ms a token more.
    law = Tpot(decodes(lambda _: 0.02, tokens=100, batch=2.0), REQUESTS, (0.5, 0.0, 0.5, 0.0))
    assert law.beyond(0.0249) == pytest.approx([1.0, 0.0, 1.0, 0.0])
    assert law.beyond(0.0251) == pytest.approx([0.0] * 4)


def test_a_request_of_one_token_has_no_pace() -> None:
    law = Tpot(decodes(lambda _: 0.02, tokens=100, batch=2.0), [Request(0.0, 100, 0, 1), *REQUESTS], ())
    assert law.beyond(0.001)[0] == 0.0
    assert Tpot(decodes(lambda _: 0.02, tokens=0, batch=0.0), [Request(0.0, 9, 0, 1)], ()).beyond(0.1) == [
        0.0
    ]


def test_prompts_that_stop_decodes_are_a_delay_busy_period() -> None:
    # Steps of 10 ms, 100 of them: 1 s of one's own. Prompts of 0.1 s, all alike, 2 a second: the stay is
    # 1 / (1 - 0.2) = 1.25 s, with a variance of 1 x 2 x 0.1**2 / 0.8**3 = 0.0390625 s2. P(no prompt comes) = exp(-2).
    stalls = Stalls(2.0, Moments(0.1, 0.0), math.inf)
    law = Tpot(decodes(lambda _: 0.01, tokens=100, batch=1.25, stalls=lambda *_: stalls), REQUESTS, ())
    assert law.beyond(0.010001)[0] == pytest.approx(1 - math.exp(-2), abs=0.002)
    assert law.beyond(0.0099)[0] == 1.0
    # Of the others it is gamma with the same mean and variance: mean 0.25 / 0.8647 = 0.28913, second moment
    # (0.0390625 + 0.0625) / 0.8647 = 0.11746; beyond its own mean lies a little less than half of it.
    assert 0.35 < law.beyond(0.01 + 0.0028913)[0] / (1 - math.exp(-2)) < 0.5


def test_mixed_steps_are_never_slower_than_the_longest() -> None:
    stalls = Stalls(8.0, Moments(0.1, 0.0), 0.03)
    law = Tpot(decodes(lambda _: 0.01, tokens=100, batch=5.0, stalls=lambda *_: stalls), REQUESTS, ())
    assert law.beyond(0.0301) == pytest.approx([0.0] * 4)
    assert law.beyond(0.0299)[0] > 0.5


def test_prompts_that_wait_already_count_for_those_that_begin() -> None:
    quick = [Request(0.0, 1000, 0, 11)] * 4
    free = Stalls(2.0, Moments(0.1, 0.0), math.inf)
    behind = Stalls(2.0, Moments(0.1, 0.0), math.inf, waiting=0.5, backlog=0.05)
    beyond = [
        Tpot(decodes(lambda _: 0.01, tokens=20, batch=0.3, stalls=lambda *_, one=one: one), quick, ()).beyond(0.015)[0]
        for one in (free, behind)
    ]  # fmt: skip
    # 0.1 s of one's own meets a prompt with 1 - exp(-0.2) = 0.18; half begin behind some, too: 1 - 0.5 x 0.82 = 0.59.
    assert beyond[0] == pytest.approx(0.18, abs=0.02)
    assert 0.4 < beyond[1] < 0.6


def test_prompts_leave_a_queue_more_evenly() -> None:
    # Idle, as they came; always busy, as they are served, in pairs less so (square root of 2).
    service = Moments(0.1, 0.5)
    assert inflow(4.0, 0.0, service, 1).near == pytest.approx(4.0)
    assert inflow(4.0, 1.0, service, 1).near == pytest.approx(0.5)
    assert inflow(4.0, 1.0, service, 2).near == pytest.approx(1 - 0.5 / math.sqrt(2))
    half = inflow(4.0, 0.25, service, 1)
    # A quarter busy the queue settles within 0.1 / (1 - 1/2)**2 = 0.4 s: a stay as long sees half of the difference.
    assert half.settles == pytest.approx(0.4)
    assert half.over(0.4) == pytest.approx((half.near + 4.0) / 2)
    assert half.over(1e9) == pytest.approx(4.0)


def test_normal_tail() -> None:
    # Tables: 1.6449 has 5 % beyond it, 2.3263 1 %; symmetric.
    assert float(normal_beyond(1.6449)) == pytest.approx(0.05, abs=1e-5)
    assert float(normal_beyond(2.3263)) == pytest.approx(0.01, abs=1e-5)
    assert float(normal_beyond(-1.0)) == pytest.approx(1 - float(normal_beyond(1.0)))


CASES = {
    "colocated": (COLOCATED, "2", 1500, 200),
    "chunked": (CHUNKED, "2", 3000, 200),
    "disaggregated": (DISAGGREGATED, "2P1D", 1500, 200),
    "deflected": (deflected(Rule(RuleKind.THRESHOLD, threshold=1500)), "2P2D", 3000, 200),
}


@pytest.mark.parametrize("name", CASES)
def test_attainment_is_near_a_replay(name: str) -> None:
    """SLOs that the replay itself meets by 95 % each: within 5 points, and P90 TPOT within 8 %."""
    strategy, topology, prompts, outputs = CASES[name]
    deployment = Scenario("Llama-3.1-8B", "h100-sxm", topology).deployment()
    load = Workload(
        "own", Arrivals(12.0), Lengths(prompts, 0.5, 16, 16000), 0, Lengths(outputs, 0.8, 2, 2000), Slo(), ""
    )
    tables = step_tables(deployment.kinds)
    run = replay(strategy, deployment, load.sample(2500, 1), load.slo, tables, Ideal(list(tables.values())))
    done = summary.settled(run.records)
    slo = Slo(
        summary.quantile(sorted(record.ttft for record in done), 0.95),
        summary.quantile(sorted(record.tpot or 0.0 for record in done), 0.95),
    )
    load = Workload("own", load.arrivals, load.uncached, 0, load.output, slo, "")
    form = ClosedForm(deployment, load, step_times(deployment.kinds), 40)
    means = form.means(strategy)
    found = attained(means, form.requests, load, deployment.request_latency)
    assert found.both == pytest.approx(summary.attainment(done, slo), abs=0.05)
    assert found.both <= min(found.ttft, found.tpot)
    assert found.ttft == pytest.approx(prompt(means, load, deployment.request_latency))
    assert found.tpot == pytest.approx(paced(means, form.requests, load), abs=1e-9)
    assert means.decodes is not None
    p90 = Tpot(means.decodes, form.requests, means.late).quantile(0.9)
    assert p90 == pytest.approx(
        summary.quantile(sorted(record.tpot or 0.0 for record in done), 0.9), rel=0.08
    )


@pytest.mark.parametrize("strategy", [COLOCATED, CHUNKED, DISAGGREGATED], ids=lambda s: s.name)
def test_more_instances_never_attain_less(strategy: Strategy) -> None:
    deployment = Scenario("Llama-3.1-8B", "h100-sxm", "1P1D").deployment()
    load = Workload("own", Arrivals(30.0), Lengths(1500, 0.8), 0, Lengths(200, 0.8), Slo(0.4, 0.02), "")
    form = ClosedForm(deployment, load, step_times(deployment.kinds), 24)
    before = 0.0
    for count in range(1, 7):
        topology = Topology(count, 0 if strategy.pooled else count)
        one = form.on(deployment.with_topology(topology))
        found = attained(one.means(strategy), one.requests, load, 0.0).both
        assert found >= before - 1e-3
        before = found
    assert before > 0.9
