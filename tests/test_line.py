"""Lines of prompts: TTFT as a distribution, steps that prompts share, and when its percentiles are refused."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random
from statistics import fmean
from typing import Any

import pytest

from costmodel.evaluate.closed import ClosedForm
from costmodel.evaluate.line import Line, Ttft
from costmodel.evaluate.replay import replay
from costmodel.evaluate.sharing import Sharing
from costmodel.evaluate.trust import refusal
from costmodel.evaluate.waits import Gaps
from costmodel.inputs.traces import recorded_workload
from costmodel.inputs.workload import Arrivals, Lengths, Request, Slo, Workload
from costmodel.serving.strategies import (
    CHUNKED,
    COLOCATED,
    DISAGGREGATED,
    Rule,
    RuleKind,
    Strategy,
    deflected,
)

ONE = (1.0,)


def line(**fields: Any) -> Line:
    """One exponential-like queue that nobody shares, unless fields say otherwise."""
    plain = Line(1.0, Gaps(2.0, 1.0), 1, ONE, (1.0,), (1.0,), (1.0,))
    return plain._replace(**fields)


# --- the distribution -----------------------------------------------------------------------------------


def test_an_empty_line_takes_what_a_prompt_takes() -> None:
    idle = Gaps(1e6, 1.0)
    law = Ttft(
        [line(gaps=idle, weights=(3.0, 1.0), takes=(1.0, 4.0), alone=(1.0, 4.0), crowded=(1.0, 4.0))], 0.5
    )
    assert law.quantile(0.5) == pytest.approx(1.5, rel=2e-4) and law.quantile(0.9) == pytest.approx(
        4.5, rel=2e-4
    )
    assert law.beyond(1.4) == pytest.approx(1.0) and law.beyond(2.0) == pytest.approx(0.25, abs=1e-4)
    later = Ttft([line(gaps=idle, after=(0.25,))])
    assert later.quantile(0.95) == pytest.approx(1.25, rel=2e-4)


def test_m_d_1_waits_then_is_served() -> None:
    """At 0.5, services of 1 s: P(W > t) by the exact law of M/D/1, t below 1: 1 - 0.5 exp(0.5 t)."""
    law = Ttft([line()])
    for waited in (0.2, 0.5, 0.9):
        assert law.beyond(1 + waited) == pytest.approx(1 - 0.5 * math.exp(0.5 * waited), rel=0.02)


def test_lines_add_up_by_share() -> None:
    fast, slow = line(share=0.75, gaps=Gaps(1e6, 1.0)), line(share=0.25, gaps=Gaps(1e6, 1.0), alone=(9.0,))
    law = Ttft([fast, slow])
    assert law.beyond(5.0) == pytest.approx(0.25, abs=1e-4)
    assert law.quantile(0.7) == pytest.approx(1.0, rel=2e-4) and law.quantile(0.8) == pytest.approx(
        9.0, rel=2e-4
    )


def test_a_decode_step_under_way_is_waited_for_where_nobody_is_ahead() -> None:
    idle = line(gaps=Gaps(1e6, 1.0), step=0.8, busy=0.5)
    law = Ttft([idle])
    # half of them at once, the others up to a whole step later
    assert law.beyond(1.0 + 1e-6) == pytest.approx(0.5, abs=1e-3)
    assert law.beyond(1.41) == pytest.approx(0.25, abs=1e-3) and law.beyond(1.81) == pytest.approx(
        0, abs=1e-3
    )
    seated = Ttft([line(gaps=Gaps(1e6, 1.0), seat=0.8, busy=1.0)])
    assert seated.beyond(1.41) == pytest.approx(0.5, abs=1e-3)


# --- sharing --------------------------------------------------------------------------------------------


def test_sharing_saves_the_fixed_part_and_no_more() -> None:
    shared = Sharing((1.0, 3.0), 0.4, (1.0, 1.0), (1.0, 1.0))
    assert shared.most == 2 and shared.added == pytest.approx(1.6)
    assert shared.takes(1) == (1.0, 3.0) and shared.takes(2) == pytest.approx((0.8, 2.8))
    # next to no load: nobody shares; the more load, the more do
    sizes = [shared.size(Gaps(gap, 1.0), 1) for gap in (100.0, 4.0, 2.2, 1.9)]
    assert sizes[0] < 1.1 and sizes == sorted(sizes) and sizes[-1] == pytest.approx(2, abs=0.05)


def crowd(bench: Any, tokens: int, budget: int, count: int = 600) -> tuple[Any, float]:
    """A prefill pool that is handed everything at once: the deployment, and the rate at which it works it off."""
    own = bench.deployment("1P1D")
    own = replace(own, settings=replace(own.settings, token_budget=budget, first_token="prefill"))
    run = bench.evaluate(DISAGGREGATED, own, [Request(0.0, tokens, 0, 1) for _ in range(count)], Slo())
    return own, count / max(record.end for record in run.records)


@pytest.mark.parametrize(("tokens", "budget"), [(300, 2048), (600, 2048), (1500, 2048), (900, 8192)])
def test_capacity_is_what_a_crowd_is_served_at(bench: Any, tokens: int, budget: int) -> None:
    deployment, rate = crowd(bench, tokens, budget)
    load = Workload("w", Arrivals(rate), Lengths(tokens, 0.0), 0, Lengths(1, 0.0), Slo(), "x")
    means = ClosedForm(deployment, load, bench.times(deployment)).means(DISAGGREGATED)
    assert means.utilisation == pytest.approx(1.0, rel=0.05)
    alone = bench.times(deployment)[deployment.prefill].prefill(tokens)
    if tokens < 1000:
        assert rate * alone > 1.03  # one by one it would not keep up


# --- against replay -------------------------------------------------------------------------------------


def load(rate: float, cv: float = 1.0, sigma: float = 0.7, outputs: int = 40) -> Workload:
    return Workload("w", Arrivals(rate, cv), Lengths(2500, sigma), 0, Lengths(outputs, 0.0), Slo(), "x")


#: Rates at which the busiest pool is used to 0.5 to 0.6.
RATES = {"colocated": 60, "chunked": 70, "disaggregated": 35}


@pytest.mark.parametrize("strategy", [COLOCATED, CHUNKED, DISAGGREGATED], ids=lambda s: s.name)
@pytest.mark.parametrize("cv", [0.5, 1.0, 2.0])
def test_p95_ttft_is_that_of_a_replay(bench: Any, strategy: Strategy, cv: float) -> None:
    own = bench.deployment("2P2D", control_s=0.001)
    own = replace(own, path=replace(own.path, bandwidth_override=200e9))
    workload = load(RATES[strategy.name], cv, outputs=5)
    means = ClosedForm(own, workload, bench.times(own), 64).means(strategy)
    assert 0.45 < means.utilisation < 0.65 and refusal(own, workload, strategy, means) is None
    run = replay(strategy, own, workload.sample(12_000, 1), workload.slo, bench.tables(own))
    ordered = sorted(record.ttft for record in run.records[500:])
    law = Ttft(means.lines)
    # The sample has a noise of 2 to 4 per cent of its own.
    assert law.quantile(0.95) == pytest.approx(ordered[round(0.95 * len(ordered))], rel=0.15)
    assert law.quantile(0.5) == pytest.approx(ordered[len(ordered) // 2], rel=0.15)


# --- refusals -------------------------------------------------------------------------------------------


def why(
    bench: Any,
    workload: Workload,
    strategy: Strategy = DISAGGREGATED,
    topology: str = "2P2D",
    **settings: Any,
) -> str:
    own = bench.deployment(topology)
    own = replace(own, settings=replace(own.settings, **settings))
    means = ClosedForm(own, workload, bench.times(own)).means(strategy)
    return refusal(own, workload, strategy, means) or ""


def test_a_swinging_batch_is_refused(bench: Any) -> None:
    """A small model on a large GPU: steps hang on how many decode, and more decode while prompts wait."""
    assert "at times" in why(bench, load(67.0, outputs=40), CHUNKED)


def test_it_answers_a_plain_load_and_says_why_it_does_not_answer_others(bench: Any) -> None:
    plain = load(8.0)
    assert why(bench, plain) == why(bench, plain, COLOCATED) == why(bench, plain, CHUNKED) == ""
    assert "kairos decides by the state" in why(bench, plain, deflected(Rule(RuleKind.KAIROS)))
    assert "decides by the state" in why(bench, plain, deflected(Rule(RuleKind.BUSY, threshold=100, queue=2)))
    assert why(bench, plain, deflected(Rule(RuleKind.THRESHOLD, threshold=1000))) == ""
    assert "plans a step ahead" in why(bench, plain, lag=True)
    assert "varies over time" in why(bench, replace(plain, arrivals=Arrivals(8.0, 1.0, 0.5, 10.0)))
    assert "times its capacity" in why(bench, load(1000.0))
    alike = Workload("w", Arrivals(60.0), Lengths(500, 0.0), 0, Lengths(5, 0.0), Slo(), "x")
    assert "fall into step" in why(bench, alike)
    waves = Workload("w", Arrivals(12.0, 3.0), Lengths(2500, 0.0), 0, Lengths(5, 0.0), Slo(), "x")
    assert "waves" in why(bench, waves)
    assert why(bench, replace(waves, arrivals=Arrivals(12.0, 1.0))) == ""


def test_crowded_links_and_decodes_are_refused(bench: Any) -> None:
    own = bench.deployment("2P1D")
    slow = replace(own, path=replace(own.path, bandwidth_override=6e9))
    workload = load(8.0)
    means = ClosedForm(slow, workload, bench.times(slow)).means(DISAGGREGATED)
    assert means.reason is None and "copies queue" in (refusal(slow, workload, DISAGGREGATED, means) or "")
    many = Workload("w", Arrivals(1.9), Lengths(500, 0.7), 0, Lengths(2000, 0.5), Slo(), "x")
    assert "decodes come to" in why(bench, many, topology="2P1D", max_seqs=64)


def correlated(share: float, count: int = 20_000) -> list[Request]:
    """Poisson arrivals; log-normal lengths of which each keeps a share of the one before."""
    draw, clock, normal, found = Random(4), 0.0, 0.0, []
    for _ in range(count):
        clock += draw.expovariate(4.0)
        normal = share * normal + math.sqrt(1 - share**2) * draw.gauss(0, 1)
        found.append(Request(clock, max(1, round(2000 * math.exp(0.7 * normal))), 0, 20))
    return found


def test_recorded_loads_are_judged_by_the_dispersion_of_work(bench: Any) -> None:
    independent = recorded_workload("independent", correlated(0.0), Slo(), "x")
    assert why(bench, independent) == ""
    means = ClosedForm(bench.deployment("2P2D"), independent, bench.times(bench.deployment("2P2D")))
    assert len(means.gaps_in.recorded) == 1000
    assert fmean(means.gaps_in.recorded) == pytest.approx(1 / independent.rate, rel=1e-3)
    # The gaps are as they were: counts say nothing, the work per window does.
    runs = recorded_workload("runs", correlated(0.98), Slo(), "x")
    assert "varies over time" in why(bench, runs.at_rate(20.0))
    assert why(bench, runs.at_rate(0.5)) == ""  # its busiest stretch is far from capacity


def test_instances_that_take_turns_queue_for_themselves(bench: Any) -> None:
    own = bench.deployment("4P1D", first_token="prefill")
    own = replace(own, path=replace(own.path, bandwidth_override=400e9))
    workload = Workload("w", Arrivals(80.0), Lengths(2500, 0.7), 0, Lengths(1, 0.0), Slo(), "x")
    found = {}
    for routing in ("shortest", "round-robin"):
        other = replace(own, settings=replace(own.settings, routing=routing))
        means = ClosedForm(other, workload, bench.times(other), 64).means(DISAGGREGATED)
        run = replay(DISAGGREGATED, other, workload.sample(12_000, 1), workload.slo, bench.tables(other))
        ordered = sorted(record.ttft for record in run.records[500:])
        found[routing] = Ttft(means.lines).quantile(0.95)
        assert found[routing] == pytest.approx(ordered[round(0.95 * len(ordered))], rel=0.15)
    assert found["round-robin"] > 1.3 * found["shortest"]


def test_what_else_is_declined(bench: Any) -> None:
    unlike = bench.deployment("2P2D", decode=("h100-sxm", 1))
    means = ClosedForm(unlike, load(8.0), bench.times(unlike)).means(COLOCATED)
    assert "unlike instances" in (refusal(unlike, load(8.0), COLOCATED, means) or "")
    rows = [row._replace(arrival_s=float(int(row.arrival_s))) for row in correlated(0.0)]
    tied = replace(recorded_workload("seconds", rows, Slo(), "x"), peak=0.0)
    assert "at the same time" in why(bench, tied)
    short = recorded_workload("short", correlated(0.0)[:500], Slo(), "x")
    assert "a trace this short" in why(bench, short)
    even = [Request(0.25 * i, 2000, 0, 20) for i in range(3000)]
    assert "varies" not in why(bench, recorded_workload("even", even, Slo(), "x"))


def test_a_prefix_cache_is_not_known_beforehand(bench: Any) -> None:
    rows = correlated(0.0)
    rows[7:] = [row._replace(blocks=(1,), block_tokens=16) for row in rows[7:]]
    assert "prefix cache" in why(bench, recorded_workload("blocks", rows, Slo(), "x"))
