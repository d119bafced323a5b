"""Bands of steps, of TPOT and of the KV pool by hand: what counts of kinds, stacks and their errors."""

from __future__ import annotations

import math
from typing import Any

import pytest
from made_stacks import A100, H100, kind_under, stack_of

from costmodel.families import read_model
from costmodel.inputs.hardware import load_gpu
from costmodel.inputs.stack import ANY, Measured
from costmodel.memory.overheads import Overheads
from costmodel.memory.pool import Pool, given_pool
from costmodel.memory.weights import GpuWeights
from costmodel.serving.band import WHOLE, edges, spread
from costmodel.serving.instance import fit_of, make_instance
from costmodel.serving.step import analyse_step

SAW = ("Llama-3.1-8B bf16 TP1",)
ERRORS = {"tpot": Measured(0.02, 9, 0.04, 3), "ttft": Measured(0.1, 9, 0.2, 3)}


def test_spread_is_the_root_of_the_sum_of_squares_of_logarithms() -> None:
    assert spread(4.0, []) == 1.0
    assert spread(4.0, [5.0]) == spread(4.0, [3.2]) == pytest.approx(1.25, rel=1e-12)
    # 3 and 4 parts of a logarithm make 5
    assert spread(2.0, [2 * math.exp(0.03), 2 * math.exp(-0.04)]) == pytest.approx(math.exp(0.05), rel=1e-12)


def test_edges_without_a_stack() -> None:
    """1.75 times each kind's error, and e^(1.75 x 0.02) - 1 of the whole step; x 0.16 where there are experts."""
    kind = kind_under(None)
    found = edges(kind, ("gemm", "attention_mixed"))
    assert set(found) == {"gemm", "attention_mixed", WHOLE}
    assert found["gemm"] == pytest.approx(1.75 * 0.070, abs=1.75 * 5e-4)
    # mixed attention of an A100 is borrowed along no line of its own: 2.8 times 9.9 %
    assert found["attention_mixed"] == pytest.approx(1.75 * 2.8 * 0.099, abs=5e-3)
    assert 1 + found[WHOLE] == pytest.approx(math.exp(0.035), rel=1e-12)
    experts = make_instance(read_model("DeepSeek-V2-Lite"), load_gpu(A100))
    assert 1 + edges(experts, ())[WHOLE] == pytest.approx(math.exp(1.75 * 0.16), rel=1e-12)


def test_edges_under_a_stack_of_the_very_gpu_and_model() -> None:
    """Half of each kind's own error is left; the whole step has the stack's: e^(1.75 x 0.04) - 1."""
    kind = kind_under(stack_of(A100, errors=ERRORS, fitted_on=SAW, layer_latency=1e-5))
    found = edges(kind, ("gemm", "attention_mixed", "host_layers"))
    assert found["gemm"] == pytest.approx(1.75 * 0.070 / 2, abs=5e-4)
    assert found["attention_mixed"] == pytest.approx(
        1.75 * 0.099 / 2, abs=1e-3
    )  # as measured, not as borrowed
    assert "host_layers" not in found  # its error is that of the whole steps it was fitted to
    assert 1 + found[WHOLE] == pytest.approx(math.exp(1.75 * 0.04), rel=1e-12)
    assert 1 + edges(kind, (), "ttft")[WHOLE] == pytest.approx(math.exp(1.75 * 0.2), rel=1e-12)
    assert edges(kind, (), "tpot") == edges(kind, ())


@pytest.mark.parametrize(
    ("stack", "log"),
    [
        (stack_of(A100, errors=ERRORS, fitted_on=("Qwen3-8B bf16 TP1",)), 0.15),  # another model
        (stack_of(ANY, errors=ERRORS, fitted_on=SAW), 0.25),  # carrying it was not tried
        (stack_of(ANY, errors={"tpot": Measured(0.02, 9, 0.04, 3, carried_log=0.3)}, fitted_on=SAW), 0.3),
        (stack_of(A100, errors={"tpot": Measured(0.02, 9, versions_log=0.5)}, fitted_on=SAW, elsewhere=True), 0.5),
        (stack_of(A100, fitted_on=SAW, elsewhere=True), 0.25),  # nothing is known of it
    ],
    ids=["model", "any", "carried", "version", "unknown"],
)  # fmt: skip
def test_edges_under_a_stack_of_something_else(stack: Any, log: float) -> None:
    """Kinds count as without a stack, and the whole step with the error of carrying the stack there."""
    kind = kind_under(stack)
    found, plain = (
        edges(kind, ("gemm", "attention_mixed")),
        edges(kind_under(None), ("gemm", "attention_mixed")),
    )
    assert 1 + found.pop(WHOLE) == pytest.approx(math.exp(1.75 * log), rel=1e-12)
    assert found == {name: plain[name] for name in found}


def test_a_step_under_a_stack_by_hand() -> None:
    kind = kind_under(stack_of(A100, errors=ERRORS, fitted_on=SAW, layer_latency=1e-5))
    step = analyse_step(kind, batch=16, context=16 * 500.0)
    parts = [1.75 * 0.04]
    for name in {op.kind for op in step.operators} - {"host_layers"}:
        own = sum(op.time_s for op in step.operators if op.kind == name)
        parts.append(math.log1p(1.75 * fit_of(kind, name).held_out_mape / 2 * own / step.time_s))
    assert step.high_s == pytest.approx(step.time_s * math.exp(math.hypot(*parts)), rel=1e-12)
    assert step.low_s == pytest.approx(
        max(step.bound_s, step.time_s / math.exp(math.hypot(*parts))), rel=1e-12
    )


def test_a_band_does_not_reach_below_what_physics_allows() -> None:
    errors = {"tpot": Measured(0.5, 9, 1.0, 3)}
    step = analyse_step(
        kind_under(stack_of(H100, errors=errors, fitted_on=SAW), gpu=H100), batch=1, context=9.0
    )
    assert step.low_s == step.bound_s < step.time_s


def test_the_band_of_a_pool_by_hand() -> None:
    """1.75 x root of (0.17 % of 20 GB)^2 + (1.33 % of 3 GB)^2 + (3.8 % of 1 GB)^2: 34, 39.9 and 38 MB, 64.7 MB."""
    stage: Any = None  # of no account
    weights = GpuWeights(12e9, 8e9, 0.0, 0.0, 0.0, 0.0)
    extra = Overheads(3e9, 1e9, 5e8, (), ())
    pool = Pool(stage, 70e9, weights, extra, False, 46e9, ())
    assert weights.total_bytes == 20e9 and extra.activation_bytes == 3e9 and extra.non_torch_bytes == 1e9
    assert pool.off_bytes == pytest.approx(1.75 * math.sqrt(34**2 + 39.9**2 + 38**2) * 1e6, rel=1e-9)
    # bytes that were given are what they are
    assert given_pool(stage, 5e9).off_bytes == 0


def test_a_model_counts_by_its_layers_and_not_by_its_name() -> None:
    """The instruct model has the layers of the one that the stack saw: no model is another for its name."""
    saw = stack_of(A100, errors=ERRORS, fitted_on=SAW)
    same = make_instance(read_model("Llama-3.1-8B-Instruct"), load_gpu(A100), stack=saw)
    assert 1 + edges(same, ())[WHOLE] == pytest.approx(math.exp(1.75 * 0.04), rel=1e-12)


def test_prompts_of_a_stack_that_was_fitted_to_loops_count_as_without_one() -> None:
    """TPOT says nothing of them: kinds whole, and at least what operators alone are off."""
    stack = stack_of(A100, errors={"tpot": Measured(0.001, 9, 0.001, 3)}, fitted_on=SAW)
    kind, plain = kind_under(stack), kind_under(None)
    assert edges(kind, ("gemm",), "prefill") == pytest.approx(edges(plain, ("gemm",), "prefill"))
    steps = stack_of(A100, errors={"prefill": Measured(0.01, 9, 0.05, 3)}, fitted_on=SAW)
    assert 1 + edges(kind_under(steps), (), "prefill")[WHOLE] == pytest.approx(
        math.exp(1.75 * 0.05), rel=1e-12
    )
