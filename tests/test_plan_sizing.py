"""Sizes of a plan's layouts against counting up from one instance, where loads are not proportional to instances."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from costmodel.evaluate.attained import Shares
from costmodel.inputs.prices import Price
from costmodel.inputs.workload import Arrivals, Lengths, Slo, Workload
from costmodel.planning.closed import Closed
from costmodel.planning.options import PlanOptions
from costmodel.planning.plan import plan
from costmodel.planning.results import PlanAnswer
from costmodel.planning.sizing import Sizing
from costmodel.planning.space import Layout, space
from costmodel.planning.told import _difference
from costmodel.planning.trials import Trial
from costmodel.serving.deployment import Topology
from costmodel.serving.scenario import Scenario

LLAMA, H100 = "Llama-3.1-8B", "h100-sxm"
BUDGETS = (512, 2048, 8192)
PRICES = {H100: Price(H100, 4.0, "given", "", "a test")}


def load(isl: int, osl: int, rate: float, slo: Slo) -> Workload:
    return Workload("own", Arrivals(rate), Lengths(isl, 0.0), 0, Lengths(osl, 0.0), slo, "here")


PROMPTS = load(2000, 200, 20.0, Slo(0.5, 0.02))
ANSWERS = load(4000, 400, 8.0, Slo(2.0, 0.05))
CHUNKED = PlanOptions(hardware=(H100,), tp=(1,), strategies=("chunked",), token_budgets=BUDGETS)
MIXED = PlanOptions(
    hardware=(H100,),
    tp=(1,),
    strategies=("colocated", "chunked", "disaggregated", "deflected"),
    token_budgets=(512, 8192),
    thresholds=(1000, 9000),
)


def scanned(closed: Closed, layout: Layout, role: str) -> int:
    """Fewest instances that carry the load of a role, counted up from one."""
    return next(
        n
        for n in itertools.count(1)
        if closed.loads(layout, Topology(n, 0 if layout.pooled else n))[role] < 1
    )


@pytest.mark.parametrize(("model", "workload"), [(LLAMA, PROMPTS), ("Qwen3-32B", ANSWERS)])
def test_floors_are_the_fewest_stable_instances(model: str, workload: Workload) -> None:
    """One Qwen3-32B instance with budget 8,192 is offered 342 times what it can do; 15 are stable."""
    closed = Closed(workload)
    for layout in space(Scenario(model, H100), workload, MIXED, PRICES).layouts:
        found = Sizing(closed, 0.8, 1).floor(layout)
        roles = ("shared",) if layout.pooled else ("prefill", "decode")
        counts = [found.prefill, found.decode][: len(roles)]
        assert counts == [scanned(closed, layout, role) + 1 for role in roles]


@pytest.mark.parametrize("goal", [0.8, 0.97])
def test_chunked_sizes_are_those_of_brute_force(goal: float) -> None:
    """Small budgets and large ones: one instance is offered up to 3.6 times what it can do, and two attain it."""
    closed = Closed(PROMPTS)
    sizing = Sizing(closed, goal)
    least = []
    for layout in space(Scenario(LLAMA, H100), PROMPTS, CHUNKED, PRICES).layouts:
        found = sizing.least(layout, lambda layout, t: float(layout.gpus(t)))
        assert found is not None
        brute = next(n for n in range(1, 9) if closed.shares(layout, Topology(n, 0)).both >= goal)
        assert found.topology == Topology(brute, 0)
        least.append(brute)
    assert min(least) == 2


# --- whole plans -------------------------------------------------------------------------------------


def planned(options: PlanOptions, workload: Workload = PROMPTS) -> PlanAnswer:
    return plan(Scenario(LLAMA, H100), workload, options, PRICES)


def test_two_chunked_instances_do_where_one_is_overloaded_by_far() -> None:
    """What fits the GPUs that are allowed is found, and is the best beside plain disaggregation's three."""
    allowed = PlanOptions(
        hardware=(H100,), tp=(1,), strategies=("chunked",), token_budgets=(512,), max_gpus=2, requests=1000
    )
    found = planned(allowed)
    assert found.answered and found.plans[0].topology == "2"
    both = PlanOptions(hardware=(H100,), tp=(1,), strategies=("chunked", "disaggregated"), requests=1000)
    tight = load(2000, 200, 20.0, Slo(0.5, 0.016))
    best = planned(both, tight).plans[0]
    assert (best.strategy, best.token_budget, best.gpus) == ("chunked", 512, 2)


class Low(Closed):
    """A closed form that is far too low: as if there were one instance of each role fewer."""

    def shares(self, layout: Layout, topology: Topology) -> Shares:
        fewer = Topology(topology.prefill - 1, max(0, topology.decode - 1))
        if fewer.prefill < 1 or (topology.decode and fewer.decode < 1):
            return Shares(0.0, 0.0, 0.0)
        return super().shares(layout, fewer)


def test_a_best_plan_that_holds_with_fewer_is_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the closed form says, no row of what binds holds, and fewer instances do not."""
    options = PlanOptions(
        hardware=(H100,), tp=(1,), strategies=("colocated", "disaggregated"), requests=800, top=1
    )
    right = planned(options).plans[0]
    monkeypatch.setattr("costmodel.planning.plan.Closed", Low)
    found = planned(options)
    assert found.plans[0].gpus == right.gpus and found.plans[0].found_by == "search"
    missed = [row for row in found.binding if row.role != "rate"]
    assert missed and all(row.slo or row.cause == "none" for row in missed)


def test_a_lowered_plan_keeps_its_spares(monkeypatch: pytest.MonkeyPatch) -> None:
    options = PlanOptions(hardware=(H100,), tp=(1,), strategies=("colocated",), requests=800, top=1, spare=1)
    right = planned(options).plans[0]
    monkeypatch.setattr("costmodel.planning.plan.Closed", Low)
    best = planned(options).plans[0]
    assert best.topology == right.topology
    assert best.attainment_spare_replayed is not None and best.attainment_spare_replayed >= 0.9


# --- what is told ------------------------------------------------------------------------------------


def test_a_price_of_zero_is_a_price() -> None:
    """Of GPUs for nothing, the fewest; a factor over nothing is none."""
    options = PlanOptions(hardware=(H100,), tp=(1,), strategies=("colocated", "disaggregated"), requests=800)
    free = {H100: Price(H100, 0.0, "given", "", "a test")}
    found = plan(Scenario(LLAMA, H100), PROMPTS, options, free)
    best = found.plans[0]
    assert best.usd_per_hour == 0 and best.gpus == planned(options).plans[0].gpus
    assert found.margin is None and found.margin_reason == "the best plan costs nothing"
    placed = plan(Scenario(LLAMA, H100), PROMPTS, replace(options, method="distserve"), free)
    assert placed.plans[0].usd_per_hour == 0


def test_a_headroom_beyond_what_is_looked_at_is_told_as_such() -> None:
    options = PlanOptions(hardware=(H100,), tp=(1,), strategies=("colocated",), requests=100, top=1)
    idle = load(100, 2, 0.01, Slo(5.0, None))
    found = planned(options, idle)
    best = found.plans[0]
    assert best.headroom == 1000 and (best.headroom_reason or "").startswith(
        "headroom and goodput are at least"
    )
    assert "rate" not in {row.role for row in found.binding}


def test_a_degree_that_does_not_divide_is_no_want_of_room() -> None:
    options = PlanOptions(hardware=(H100,), tp=(3,))
    said = planned(options).infeasible_reason or ""
    assert "cannot be split as --tp says" in said and "it takes 1 GPU, TP1 (TP3" in said


def test_prompts_that_are_all_alike_have_no_threshold() -> None:
    alone = PlanOptions(hardware=(H100,), tp=(1,), strategies=("deflected",))
    assert "--threshold sets one" in (planned(alone).infeasible_reason or "")
    beside = replace(alone, strategies=("colocated", "deflected"), requests=800, top=1)
    found = planned(beside)
    assert found.answered and any("deflected left out" in said for said in found.about.assumptions)


def test_what_is_not_known_has_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed form that takes every size for good: a small one is replayed, refused, and cut short."""
    monkeypatch.setattr(Closed, "shares", lambda self, layout, topology: Shares(0.95, 0.95, 0.95))
    options = PlanOptions(hardware=(H100,), tp=(1,), strategies=("colocated",), requests=1000, top=1)
    refused = next(one for one in planned(options).plans if not one.feasible)
    assert refused.attainment_replayed is None and refused.ttft_p95_s is None and refused.difference is None
    for reason in (refused.attainment_replayed_reason, refused.ttft_reason, refused.difference_reason):
        assert "cut short" in (reason or "")
    unpriced = plan(Scenario(LLAMA, H100), PROMPTS, options, {}).plans[0]
    assert unpriced.usd_per_million_tokens is None and "--price" in (unpriced.usd_per_million_reason or "")


def test_a_difference_names_the_slo_that_differs() -> None:
    trial = Trial(True, 0.9, 0.001, ttft_share=0.99, tpot_share=0.91, preempted_share=0.0)
    said = _difference(0.08, None, trial, Shares(0.98, 0.99, 0.99), 0.7) or ""
    assert said.startswith(
        "TPOT is met by 99.0% in closed form, 91.0% in the replay, at load 0.70: likely batches"
    )
    late = replace(trial, ttft_share=0.8, tpot_share=0.99)
    assert "likely waits" in (_difference(0.1, None, late, Shares(0.98, 0.99, 0.99), 0.9) or "")
    alike = replace(trial, ttft_share=0.95, tpot_share=0.95)
    assert "as independent" in (_difference(0.05, None, alike, Shares(0.9, 0.95, 0.95), 0.9) or "")
    assert _difference(0.02, None, trial, Shares(0.92, 0.99, 0.99), 0.7) is None
