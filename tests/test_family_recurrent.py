"""Recurrent mixers: hand counts of each kind, what tensor parallelism splits, states, and their products."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.families import read_model
from costmodel.families.config import Config
from costmodel.families.recurrent import (
    gated_delta_net,
    kimi_delta,
    lightning,
    mamba1,
    mamba2,
    read_state_dtype,
)
from costmodel.inputs.hardware import load_gpu
from costmodel.inputs.model import Recurrent
from costmodel.inputs.tensor import total_size
from costmodel.inputs.weights import recurrent_products
from costmodel.memory.kv import kv_bytes, state_bytes_per_gpu
from costmodel.memory.parallelism import Parallelism, allowed_tp, check_tp
from costmodel.serving.instance import InstanceKind, make_instance
from costmodel.serving.mixing import chunk_loads
from costmodel.serving.work import Chunk, token_loads

WIDE: dict[str, Any] = {"conv_bias": True, "proj_bias": False, "state_dtype": None}
DELTA = gated_delta_net(8, (2, 4), (3, 5), 4, fused=True, state_dtype=None)
DELTA_APART = gated_delta_net(8, (2, 4), (3, 5), 4, fused=False, state_dtype="fp32")
ONE = mamba1(8, 16, 3, 4, 2, **WIDE)
TWO = mamba2(8, 4, 3, 2, 5, 4, **WIDE)
TWO_SHARED = mamba2(8, 4, 3, 1, 5, 4, **WIDE)
KDA = kimi_delta(8, 2, 3, 4)
LIGHTNING = lightning(8, 2, 3)


def kind_of(model: str, tp: int) -> InstanceKind:
    return make_instance(read_model(model), load_gpu("h100-sxm"), Parallelism(tp), dtype="bf16")


@pytest.mark.parametrize(
    ("mixer", "parameters"),
    [
        # qkvz 52x8, ba 8x8, convolution 32x4, dt_bias 4, A_log 4, norm 5, out 8x20
        (DELTA, 416 + 64 + 128 + 4 + 4 + 5 + 160),
        (DELTA_APART, 416 + 64 + 128 + 4 + 4 + 5 + 160),
        # in 32x8, convolution 16x4 + 16, x 8x16, dt 16x2 + 16, A 16x3, D 16, norms 2 + 3 + 3, out 8x16
        (ONE, 256 + 80 + 128 + 48 + 48 + 16 + 8 + 128),
        # in (2x12 + 2x2x5 + 4)x8, convolution 32x4 + 32, A_log, D, dt_bias 4 each, norm 12, out 8x12
        (TWO, 384 + 160 + 12 + 12 + 96),
        # in (2x12 + 2x5 + 4)x8, convolution 22x4 + 22, the rest as before
        (TWO_SHARED, 304 + 110 + 12 + 12 + 96),
        # q, k, v 3x6x8, b 2x8, f_a and g_a 3x8, f_b and g_b 6x3, convolution 18x4, dt_bias 6, A 2, norm 3, o 8x6
        (KDA, 144 + 16 + 48 + 36 + 72 + 6 + 2 + 3 + 48),
        # qkv 18x8, gate 6x8, norm 6, out 8x6
        (LIGHTNING, 144 + 48 + 6 + 48),
    ],
)
def test_parameters_by_hand(mixer: Recurrent, parameters: int) -> None:
    assert total_size(mixer.tensors) == parameters


@pytest.mark.parametrize(
    ("mixer", "on_each_of_two"),
    [
        (DELTA, (781 - 5) // 2 + 5),  # the norm is whole
        (DELTA_APART, (781 - 5) // 2 + 5),
        (ONE, (712 - 8) // 2 + 8),  # the norms are whole
        (TWO, 664 // 2),
        (TWO_SHARED, (534 - 80 - 50) // 2 + 80 + 50),  # B and C of the only group: 10x8 and 10x5, whole
        (KDA, (375 - 51) // 2 + 51),  # f_a, g_a and norm: 24 + 24 + 3, whole
        (LIGHTNING, 246 // 2),
    ],
)
def test_what_each_of_two_gpus_holds(mixer: Recurrent, on_each_of_two: int) -> None:
    assert total_size(tuple(tensor.on_gpu(2) for tensor in mixer.tensors)) == on_each_of_two


@pytest.mark.parametrize(
    ("mixer", "state", "convolution"),
    [
        (DELTA, 4 * 3 * 5, 3 * 32),
        (ONE, 16 * 3, 3 * 16),
        (TWO, 4 * 5 * 3, 3 * 32),
        (KDA, 2 * 3 * 3, 3 * 18),
        (LIGHTNING, 2 * 3 * 3, 0),
    ],
)
def test_state_of_a_sequence(mixer: Recurrent, state: int, convolution: int) -> None:
    assert (mixer.state_elements, mixer.conv_elements) == (state, convolution)


def test_state_has_its_own_dtype_and_is_shared_among_gpus() -> None:
    # 60 elements of 4 bytes and 96 of the convolution of 2; a half on each of two GPUs
    assert state_bytes_per_gpu(DELTA_APART, 2, 1) == 60 * 4 + 96 * 2
    assert state_bytes_per_gpu(DELTA_APART, 2, 2) == (60 * 4 + 96 * 2) // 2
    assert KDA.state_dtype == "fp32"


def test_convolutions_decays_and_norms_are_no_products() -> None:
    names = {tensor.module.rsplit(".", 1)[-1] for tensor in recurrent_products(TWO)}
    assert names == {"in_proj", "out_proj"}


def test_state_dtype_is_read_from_the_configuration() -> None:
    def read(**fields: object) -> str | None:
        config = Config(fields, "c.json", "m")
        found = read_state_dtype(config, "mamba_ssm_dtype")
        config.finish()
        return found

    assert read(mamba_ssm_dtype="float32") == "fp32"
    assert read(mamba_ssm_dtype="auto") is None
    assert read() is None
    with pytest.raises(InputError, match="did you mean 'float32'"):
        read(mamba_ssm_dtype="float23")


def test_tensor_parallelism_must_divide_groups_of_heads() -> None:
    # 32 query heads and experts of width 1,856 = 64 x 29 would allow 16 and 32; 8 groups of heads do not
    nemotron = read_model("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16")
    assert allowed_tp(nemotron) == (1, 2, 4, 8)
    with pytest.raises(InputError, match="8 Mamba-2 groups of heads"):
        check_tp(nemotron, 16)


def test_the_only_group_of_heads_does_not_limit_tensor_parallelism() -> None:
    assert 4 in allowed_tp(read_model("ibm-granite/granite-4.0-h-tiny"))


@pytest.mark.parametrize(
    ("name", "kv_per_token", "state"),
    [
        # 12 layers x 2 x 2 x 256 x 2, state 36 x (32x128x128 + 3x8192) x 2
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", 24_576, 39_518_208),
        # 4 x 2 x 8 x 128 x 2, state 28 x (8192x16 + 3x8192) x 2
        ("ai21labs/AI21-Jamba-1.5-Mini", 16_384, 8_716_288),
    ],
)
def test_kv_of_hybrids_is_a_slope_and_a_constant(name: str, kv_per_token: int, state: int) -> None:
    held = kv_bytes(read_model(name), 1000, "bf16")
    assert held.kv_bytes_per_token == held.kv_bytes_per_token_all_layers == kv_per_token
    assert held.fixed_bytes_per_sequence == state
    assert held.kv_bytes == 1000 * kv_per_token + state


def test_an_engine_multiplies_fused_inputs_once() -> None:
    # Granite 4: z, x, B, C and dt of one matrix, of which B and C are whole on both GPUs:
    # (2 x 3,072 + 48) / 2 + 2 x 128 outputs of 1,536 inputs
    kind = kind_of("ibm-granite/granite-4.0-h-tiny", 2)
    inputs = [load for load in token_loads(kind, 100, 0) if load.name == "in_proj"]
    assert [load.flop for load in inputs] == [2 * 100 * (3096 + 256) * 1536]


def test_mamba_1_multiplies_tokens_with_its_state_alone() -> None:
    # Jamba, one layer, 1,000 tokens: 2 multiply-adds with each of 8,192 x 16 elements, none between tokens
    kind = kind_of("ai21labs/AI21-Jamba-1.5-Mini", 8)
    loads = chunk_loads(kind, Chunk(1000, 0))
    scans = [load for load in loads if load.name == "state scan"]
    assert [(load.runs, load.flop) for load in scans] == [(28, 2 * 1000 * 2 * 8192 * 16 / 8)]


def test_lightning_attention_has_no_convolution() -> None:
    names = {load.name for load in token_loads(kind_of("MiniMaxAI/MiniMax-Text-01", 8), 100, 0)}
    assert {"qkv_proj", "output_gate", "out_proj"} <= names
    assert "convolution" not in names
