"""Steps of every packaged model, and verdicts for one model of each new kind of layer."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import pytest

from costmodel.data import Sourced
from costmodel.errors import InputError
from costmodel.families import packaged_models, read_model
from costmodel.inputs.hardware import Gpu, load_gpu
from costmodel.inputs.model import Model
from costmodel.memory.parallelism import Parallelism, allowed_tp
from costmodel.operators.catalogue import STREAMS
from costmodel.questions.recommend import ask_recommend
from costmodel.serving.instance import make_instance
from costmodel.serving.scenario import Scenario
from costmodel.serving.step import Step, analyse_step
from costmodel.serving.work import Chunk
from costmodel.workloads import load_workload

MODELS = packaged_models()
#: A prompt, a batch of decodes, both in one step.
STEPS: tuple[tuple[tuple[Chunk, ...], int], ...] = (
    ((Chunk(2048),), 0),
    ((), 8),
    ((Chunk(512, 1536),), 8),
)


#: Boards with fits of their own, boards that borrow some or all of them, and one whose L2 nobody states.
BOARDS = (
    "a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200-sxm", "a40", "rtx-4090", "rtx-pro-6000-blackwell", "l40s",
    "rtx-5090",
)  # fmt: skip
#: What sources leave open and a user may supply: the 16-bit peak of an RTX 5090 with sums in 32 bits.
SUPPLIED = {"rtx-5090": ("peak_bf16", 209.5e12)}


@lru_cache
def gpu(name: str) -> Gpu:
    found = load_gpu(name)
    if name not in SUPPLIED:
        return found
    key, value = SUPPLIED[name]
    given = {**found.values, key: Sourced(value, str(value), "the user")}
    return replace(found, values=given, absent={k: v for k, v in found.absent.items() if k != key})


def steps(model: Model, board: str, tp: int, dtype: str | None) -> list[Step]:
    kind = make_instance(model, gpu(board), Parallelism(tp), dtype=dtype)
    return [analyse_step(kind, chunks, batch=batch, context=4096.0 * batch) for chunks, batch in STEPS]


def check(step: Step) -> None:
    assert math.isfinite(step.time_s) and step.time_s >= step.bound_s > 0
    assert step.low_s <= step.time_s <= step.high_s
    for operator in step.operators:
        assert operator.time_s >= operator.bound_s >= 0 < operator.time_s, operator
        # streams may find all in L2; a module has nothing that must be besides its products and attention
        must = operator.kind not in STREAMS and not operator.kind.startswith("mla_module")
        assert not must or (operator.bound_s > 0 and operator.bytes > 0), operator
    assert math.fsum(operator.time_s for operator in step.operators) == pytest.approx(step.time_s, rel=1e-12)
    # the bound, counted on its own from the weights, has no work that the operators lack
    assert sum(operator.flop for operator in step.operators) >= step.flop * (1 - 1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_steps_lie_above_their_bounds(name: str) -> None:
    model = read_model(name)
    dtype = None if model.weight_dtype else "bf16"
    for board in BOARDS:
        degrees = {1, 8} if "nvlink_bandwidth" in gpu(board).values else {1}
        for tp in sorted(degrees & set(allowed_tp(model))):
            try:
                found = steps(model, board, tp, dtype)
            except InputError as error:
                # Ampere multiplies no fp8; nobody says at which rate these boards multiply it, fp16 or int8
                ampere = board in ("a100-sxm-80gb", "a40") and model.weight_dtype == "fp8"
                unsaid = board in ("rtx-pro-6000-blackwell", "rtx-5090")
                assert (ampere and "Ampere has no FP8" in str(error)) or (
                    unsaid and "has no peak_" in str(error)
                )
                continue
            for step in found:
                check(step)


def test_wide_models_take_longer_than_their_narrow_checkpoints() -> None:
    # decodes read weights: half or a quarter of the bytes, fewer seconds
    for wide, narrow in (
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B-FP8"),
        ("Qwen/Qwen3-32B", "Qwen/Qwen3-32B-AWQ"),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4"),
    ):
        times = [steps(read_model(name), "h100-sxm", 1, None)[1].time_s for name in (wide, narrow)]
        assert times[1] < times[0], narrow


VERDICTS = ("colocated", "chunked", "disaggregated", "deflected", "too_close_to_call", "none_stable")


@pytest.mark.parametrize(
    ("name", "board", "tp"),
    [
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "h100-sxm", 4),
        ("openai/gpt-oss-20b", "h100-sxm", 1),
        ("google/gemma-3-12b-it", "a100-sxm-80gb", 1),
        ("google/gemma-4-E2B-it", "a100-sxm-80gb", 1),
        ("ai21labs/AI21-Jamba-1.5-Mini", "h100-sxm", 4),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "h100-sxm", 2),
        ("deepseek-ai/DeepSeek-V3.2", "h200-sxm", 8),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "h100-sxm", 8),
        ("moonshotai/Kimi-VL-A3B-Instruct", "a100-sxm-80gb", 1),
        ("moonshotai/Kimi-Linear-48B-A3B-Instruct", "h100-sxm", 4),
    ],
)
def test_recommend_answers_for_every_kind_of_layer(name: str, board: str, tp: int) -> None:
    found = ask_recommend(Scenario(name, board, tp=tp), load_workload("lpld"), method="closed")
    assert found.verdict in VERDICTS
    if found.answered:
        assert found.margin is not None and found.margin >= 1 and math.isfinite(found.margin)
        assert any(result.stable for result in found.strategies)
    else:
        assert found.margin is None and found.margin_reason
        assert not any(result.stable for result in found.strategies)


INT8 = "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8"


def test_recommend_says_from_where_it_borrows() -> None:
    found = ask_recommend(Scenario(INT8, "a100-sxm-80gb"), load_workload("lpld"), method="closed")
    assert found.verdict in VERDICTS
    # its 8-bit products are the H100's: said with the count of what is borrowed, and where they were measured
    assert any("borrowed" in each and "h100-sxm" in each for each in found.about.assumptions)
    (source,) = (each for each in found.about.sources if each.startswith("gemm_fp8"))
    assert "h100-sxm" in source


@pytest.mark.parametrize("board", ["mi300x", "gaudi3", "tpu-v6e"])
def test_recommend_says_why_it_has_no_answer(board: str) -> None:
    with pytest.raises(InputError, match=f"no operator of {board}, or of a GPU of a generation near it"):
        ask_recommend(Scenario(INT8, board), load_workload("lpld"), method="closed")
