"""Bands: one factor per operator kind, shared by the strategies, combined by root-sum-square."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from costmodel.decision.bands import COPY, Bands, errors, perturbed, spread, used_kinds
from costmodel.evaluate.closed import ClosedForm
from costmodel.families import read_model
from costmodel.inputs.hardware import load_gpu
from costmodel.inputs.workload import Arrivals, Lengths, Slo, Workload
from costmodel.memory.parallelism import Parallelism
from costmodel.serving.band import WHOLE
from costmodel.serving.instance import make_instance
from costmodel.serving.scenario import Scenario
from costmodel.serving.strategies import CHUNKED, COLOCATED, DISAGGREGATED


@pytest.fixture(scope="module")
def case(bench: Any) -> tuple[Any, Workload, Any]:
    """A deployment with a measured connector, a moderate load, and step times."""
    deployment = bench.deployment("2P2D")
    workload = Workload("own", Arrivals(30.0), Lengths(600, 0.6), 0, Lengths(20, 0.5), Slo(), "here")
    return deployment, workload, bench.times(deployment)


def test_spread_by_hand() -> None:
    assert spread(2.0, []) == 1
    assert spread(2.0, [3.0]) == pytest.approx(1.5) == spread(3.0, [2.0])
    # ln 1.5 and ln 2: root of the sum of squares
    expected = math.exp(math.hypot(math.log(1.5), math.log(2)))
    assert spread(2.0, [3.0, 1.0]) == pytest.approx(expected)


def test_only_kinds_that_steps_run_count() -> None:
    def kinds(model: str, gpu: str, **options: Any) -> set[str]:
        return set(used_kinds(make_instance(read_model(model), load_gpu(gpu), **options)))

    streams = {"norm", "rope", "activation", "embedding"}
    dense = {"gemm", "attention_prefill", "attention_decode", "attention_mixed"} | streams
    assert kinds("Qwen3-0.6B", "a100-sxm-80gb") == dense
    assert kinds("Qwen3-0.6B", "a100-sxm-80gb", parallelism=Parallelism(2)) == dense | {"custom_all_reduce"}
    latent = kinds("deepseek-ai/DeepSeek-V2-Lite", "a100-sxm-80gb")
    modules = {"mla_prefill", "mla_decode", "mla_module", "mla_module_decode"}
    assert latent == {"gemm", "moe", "norm", "activation", "embedding"} | modules
    assert "gemm_fp8" in kinds("Qwen3-0.6B", "h100-sxm", dtype="fp8")


def test_errors_are_the_held_out_ones_and_borrowed_fits_count_with_more() -> None:
    """1.75 times the mean error is what holds four in five; e^(1.75 x 0.02) - 1 = 3.56 % of the whole step."""
    own = Scenario("Qwen3-0.6B", "h100-sxm").deployment()
    fits = own.prefill.efficiency.operators
    expected = {name: 1.75 * fits[name].error for name in used_kinds(own.prefill)}
    found = errors(own)
    assert found.pop(COPY) == pytest.approx(1.75 * own.path.connector.held_out_mape)
    assert found.pop(WHOLE) == pytest.approx(0.0356, abs=5e-5)
    assert found == pytest.approx(expected)
    assert found["gemm"] == pytest.approx(1.75 * fits["gemm"].held_out_mape)
    # an H200 has no fits of its own: the H100's, with what they were off by on the A100
    borrowed = errors(Scenario("Qwen3-0.6B", "h200-sxm").deployment())
    assert borrowed["gemm"] == pytest.approx(1.75 * (fits["gemm"].carried_mape or 0))
    # the A100's MLA decode is the H100's, one fit among its own
    latent = Scenario("deepseek-ai/DeepSeek-V2-Lite", "a100-sxm-80gb").deployment()
    fits, found = latent.prefill.efficiency.operators, errors(latent)
    assert found["mla_decode"] == pytest.approx(1.75 * 2.8 * fits["mla_decode"].held_out_mape)
    assert found["moe"] == pytest.approx(1.75 * fits["moe"].held_out_mape)
    # two GPUs: the larger of both errors
    both = errors(Scenario("Qwen3-0.6B", "a100-sxm-80gb", decode_hardware="h100-sxm").deployment())
    single = errors(Scenario("Qwen3-0.6B", "a100-sxm-80gb").deployment())
    for name, error in both.items():
        assert error == max(single[name], errors(own)[name])


def test_each_kind_moves_alone_and_moves_every_strategy(case: Any) -> None:
    deployment, workload, times = case
    bands = Bands(deployment, workload, times)
    assert bands.kinds == ["", *errors(deployment)]
    for strategy in (COLOCATED, DISAGGREGATED):
        delays = bands.delays(strategy)
        assert delays is not None and len(delays) == len(bands.kinds)
        for name, delay in zip(bands.kinds[1:], delays[1:]):
            if name == COPY:
                path = replace(deployment.path, time_factor=1 + errors(deployment)[COPY])
                form = ClosedForm(replace(deployment, path=path), workload, times, 16)
                assert (delay == delays[0]) == strategy.pooled  # pooled strategies copy nothing
            else:
                slower = {}
                for kind, step in times.items():
                    moved = kind.efficiency.operators if name == WHOLE else (name,)
                    slower[kind] = step.with_factors(dict.fromkeys(moved, 1 + errors(deployment)[name]))
                form = ClosedForm(deployment, workload, slower, 16)
                # whole prompts never share a kernel call with decodes
                assert delay == delays[0] if name == "attention_mixed" else delay > delays[0]
            assert delay == form.means(strategy).delay_s
    assert {WHOLE, COPY} <= set(bands.kinds)


def test_what_all_share_cancels_in_the_ratio(case: Any) -> None:
    """All steps, copies and gaps slower by a half: delays grow by a half and their ratio stays."""
    deployment, workload, times = case
    factor = 1.5
    slower = {k: t.with_factors(dict.fromkeys(k.efficiency.operators, factor)) for k, t in times.items()}
    path = replace(deployment.path, time_factor=factor)
    before = ClosedForm(deployment, workload, times)
    after = ClosedForm(replace(deployment, path=path), workload.at_rate(workload.rate / factor), slower)
    ratios = []
    for form in (before, after):
        first, second = (form.means(s).delay_s for s in (COLOCATED, DISAGGREGATED))
        assert first is not None and second is not None
        ratios.append(first / second)
    assert after.means(COLOCATED).delay_s == pytest.approx(
        factor * (before.means(COLOCATED).delay_s or 0), rel=1e-6
    )
    assert spread(ratios[0], ratios[1:]) == pytest.approx(1, abs=1e-6)


def test_shared_errors_move_the_ratio_less_than_each_delay(case: Any) -> None:
    bands = Bands(*case)
    first, second = bands.delays(COLOCATED), bands.delays(CHUNKED)
    assert first is not None and second is not None
    # kinds that both run alike; chunks beside decodes run another attention kernel, whose error is its own
    shared = [0, *(bands.kinds.index(kind) for kind in ("gemm", "norm", "activation"))]
    ratios = [first[place] / second[place] for place in shared]
    of_each = [spread(v[0], [v[place] for place in shared[1:]]) for v in (first, second)]
    assert 1 < spread(ratios[0], ratios[1:]) < min(of_each)
    assert bands.widest(first) == max(
        bands.kinds[1:], key=lambda kind: abs(math.log(first[bands.kinds.index(kind)] / first[0]))
    )


def test_rates_hold_the_level_of_what_binds(case: Any) -> None:
    deployment, workload, times = case
    bands = Bands(deployment, workload, times)
    goodput = 30.0
    for binding in ("ttft", "tpot", None):
        rates = bands.rates(DISAGGREGATED, goodput, binding)
        assert rates is not None and rates[0] == goodput
        for rate, form in zip(rates[1:], bands.forms[1:]):
            assert rate <= goodput * 1.001  # slower steps carry no more
            one, moved = bands.forms[0](goodput).means(DISAGGREGATED), form(rate).means(DISAGGREGATED)
            pairs = {
                "ttft": (one.ttft_s, moved.ttft_s),
                "tpot": (one.tpot_s, moved.tpot_s),
                None: (one.utilisation, moved.utilisation),
            }
            level, reached = pairs[binding]
            if rate > goodput / 4 * 1.01:  # the lower end of the bracket: nothing carries the level
                assert reached == pytest.approx(level, rel=0.01)
    assert bands.rates(DISAGGREGATED, 0.0, "ttft") is None


def test_no_band_where_the_load_varies(case: Any) -> None:
    deployment, workload, times = case
    bursty = replace(workload, arrivals=Arrivals(30.0, on_share=0.5, on_period_s=5.0))
    bands = Bands(deployment, bursty, times)
    assert bands.delays(COLOCATED) is None and bands.factor(COLOCATED, "ttft_s") is None
    assert bands.rates(COLOCATED, 20.0, "ttft") is None
    factor = Bands(deployment, workload, times).factor(COLOCATED, "ttft_s")
    assert factor is not None and factor > 1
    assert len(perturbed(deployment, times)) == len(errors(deployment))
