"""``plan``: the search against brute force, spares, prices, and what stands where nothing will do."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest
from cli_runner import asked, run

from costmodel.errors import InputError
from costmodel.inputs.prices import Price
from costmodel.inputs.workload import Arrivals, Lengths, Slo, Workload
from costmodel.planning.closed import Closed
from costmodel.planning.options import PlanOptions
from costmodel.planning.placement import _goodput, placement
from costmodel.planning.plan import _pareto, plan
from costmodel.planning.results import Plan, PlanAnswer
from costmodel.planning.sizing import Sizing, without
from costmodel.planning.space import Layout, Space, space
from costmodel.planning.trials import Trials
from costmodel.questions.tiers import parse_tiers
from costmodel.serving.deployment import Topology
from costmodel.serving.scenario import Scenario

LLAMA, H100, A100 = "Llama-3.1-8B", "h100-sxm", "a100-sxm-80gb"
LOAD = Workload(
    "own", Arrivals(45.0), Lengths(1500, 0.6, 16, 16000), 0, Lengths(150, 0.6, 2, 2000), Slo(0.5, 0.025), "here"
)  # fmt: skip
PRICES = {name: Price(name, usd, "given", "", "a test") for name, usd in ((H100, 4.0), (A100, 2.0))}
SMALL = PlanOptions(
    hardware=(H100,), tp=(1,), strategies=("colocated", "disaggregated"), token_budgets=(2048,), requests=2000
)


def layouts(options: PlanOptions, workload: Workload = LOAD) -> Space:
    return space(Scenario(LLAMA, H100), workload, options, PRICES)


def planned(options: PlanOptions, workload: Workload = LOAD) -> PlanAnswer:
    return plan(Scenario(LLAMA, H100), workload, options, PRICES)


@pytest.fixture(scope="module")
def small() -> PlanAnswer:
    return planned(SMALL)


def topologies(layout: Layout, most: int) -> list[Topology]:
    """Every number of instances up to ``most`` in all."""
    if layout.pooled:
        return [Topology(count, 0) for count in range(1, most + 1)]
    pairs = itertools.product(range(1, most), repeat=2)
    return [Topology(x, y) for x, y in pairs if x + y <= most]


# --- the search --------------------------------------------------------------------------------------


@pytest.mark.parametrize("spare", [0, 1])
def test_sizes_are_those_of_brute_force(spare: int) -> None:
    both = replace(SMALL, hardware=(H100, A100)[: 2 - spare])
    closed = Closed(LOAD)
    sizing = Sizing(closed, 0.87, spare)

    def cost(layout: Layout, topology: Topology) -> float:
        return layout.usd_per_hour(topology) or 0.0

    for layout in layouts(both).layouts:
        found = sizing.least(layout, cost)
        held = [t for t in topologies(layout, 9) if sizing.attained(layout, t) >= 0.87]
        least = min((cost(layout, t) for t in held), default=None)
        if found is None or found.topology.instances > 9:
            assert least is None or (found is not None and cost(layout, found.topology) <= least)
        else:
            assert cost(layout, found.topology) == pytest.approx(least or 0.0)


def test_the_plan_is_the_cheapest_that_brute_force_finds(small: PlanAnswer) -> None:
    """Every deployment of up to 6 GPUs replayed: the cheapest that attains the target costs what the best plan does."""
    closed = Closed(LOAD)
    trials = Trials(LOAD, closed, replace(SMALL, replays=10_000))
    held = [
        layout.gpus(topology)
        for layout in layouts(SMALL).layouts
        for topology in topologies(layout, 6)
        if trials.of(layout, topology).met
    ]
    best = small.plans[0]
    assert best.feasible and best.gpus == min(held)
    assert best.usd_per_hour == pytest.approx(4.0 * best.gpus)


def test_plans_come_best_first_and_those_that_miss_last(small: PlanAnswer) -> None:
    feasible = [one.feasible for one in small.plans]
    assert feasible == sorted(feasible, reverse=True) and small.answered
    costs = [one.usd_per_hour or 0.0 for one in small.plans if one.feasible]
    assert costs == sorted(costs)
    for one in small.plans:
        assert one.feasible == (one.misses is None)
        if one.feasible:
            assert one.attainment_replayed is not None and one.attainment_replayed >= 0.9
            assert one.headroom is None or one.headroom >= 1


def test_what_the_closed_form_promises_is_near_the_replay(small: PlanAnswer) -> None:
    for one in small.plans:
        if one.feasible and one.attainment_closed is not None and one.attainment_closed_reason is None:
            assert one.attainment_closed == pytest.approx(one.attainment_replayed, abs=0.06)


def test_one_instance_fewer_breaks_the_best_plan(small: PlanAnswer) -> None:
    best = small.plans[0]
    for row in small.binding:
        if row.role != "rate" and row.cause != "none":
            assert row.slo is not None
            assert row.attainment_replayed is None or row.attainment_replayed < 0.9
    roles = {"prefill", "decode"} if "P" in best.topology else {"shared"}
    assert {row.role for row in small.binding} == {*roles, "rate"}


def test_changes_are_set_beside_the_plan_as_it_is(small: PlanAnswer) -> None:
    best = small.plans[0]
    found = {change.name: change for change in small.changes}
    prices = found["prices -20 %"]
    if prices.topology is not None:
        assert (
            prices.usd_per_hour == pytest.approx(0.8 * (best.usd_per_hour or 0.0)) and prices.gpus_saved == 0
        )
    for name in ("TTFT SLO +25 %", "TPOT SLO +25 %"):
        assert (found[name].gpus_saved or 0) >= 0
    for change in small.changes:
        assert change.gpus is None or change.gpus == best.gpus - (change.gpus_saved or 0)
    saved = [c.usd_per_hour_saved for c in small.changes if c.usd_per_hour_saved is not None]
    assert saved == sorted(saved, reverse=True)


def test_pareto_names_plans_that_no_other_beats(small: PlanAnswer) -> None:
    assert small.plans[0].name in small.pareto
    assert set(small.pareto) <= {one.name for one in small.plans if one.feasible}


def test_beaten_plans_are_not_named(small: PlanAnswer) -> None:
    """In cost, GPUs and headroom: b is beaten by a; c costs more and carries more; d does not hold."""
    a = small.plans[0]
    made = [
        replace(a, name=name, usd_per_hour=usd, gpus=gpus, headroom=room, feasible=True)
        for name, usd, gpus, room in (("a", 8.0, 2, 1.5), ("b", 8.0, 3, 1.5), ("c", 9.0, 3, 2.0))
    ]
    made.append(replace(a, name="d", usd_per_hour=1.0, gpus=1, feasible=False))
    assert _pareto(made) == ("a", "c")
    # Where one has no headroom, cost and GPUs alone count.
    made[0] = replace(made[0], headroom=None)
    assert _pareto(made) == ("a",)


def test_a_load_that_varies_is_decided_by_replays() -> None:
    """All arrivals in a fifth of the time: the closed form takes it as steady, and the replay asks for more."""
    bursts = replace(LOAD, arrivals=Arrivals(10.0, 1.0, 0.2, 4.0))
    options = replace(SMALL, strategies=("colocated",), top=1, requests=1000)
    found = planned(options, bursts)
    best = found.plans[0]
    steady = planned(options, replace(LOAD, arrivals=Arrivals(10.0))).plans[0]
    assert best.attainment_closed is None and "varies over time" in (best.attainment_closed_reason or "")
    assert best.gpus > steady.gpus and (best.attainment_replayed or 0) >= 0.9
    assert best.headroom is not None and best.headroom >= 1


def test_replays_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    from costmodel.evaluate.attained import Shares

    monkeypatch.setattr(Closed, "shares", lambda self, layout, topology: Shares(0.95, 0.95, 0.95))
    found = planned(replace(SMALL, strategies=("colocated",), replays=1, requests=600))
    said = found.infeasible_reason or ""
    assert not found.answered and "before the replays allowed are spent (--replays)" in said
    assert found.plans[0].misses and not found.plans[0].feasible


def test_a_plan_that_misses_in_replay_is_never_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed form that takes every deployment for good: the replay refuses the small ones all the same."""
    from costmodel.evaluate.attained import Shares

    monkeypatch.setattr(Closed, "shares", lambda self, layout, topology: Shares(0.95, 0.95, 0.95))
    found = planned(replace(SMALL, strategies=("colocated",), top=1))
    best = found.plans[0]
    assert best.feasible and (best.attainment_replayed or 0) >= 0.9
    assert all(one.misses for one in found.plans[1:])


def test_spares_cost_instances_and_hold(small: PlanAnswer) -> None:
    found = planned(replace(SMALL, spare=1, strategies=("colocated",), top=1))
    own = next(one for one in small.plans if one.strategy == "colocated" and one.feasible)
    best = found.plans[0]
    assert best.prefill_instances == own.prefill_instances + 1
    assert best.attainment_spare_replayed is not None and best.attainment_spare_replayed >= 0.9
    assert [str(t) for t in without(Topology(3, 2), 1)] == ["2P2D", "3P1D"]
    assert [str(t) for t in without(Topology(3, 0), 2)] == ["1"]


def test_two_kinds_of_gpus_make_pools_of_both() -> None:
    found = {
        (one.prefill.hardware, one.decode.hardware)
        for one in layouts(replace(SMALL, hardware=(H100, A100))).layouts
        if not one.pooled
    }
    assert found == {(H100, H100), (H100, A100), (A100, H100), (A100, A100)}


@pytest.mark.parametrize(("usd", "chosen"), [(0.1, (A100, A100)), (1.5, (H100, A100)), (40.0, (H100, H100))])
def test_prices_choose_the_gpus(usd: float, chosen: tuple[str, str]) -> None:
    """H100s at 4 USD; an A100 decodes for less where it costs 1.5."""
    options = replace(SMALL, hardware=(H100, A100), strategies=("disaggregated",), top=1, requests=800)
    prices = {H100: PRICES[H100], A100: Price(A100, usd, "given", "", "a test")}
    best = plan(Scenario(LLAMA, H100), LOAD, options, prices).plans[0]
    assert (best.prefill_hardware, best.decode_hardware) == chosen
    hourly = {H100: 4.0, A100: usd}
    cost = best.prefill_instances * hourly[chosen[0]] + best.decode_instances * hourly[chosen[1]]
    assert best.usd_per_hour == pytest.approx(cost)


def test_costs_are_those_of_the_tokens() -> None:
    """2 GPUs at 4 USD: 8 USD an hour over 3,600 s x 2 /s x 200 output tokens = 1.44 M: 5.56 USD a million."""
    load = replace(LOAD, arrivals=Arrivals(2.0), uncached=Lengths(1800, 0.0), output=Lengths(200, 0.0))
    options = replace(SMALL, tp=(2,), strategies=("colocated",), top=1, requests=300)
    best = planned(options, load).plans[0]
    assert (best.gpus, best.usd_per_hour) == (2, 8.0)
    assert best.usd_per_million_output_tokens == pytest.approx(8 / 1.44)
    # All tokens: 2,000 a request, ten times as many.
    assert best.usd_per_million_tokens == pytest.approx(8 / 14.4)


def test_without_a_price_gpus_decide() -> None:
    options = replace(SMALL, strategies=("colocated",), top=1, requests=300)
    found = plan(Scenario(LLAMA, H100), LOAD, options, {})
    assert found.objective == "gpus" and "no price of h100-sxm" in (found.objective_reason or "")
    best = found.plans[0]
    assert best.usd_per_hour is None and "--price" in (best.usd_per_hour_reason or "")


def test_distserve_replicates_each_phase_by_its_goodput() -> None:
    closed = Closed(LOAD)
    space_ = layouts(replace(SMALL, strategies=("disaggregated",)))
    found = placement(closed, space_.layouts, lambda layout, t: float(layout.gpus(t)), LOAD)
    assert found is not None
    layout = found.layout
    twice = placement(
        Closed(LOAD.at_rate(90.0)),
        space_.layouts,
        lambda layout, t: float(layout.gpus(t)),
        LOAD.at_rate(90.0),
    )
    assert twice is not None
    # Goodput of one instance does not depend on the rate, so that twice the rate takes about twice the instances.
    for one, two in (
        (found.topology.prefill, twice.topology.prefill),
        (found.topology.decode, twice.topology.decode),
    ):
        assert 2 * one - 1 <= two <= 2 * one
    # Each instance carries its share alone: one prefill instance attains TTFT at the rate that is left to it.
    apart = closed.under(LOAD.at_rate(45.0 / found.topology.prefill))
    assert apart.prompt(layout, Topology(1, 64)) >= 0.9


def test_distserve_takes_the_phases_of_most_goodput_a_dollar() -> None:
    """Every pair of GPU and degree gone through in full: what the placement skips is no better, to 4 % of a rate."""
    closed = Closed(LOAD)
    pairs = layouts(
        replace(SMALL, hardware=(A100, H100), tp=(1, 2, 4), strategies=("disaggregated",))
    ).layouts

    def cost(layout: Layout, topology: Topology) -> float:
        return layout.usd_per_hour(topology) or 0.0

    found = placement(closed, pairs, cost, LOAD)
    assert found is not None
    prefills = {
        one.prefill: _goodput(closed, one, Topology(1, 64), Closed.prompt, 0.9, 0.0)
        / cost(one, Topology(1, 0))
        for one in pairs
        if one.decode is pairs[0].decode
    }
    decodes = {
        one.decode: _goodput(closed, one, Topology(64, 1), Closed.paced, 0.9, 0.0) / cost(one, Topology(0, 1))
        for one in pairs
        if one.prefill is pairs[0].prefill
    }
    assert len(prefills) == len(decodes) == 6
    assert prefills[found.layout.prefill] >= max(prefills.values()) / 1.04
    assert decodes[found.layout.decode] >= max(decodes.values()) / 1.04
    # Below a rate that it must reach, a phase is not worth a search.
    one = found.layout
    rate = _goodput(closed, one, Topology(1, 64), Closed.prompt, 0.9, 0.0)
    assert _goodput(closed, one, Topology(1, 64), Closed.prompt, 0.9, 1.1 * rate) == 0
    assert (
        rate / 1.04 <= _goodput(closed, one, Topology(1, 64), Closed.prompt, 0.9, 0.9 * rate) <= 1.04 * rate
    )


# --- where nothing will do ---------------------------------------------------------------------------


def refused(options: PlanOptions, workload: Workload) -> str:
    found = planned(options, workload)
    assert not found.answered and found.plans == () and found.infeasible_reason
    return found.infeasible_reason


def test_a_ttft_below_the_physical_bound() -> None:
    """Llama-3.1-8B: 2 x 6.98e9 weights of its layers x 4,000 tokens = 5.6e13 FLOPs, over 989e12 /s: 57 ms at least."""
    load = replace(LOAD, uncached=Lengths(4000, 0.0), slo=Slo(0.05, None))
    said = refused(SMALL, load)
    assert "TTFT <= 50 ms is below its physical bound" in said and "4,000 tokens" in said and "FLOPs" in said
    value = float(said.split("FLOPs take ")[1].split(" ms")[0])
    assert 57 <= value <= 65


def test_a_tpot_below_the_physical_bound() -> None:
    """Llama-3.1-8B: 7.5e9 weights read once, 1.5e10 bytes, over 3.35e12 /s: 4.5 ms at least."""
    said = refused(SMALL, replace(LOAD, slo=Slo(None, 0.003)))
    assert "TPOT <= 3 ms is below its physical bound" in said and "bandwidth of h100-sxm" in said
    value = float(said.split("take up to ")[1].split(" ms")[0])
    assert 4.4 <= value <= 4.8


def test_an_slo_above_the_bound_but_below_a_request_alone() -> None:
    said = refused(SMALL, replace(LOAD, slo=Slo(None, 0.0048)))
    assert "above its physical bound but below a request's own time alone" in said


def test_more_gpus_than_allowed() -> None:
    said = refused(replace(SMALL, max_gpus=1), LOAD)
    assert "--max-gpus 1" in said and "by closed form the least takes" in said


def test_a_model_that_fits_nothing() -> None:
    found = plan(Scenario("Llama-3.1-70B", H100), LOAD, replace(SMALL, tp=(1,)), PRICES)
    assert not found.answered
    # 70.6e9 weights of two bytes, 141 GB: half of it and KV for 7,193 tokens (327,680 B each, half) fit 90 % of 80 GiB.
    said = found.infeasible_reason or ""
    assert "fits no instance" in said and "it takes 2 GPUs, TP2" in said


def test_mistakes_in_options() -> None:
    with pytest.raises(InputError, match="--strategy"):
        PlanOptions(hardware=(H100,), strategies=("chunkd",))
    with pytest.raises(InputError, match="no GPU"):
        PlanOptions(hardware=())
    with pytest.raises(InputError, match="--max-gpus must be at least 1"):
        PlanOptions(hardware=(H100,), max_gpus=0)
    with pytest.raises(InputError, match="no SLO"):
        planned(SMALL, replace(LOAD, slo=Slo()))


# --- KV tiers ----------------------------------------------------------------------------------------

LONG = Workload("long", Arrivals(8.0), Lengths(10000, 0.0), 0, Lengths(150, 0.0), Slo(1.0, 0.04), "here")
FOUND = replace(LONG, uncached=Lengths(2000, 0.0), cached_tokens=8000, hit_rate=0.7)


def with_host_memory(workload: Workload, hardware: tuple[str, ...] = (H100,)) -> PlanAnswer:
    """Host memory of 500 GiB an instance beside each layout of plain disaggregation and chunked prefills."""
    scenario = Scenario(LLAMA, H100, offload=parse_tiers(["dram-pcie5,capacity=500GiB"], "--offload"))
    options = replace(SMALL, hardware=hardware, strategies=("chunked", "disaggregated"), requests=600, top=2)
    return plan(scenario, workload, options, PRICES)


def test_prefixes_in_host_memory_save_gpus() -> None:
    """Seven of ten prompts compute a fifth of their tokens: 0.3 + 0.7 / 5 = 44 % of the prefills are left."""
    without_any = planned(replace(SMALL, strategies=("chunked", "disaggregated"), requests=600, top=2), LONG)
    found = with_host_memory(FOUND)
    best = {one.strategy: one.gpus for one in without_any.plans if one.feasible}
    assert found.answered and best
    for one in found.plans:
        if one.feasible:
            assert one.gpus <= best[one.strategy]
    assert found.plans[0].gpus < without_any.plans[0].gpus
    said = " ".join(found.about.assumptions)
    assert "0.7 of all requests find their cached tokens" in said and "KV tiers cost nothing" in said
    assert "KV tier dram-pcie5: 500 GiB" in said and "KV tiers" not in " ".join(without_any.about.assumptions)


def test_pools_of_two_kinds_of_gpus_keep_their_tiers() -> None:
    scenario = Scenario(LLAMA, H100, offload=parse_tiers(["dram-pcie5,capacity=500GiB"], "--offload"))
    options = replace(SMALL, hardware=(H100, A100), strategies=("disaggregated",))
    for layout in space(scenario, FOUND, options, PRICES).layouts:
        deployment = layout.at(Topology(2, 3))
        assert [tier.name for tier in deployment.tiers] == ["dram-pcie5"] and deployment.held == "store"
        assert (deployment.prefill.gpu.name, deployment.decode.gpu.name) == (
            layout.prefill.hardware, layout.decode.hardware,
        )  # fmt: skip
        assert deployment.path.target is deployment.decode and str(deployment.topology) == "2P3D"


# --- the command -------------------------------------------------------------------------------------

COMMAND = (
    "plan", LLAMA, "--hardware", H100, "--tp", "1", "--strategy", "colocated", "--isl", "1500", "--osl", "100",
    "--rate", "20", "--slo-ttft", "500ms", "--slo-tpot", "30ms", "--requests", "300", "--top", "1",
)  # fmt: skip
KEYS = {
    "schema", "plans", "pareto", "binding", "changes", "infeasible_reason", "assumptions", "sources", "not_modelled",
    "warnings", "prices",
}  # fmt: skip


def test_json_has_the_keys_of_the_contract() -> None:
    found = asked(*COMMAND)
    assert found["schema"] == "costmodel.plan/1" and found.keys() >= KEYS
    best = found["plans"][0]
    assert set(best) == set(Plan.__dataclass_fields__)
    assert best["settings"][0]["engine"] == "vllm"
    assert "--tensor-parallel-size 1" in best["settings"][0]["lines"][0]


def test_a_price_of_ones_own() -> None:
    found = asked(*COMMAND, "--price", f"{H100}=1.25")
    best = found["plans"][0]
    assert best["usd_per_hour"] == pytest.approx(1.25 * best["gpus"])
    assert found["prices"][0]["usd_per_hour"] == 1.25


def test_the_page_names_the_plan_and_what_binds() -> None:
    table = run(*COMMAND, "-q").stdout
    assert "colocated" in table and "What binds" in table and "--tensor-parallel-size" in table
    markdown = run(*COMMAND, "-q", "-f", "markdown", "--detail").stdout
    assert markdown.startswith("# ") and "TTFT, P95" in markdown


def test_nothing_feasible_exits_with_1_and_prints_json() -> None:
    result = run(*COMMAND, "--slo-tpot", "1ms", "-f", "json")
    assert result.exit_code == 1
    assert "physical bound" in json.loads(result.stdout)["infeasible_reason"]


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (("--tp", "1,x"), "--tp: 'x'"),
        (("--tp", "1,,2"), "--tp: '1,,2'"),
        (("--rate", "0"), "--rate: '0' is zero"),
        (("--price", "h100-sxm"), "GPU=USD_PER_HOUR"),
        (("--hardware", "h100-smx"), "did you mean"),
        (("--prefix-held", "store"), "there is no store"),
        (("--hit-rate", "0.5"), "no prompt has cached tokens"),
        (("--offload", "dram-pcie6"), "did you mean"),
    ],
)
def test_slips_are_named(extra: tuple[str, ...], said: str) -> None:
    result = run(*COMMAND, *extra)
    assert result.exit_code == 2 and said in result.output
