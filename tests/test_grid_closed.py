"""The closed form over arrays: at every point what the scalar one says there, and its verdict."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from costmodel.decision.at_once import AtOnce
from costmodel.errors import InputError, NoAnswerError
from costmodel.evaluate.closed import Means
from costmodel.grid.closed import STRATEGIES, ClosedGrid, GridAnswer
from costmodel.grid.figures import REASONS
from costmodel.grid.points import GridPoints
from costmodel.inputs.workload import Arrivals, Lengths, Request, Slo, Workload
from costmodel.serving.deployment import Deployment, Topology
from costmodel.serving.scenario import Scenario
from costmodel.serving.step import step_times
from costmodel.serving.strategies import Rule, RuleKind, deflected
from costmodel.workloads import load_workload

DEEPSEEK = Scenario("deepseek-ai/DeepSeek-V2-Lite", hardware="a100-sxm-80gb")
LLAMA = Scenario("Llama-3.1-8B", hardware="h100-sxm")
#: Relative difference of figures; accounts may also differ by 1e-11 of a request alone.
CLOSE = 1e-9


def fixed(isl: float, osl: float, cached: float, arrivals: Arrivals) -> Workload:
    """Prompts and outputs of one length."""
    prompt, output = Lengths(isl - cached, 0.0, 1, 10**7), Lengths(osl, 0.0, 1, 10**7)
    return Workload("fixed", arrivals, prompt, int(cached), output, Slo(), "here")


def drawn(count: int, seed: int, rates: tuple[float, float], shortest: int = 64) -> dict[str, Any]:
    """Random points, from idle to far overloaded."""
    draw = np.random.default_rng(seed)

    def between(low: float, high: float) -> Any:
        return np.exp(draw.uniform(math.log(low), math.log(high), count))

    return {
        "rate": between(*rates),
        "cv": draw.choice([0.0, 0.5, 1.0, 1.0, 2.0, 3.0], count),
        "prefill": draw.integers(1, 6, count),
        "decode": draw.integers(1, 6, count),
        "token_budget": np.round(between(shortest, 16384)),
        "max_seqs": np.round(between(2, 512)),
        "nics": draw.integers(1, 9, count),
        "control_s": draw.choice([0.0, 0.01, 0.1], count),
        "threshold": np.round(between(1, 30000)),
    }


def lengths(count: int, seed: int) -> dict[str, Any]:
    """Random lengths; half of the prompts have cached tokens."""
    draw = np.random.default_rng(seed)
    isl = np.round(np.exp(draw.uniform(math.log(16), math.log(30000), count)))
    osl = np.round(np.exp(draw.uniform(0, math.log(2000), count)))
    return {
        "isl": isl,
        "osl": osl,
        "cached": np.floor(isl * 0.9 * draw.random(count) * draw.integers(0, 2, count)),
    }


def scalar(
    deployment: Deployment, times: Any, workload: Workload, at: dict[str, float]
) -> list[Means | None]:
    """Means of the scalar closed form; None where a request fits no pool."""
    there = replace(
        deployment,
        topology=Topology(int(at["prefill"]), int(at["decode"])),
        settings=replace(
            deployment.settings, token_budget=int(at["token_budget"]), max_seqs=int(at["max_seqs"])
        ),
        path=replace(deployment.path, nics=int(at["nics"]), control_s=float(at["control_s"])),
    )
    once = AtOnce(there, workload, times)
    rule = deflected(Rule(RuleKind.THRESHOLD, threshold=int(at["threshold"])))
    found: list[Means | None] = []
    for strategy in (*STRATEGIES[:3], rule):
        try:
            found.append(once.means(strategy))
        except NoAnswerError:
            found.append(None)
    return found


def compared(answer: GridAnswer, point: int, means: list[Means | None]) -> list[int]:
    """Check a point against the scalar closed form; return the reasons of the strategies."""
    for found, wanted in zip(answer.strategies, means):
        said = REASONS[found.reason[point]]
        if wanted is None:
            assert "fits no empty KV pool" in said and math.isnan(found.mean_delay_s[point])
            continue
        assert found.utilisation[point] == pytest.approx(wanted.utilisation, rel=CLOSE)
        assert found.stable[point] == wanted.stable
        assert found.local_share[point] == pytest.approx(wanted.local_share, abs=1e-15)
        assert answer.ideal_s[point] == pytest.approx(wanted.ideal_s, rel=CLOSE)
        if wanted.accounts is None or wanted.delay_s is None:
            assert wanted.reason is not None and math.isnan(found.mean_delay_s[point])
            assert wanted.reason.split()[:3] == said.split()[:3]
            continue
        assert said == ""
        alone = 1e-11 * wanted.ideal_s
        for name, value in wanted.accounts.items():
            assert found.accounts[name][point] == pytest.approx(value, rel=CLOSE, abs=alone), name
        assert found.mean_delay_s[point] == pytest.approx(wanted.delay_s, rel=CLOSE, abs=alone)
        assert found.ttft_mean_s[point] == pytest.approx(wanted.ttft_s, rel=CLOSE)
        if wanted.tpot_s is None:
            assert math.isnan(found.tpot_mean_s[point])
        else:
            assert found.tpot_mean_s[point] == pytest.approx(wanted.tpot_s, rel=CLOSE)
    best, second, margin = verdict(means)
    assert (answer.best[point], answer.runner_up[point]) == (best, second)
    assert answer.margin[point] == pytest.approx(margin, rel=1e-8, nan_ok=True)
    return [int(found.reason[point]) for found in answer.strategies]


def verdict(means: list[Means | None]) -> tuple[int, int, float]:
    """The least mean delay, the second, and their ratio: by sorting."""
    scores = sorted(
        (one.delay_s, place)
        for place, one in enumerate(means)
        if one is not None and one.delay_s is not None and not (place == 3 and one.local_share == 0)
    )
    if not scores:
        return -1, -1, math.nan
    if len(scores) == 1:
        return scores[0][1], -1, math.nan
    margin = scores[1][0] / scores[0][0] if scores[0][0] > 1e-9 else math.nan
    return scores[0][1], scores[1][1], margin


def check(
    scenario: Scenario, points: dict[str, Any], workload: Workload | None, strata: int = 128
) -> Counter[tuple[int, int]]:
    """Compare every point; return how often each strategy had each reason."""
    deployment = scenario.deployment()
    times = step_times(deployment.kinds)
    grid = ClosedGrid(deployment, times, points=strata)
    answer = grid.evaluate(GridPoints(**points, workload=workload))
    met: Counter[tuple[int, int]] = Counter()
    for point in range(len(answer.best)):
        at = {name: float(values[point]) for name, values in points.items()}
        arrivals = Arrivals(at["rate"], at["cv"])
        there = fixed(at["isl"], at["osl"], at["cached"], arrivals) if workload is None else workload
        if workload is not None:
            there = replace(workload, arrivals=replace(workload.arrivals, rate=at["rate"], cv=at["cv"]))
        reasons = compared(answer, point, scalar(deployment, times, there, at))
        met.update(enumerate(reasons))
    return met


@pytest.mark.parametrize("scenario", [DEEPSEEK, LLAMA], ids=["latents", "mixed kernels"])
def test_points_of_fixed_lengths_are_those_of_the_scalar_closed_form(scenario: Scenario) -> None:
    count = 80
    points = drawn(count, 1, (1.0, 20.0), 200) | lengths(count, 2)
    work = (points["isl"] - points["cached"]) * 5e-5 + points["osl"] * 1e-3 + 0.02
    points["rate"] *= (points["prefill"] + points["decode"]) / work / 20
    points["threshold"] = np.where(np.arange(count) % 2, points["threshold"], points["isl"] + 1)
    met = check(scenario, points, None)
    assert all(met[place, 0] > 15 for place in range(4))  # stable,
    assert met[0, 1] and met[1, 1] and met[2, 2] and met[2, 3] and met[3, 3]  # and overloaded in every pool


@pytest.mark.parametrize(("name", "rates"), [("hphd", (0.5, 8.0)), ("lpld", (2.0, 40.0))])
@pytest.mark.parametrize("scenario", [DEEPSEEK, LLAMA], ids=["latents", "mixed kernels"])
def test_points_of_spread_lengths_are_those_of_the_scalar_closed_form(
    scenario: Scenario, name: str, rates: tuple[float, float]
) -> None:
    met = check(scenario, drawn(10, 3, rates, 300), load_workload(name))
    assert all(met[place, 0] for place in range(4))


@pytest.mark.parametrize(
    "scenario",
    [
        replace(LLAMA, decode_hardware="a100-sxm-80gb", overlap="layerwise"),
        replace(DEEPSEEK, settings=replace(DEEPSEEK.settings, first_token="prefill", routing="round-robin")),
        replace(DEEPSEEK, settings=replace(DEEPSEEK.settings, first_token="recompute"), tp=2),
        replace(LLAMA, stack="splitwise-2023"),
        replace(LLAMA, hardware="a100-sxm-40gb", model="gpt-oss-20b"),
    ],
    ids=["unlike pools", "first token from prefill, in turns", "recomputed", "a slow host", "windows"],
)
def test_other_deployments_are_those_of_the_scalar_closed_form(scenario: Scenario) -> None:
    count = 16
    points = drawn(count, 5, (0.3, 12.0), 300)
    assert check(scenario, points, load_workload("lphd"), strata=128)[2, 0]
    points |= lengths(count, 6)
    assert check(scenario, points, None)[0, 0]


def test_a_trace_counts_by_its_typical_requests_and_is_refused_where_it_varies() -> None:
    draw = np.random.default_rng(7)
    requests = tuple(
        Request(float(i), int(n), int(n) // 3, int(o))
        for i, n, o in zip(range(60), draw.integers(20, 9000, 60), draw.integers(1, 300, 60))
    )
    trace = replace(load_workload("lpld"), requests=requests, peak=0.9, uncached=None, output=None)
    points = drawn(8, 8, (0.5, 12.0), 300)
    met = check(DEEPSEEK, points, trace)
    assert met[0, 5] and met[0, 0]
    short = check(DEEPSEEK, points, replace(trace, peak=math.inf))
    assert short[0, 6] and not short[0, 0]
    bursty = replace(load_workload("bursty"))
    assert bursty.arrivals.bursty
    assert check(DEEPSEEK, points, bursty)[0, 5]


def test_a_request_that_no_pool_holds_has_no_means() -> None:
    points = drawn(4, 9, (0.01, 0.02)) | {"isl": np.array([10**6, 10**6, 4000, 4000]), "osl": np.full(4, 20)}
    points["cached"] = np.zeros(4)
    assert check(LLAMA, points, None) == {(place, code): 2 for place in range(4) for code in (0, 7)}


def test_prefixes_that_one_side_lacks_are_refused() -> None:
    there = replace(DEEPSEEK, settings=replace(DEEPSEEK.settings, prefix_held="prefill")).deployment()
    grid = ClosedGrid(there)
    assert grid.evaluate(GridPoints(rate=1.0, isl=200, osl=10)).best[0] >= 0
    with pytest.raises(InputError, match="cached tokens of a grid lie on both sides, not prefill"):
        grid.evaluate(GridPoints(rate=1.0, isl=200, osl=10, cached=[0, 10]))


# --- thresholds -----------------------------------------------------------------------------------------------


def test_without_a_threshold_the_best_of_four_shares_is_kept() -> None:
    grid, workload = ClosedGrid(DEEPSEEK.deployment()), load_workload("lpld")
    rates = np.linspace(2, 100, 12)
    answer = grid.evaluate(GridPoints(rate=rates, workload=workload))
    sizes = sorted(request.uncached_tokens for request in workload.typical())
    tried = [sizes[24 * quarter // 4 - 1] + 1 for quarter in (1, 2, 3, 4)]
    each = [
        grid.evaluate(GridPoints(rate=rates, workload=workload, threshold=n)).strategies[3] for n in tried
    ]
    delays = np.array([one.mean_delay_s for one in each])
    kept = answer.strategies[3]
    some = ~np.isnan(delays).all(0)
    assert some.sum() >= 5 and not some.all()
    assert kept.mean_delay_s[some] == pytest.approx(np.nanmin(delays[:, some], axis=0), rel=1e-15)
    assert (answer.threshold[some] == np.array(tried)[np.nanargmin(delays[:, some], axis=0)]).all()
    assert len(set(answer.threshold[some])) > 1
    used = np.array([one.utilisation for one in each])[:, ~some]
    assert kept.utilisation[~some] == pytest.approx(used.min(0), rel=1e-15)


def test_a_threshold_may_be_given_at_some_points_only() -> None:
    grid, workload = ClosedGrid(DEEPSEEK.deployment()), load_workload("hphd")
    both = grid.evaluate(GridPoints(threshold=[3000, math.nan], workload=workload))
    apart = [grid.evaluate(GridPoints(threshold=n, workload=workload)) for n in (3000, None)]
    assert both.threshold.tolist() == [one.threshold[0] for one in apart] and both.threshold[0] == 3000
    assert both.margin.tolist() == [one.margin[0] for one in apart]


def test_a_deflected_strategy_that_keeps_nothing_is_plain_disaggregation_and_no_rival() -> None:
    answer = ClosedGrid(DEEPSEEK.deployment()).evaluate(
        GridPoints(threshold=0, rate=1.0, workload=load_workload("hphd"))
    )
    plain, deflecting = answer.strategies[2:]
    assert deflecting.mean_delay_s == plain.mean_delay_s and deflecting.local_share == 0
    assert 3 not in (answer.best[0], answer.runner_up[0])


# --- points ---------------------------------------------------------------------------------------------------


def test_points_are_broadcast_and_blocks_join() -> None:
    grid = ClosedGrid(DEEPSEEK.deployment())
    rate = np.linspace(0.1, 4, 3000)
    many = grid.evaluate(GridPoints(rate=rate[:, None], cv=[1.0, 2.0], isl=2000, osl=100))
    assert many.best.shape == (6000,)
    for place in (0, 4095, 4096, 5999):
        one = grid.evaluate(GridPoints(rate=rate[place // 2], cv=1.0 + place % 2, isl=2000, osl=100))
        assert one.margin[0] == pytest.approx(many.margin[place], rel=1e-12, nan_ok=True)
        for a, b in zip(one.strategies, many.strategies):
            assert a.mean_delay_s[0] == pytest.approx(b.mean_delay_s[place], rel=1e-12, nan_ok=True)


def test_a_grid_of_no_points_has_no_answers() -> None:
    answer = ClosedGrid(DEEPSEEK.deployment()).evaluate(GridPoints(rate=[], isl=2000, osl=100))
    assert answer.margin.shape == answer.strategies[3].mean_delay_s.shape == (0,)


def test_lengths_may_replace_one_distribution_of_a_workload() -> None:
    deployment, workload = DEEPSEEK.deployment(), load_workload("hphd")
    answer = ClosedGrid(deployment).evaluate(
        GridPoints(rate=2.0, isl=[500, 5000], cached=100, workload=workload)
    )
    for place, uncached in enumerate((400, 4900)):
        there = replace(
            workload.at_rate(2.0), uncached=Lengths(uncached, 0.0), cached_tokens=100, requests=()
        )
        apart = ClosedGrid(deployment).evaluate(GridPoints(workload=there))
        assert answer.margin[place] == pytest.approx(apart.margin[0], rel=1e-12)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"rate": [1.0, 0.0]}, "rate of a grid is a finite number above 0, not 0"),
        ({"cv": -1.0}, "cv of a grid is a finite number, not negative, not -1"),
        ({"isl": 10.5}, "isl of a grid is a whole number from 1 to 10,000,000, not 10.5"),
        ({"prefill": 0}, "prefill of a grid is a whole number from 1 to 4,096, not 0"),
        (
            {"threshold": [math.nan, -1]},
            "threshold of a grid is a whole number from 0 to 1,000,000,000, not -1",
        ),
        ({"cached": 200}, "leaves a token of each prompt to compute: 200 of 200 are cached"),
        ({"isl": None}, "a grid without a workload needs isl"),
        ({"control_s": math.inf}, "control_s of a grid is a finite number, not negative, not inf"),
    ],
)
def test_values_out_of_range_are_named(wrong: dict[str, Any], said: str) -> None:
    given = {"rate": 1.0, "isl": 200, "osl": 10} | wrong
    with pytest.raises(InputError, match=said):
        ClosedGrid(DEEPSEEK.deployment()).evaluate(GridPoints(**given))
