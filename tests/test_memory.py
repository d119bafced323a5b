"""KV pools of instances as vLLM sizes them, by hand: weights, what the engine keeps, bytes of a sequence.

Unless a test says otherwise: vLLM 0.19.0 at its defaults. On an A100 that is 0.9 of 79.25 GiB, 256 sequences
and 2,048 tokens a step, on an H100 0.9 of 79.19 GiB, 1,024 and 8,192. Coefficients are those of
hardware/engines/vllm.toml: 14.47 bytes a sampled logit, 2.321 a hidden element of every token, 0.049 GiB
besides; inside a layer 8.4 bytes a hidden element and 6 one of the feed-forward block; 0.25 GiB outside torch
on one GPU, 2.07 on two, 2.13 on four.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from costmodel.errors import DoesNotFitError
from costmodel.families import read_model
from costmodel.inputs.hardware import load_gpu
from costmodel.memory.parallelism import Parallelism
from costmodel.memory.settings import EngineSettings
from costmodel.serving.instance import InstanceKind, make_instance
from costmodel.serving.memory import kv_pool

MIB, GIB = 1024**2, 1024**3
A100, H100 = 0.9 * 79.25 * GIB, 0.9 * 79.19 * GIB
LITE = "deepseek-ai/DeepSeek-V2-Lite"

# DeepSeek-V2-Lite in bf16: 15,706,484,224 weights; a 16-bit copy of each of 27 expansions of 4096 x 512;
# 163,840 positions x 64 of the rotary table. Rounding: 85.5 MiB of gate and up become 86, 27 less one shared
# down-projections of 11 MiB become 12; 42.75 MiB leave more than 1 MiB, which is split off and used.
LITE_WEIGHTS = 31_412_968_448 + 27 * 4 * MIB + 163_840 * 64 * 2 + MIB // 2 + 26 * MIB
# Logits of 256 x 102,400; 2,048 tokens of 2,048; 6 experts of 1,408 a token, gate and up, then the product.
LITE_ACTIVATION = 256 * 102_400 * 14.47 + 2048 * 2048 * 2.321 + 0.049 * GIB + 2048 * 6 * (2 * 1408 + 1408) * 2


def kind_of(model: str, gpu: str = "a100-sxm-80gb", tp: int = 1, dtype: str | None = None) -> InstanceKind:
    return make_instance(read_model(model), load_gpu(gpu), Parallelism(tp), dtype=dtype)


def test_pool_is_what_weights_and_the_engine_leave() -> None:
    pool = kv_pool(kind_of(LITE))
    assert pool.weights_bytes == LITE_WEIGHTS == 31_574_973_440
    assert pool.kept_bytes == pytest.approx(LITE_ACTIVATION + 0.25 * GIB, rel=1e-12)
    # 76,584,635,596.8 - 31,574,973,440 - 545,479,720.96 - 268,435,456
    assert pool.pool_bytes == pytest.approx(44_195_746_979.84, rel=1e-12)
    assert (pool.memory_share, pool.engine) == (0.9, "vLLM 0.19.0")
    assert pool.notes == ("memory outside torch as measured on h100-sxm at TP1",)
    assert any("vLLM wheels" in source for source in pool.sources)


def test_share_and_overheads_are_the_callers() -> None:
    settings = EngineSettings(memory_share=0.5, activation_bytes=GIB, non_torch_bytes=0.0)
    pool = kv_pool(kind_of(LITE), settings)
    assert pool.pool_bytes == pytest.approx(0.5 * 79.25 * GIB - LITE_WEIGHTS - GIB, rel=1e-12)
    assert (pool.kept_bytes, pool.memory_share, pool.notes) == (GIB, 0.5, ())


def test_graphs_are_kept_from_the_version_that_subtracts_them() -> None:
    # 0.20: a share of 0.92, and 0.49 GiB of CUDA graphs on an A100
    known = EngineSettings(version="0.20.0", activation_bytes=GIB, non_torch_bytes=GIB / 2)
    before = kv_pool(kind_of(LITE), replace(known, version="0.19.0", memory_share=0.92))
    after = kv_pool(kind_of(LITE), known)
    assert (before.kept_bytes, before.engine) == (1.5 * GIB, "vLLM 0.19.0")
    assert after.kept_bytes == pytest.approx(1.99 * GIB, rel=1e-12) and after.memory_share == 0.92
    # and the 27 absorbed projections of 4 MiB are views from then on
    assert before.pool_bytes - after.pool_bytes == pytest.approx(0.49 * GIB - 27 * 4 * MIB, rel=1e-9)


def test_other_engines_divide_otherwise() -> None:
    # TensorRT-LLM: a share of what is left, all of memory less what the engine holds; no absorbed copies
    weights = LITE_WEIGHTS - 27 * 4 * MIB
    known = EngineSettings("trtllm", memory_share=0.8, activation_bytes=GIB, non_torch_bytes=GIB)
    pool = kv_pool(kind_of(LITE), known)
    assert pool.pool_bytes == pytest.approx(0.8 * (79.25 * GIB - weights - 2 * GIB), rel=1e-12)
    # SGLang: weights and KV share 0.8 of what was free before loading
    static = kv_pool(kind_of(LITE), EngineSettings("sglang", memory_share=0.8, non_torch_bytes=GIB))
    assert static.pool_bytes == pytest.approx(0.8 * 78.25 * GIB - weights, rel=1e-12)


def test_weights_are_spread_over_the_gpus() -> None:
    # Llama-3.1-70B on four GPUs, a layer: qkv 2,560 x 8,192 in 40 MiB, out 32, gate and up 224, down 112, two
    # norms; tables of 32,064 x 8,192 in 501 MiB that become 502; 131,072 x 128 of the rotary table
    pool = kv_pool(kind_of("meta-llama/Llama-3.1-70B", tp=4))
    weights = 80 * (408 * MIB + 2 * 8192 * 2) + 2 * 502 * MIB + 8192 * 2 + 131_072 * 128 * 2
    assert pool.weights_bytes == weights == 35_314_483_200
    activation = 256 * 128_256 * 14.47 + 2048 * 8192 * 2.321 + 0.049 * GIB
    assert pool.kept_bytes == pytest.approx(activation + 2.13 * GIB, rel=1e-12)
    assert pool.pool_bytes == pytest.approx(A100 - weights - activation - 2.13 * GIB, rel=1e-12)


def test_eight_bits_on_request_halve_the_matrices_alone() -> None:
    # Llama-3.1-8B: 32 x 218,103,808 in matrices at one byte; 2 x 525,336,576 in tables and 65 x 4096 norms
    # at two; everything from 10 MiB on is whole 2 MiB
    pool = kv_pool(kind_of("meta-llama/Llama-3.1-8B", "h100-sxm", dtype="fp8"))
    weights = 32 * 218_103_808 + 2 * (2 * 525_336_576 + 65 * 4096) + 131_072 * 128 * 2
    assert pool.weights_bytes == weights == 9_114_755_072
    activation = 1024 * 128_256 * 14.47 + 8192 * 4096 * 2.321 + 0.049 * GIB
    assert pool.pool_bytes == pytest.approx(H100 - weights - activation - 0.25 * GIB, rel=1e-12)
    assert pool.notes == ()


def test_an_eight_bit_checkpoint_brings_its_scales() -> None:
    # Qwen3-8B-FP8, a layer: 24 + 16 + 96 + 48 MiB of matrices, a 4-byte scale for 128 x 128 of them (48 x 32,
    # 32 x 32, 192 x 32, 32 x 96), two norms of 4,096 and two of 128; tables of 151,936 x 4,096 in 1,187 MiB,
    # which become 1,188; 40,960 x 128 of the rotary table
    pool = kv_pool(kind_of("Qwen/Qwen3-8B-FP8", "h100-sxm"))
    scales = 4 * (48 * 32 + 32 * 32 + 192 * 32 + 32 * 96)
    layer = 184 * MIB + scales + 2 * (2 * 4096 + 2 * 128)
    weights = 36 * layer + 2 * 1188 * MIB + 2 * 4096 + 40_960 * 128 * 2
    assert pool.weights_bytes == weights == 9_449_981_952
    activation = 1024 * 151_936 * 14.47 + 8192 * 4096 * 2.321 + 0.049 * GIB
    assert pool.pool_bytes == pytest.approx(H100 - weights - activation - 0.25 * GIB, rel=1e-12)
    assert pool.held_bytes(10) == 10 * 36 * 4096  # the cache stays at two bytes


def test_a_windowed_model() -> None:
    # Mistral-7B-v0.1, a layer: 48 + 32 + 224 + 112 MiB, two norms; tables of 250 MiB; rotary 32,768 x 128.
    # Few logits: the peak lies inside a layer.
    pool = kv_pool(kind_of("mistralai/Mistral-7B-v0.1"))
    weights = 32 * (416 * MIB + 4 * 4096) + 500 * MIB + 2 * 4096 + 32_768 * 128 * 2
    assert pool.weights_bytes == weights == 14_491_852_800
    inside = 2048 * (4096 * 8.4 + 14_336 * 6)
    assert inside > 256 * 32_000 * 14.47 + 2048 * 4096 * 2.321 + 0.049 * GIB
    assert pool.pool_bytes == pytest.approx(A100 - weights - inside - 0.25 * GIB, rel=1e-12)
    # 32 layers x 2 x 8 x 128 x 2 bytes a token, at most 4,096 of them
    assert pool.held_bytes(512) == 512 * 131_072
    assert pool.held_bytes(4096) == pool.held_bytes(9000) == 4096 * 131_072
    assert pool.sequences(9000) == pytest.approx(pool.pool_bytes / (4096 * 131_072), rel=1e-12)


def test_a_model_with_states() -> None:
    # granite-4.0-h-1b, 36 Mamba-2 layers: in_proj 6,448 x 1,536 (the 1.1 MiB left are split off), out_proj
    # 9 MiB, convolution (3,072 + 256) x (4 + 1), a norm of 3,072, three vectors of 48 in 512 bytes each, two
    # norms of 1,536, a feed-forward block of 24 + 12 MiB. Four attention layers: 2,560 x 1,536 and 1,536^2.
    # One table of 100,352 x 1,536 (294 MiB), tied; no rotary table.
    pool = kv_pool(kind_of("ibm-granite/granite-4.0-h-1b"))
    mamba = 2 * (6448 * 1536 + 3328 * 5 + 3072 + 2 * 1536) + 3 * 512 + (9 + 36) * MIB
    attention = 2 * (2560 * 1536 + 1536 * 1536 + 2 * 1536) + 36 * MIB
    assert pool.weights_bytes == 36 * mamba + 4 * attention + 294 * MIB + 2 * 1536 == 2_923_121_664
    activation = 256 * 100_352 * 14.47 + 2048 * 1536 * 2.321 + 0.049 * GIB
    assert pool.pool_bytes == pytest.approx(A100 - 2_923_121_664 - activation - 0.25 * GIB, rel=1e-12)


def test_held_bytes_are_a_slope_and_a_constant() -> None:
    latent = kv_pool(kind_of(LITE))
    assert latent.held_bytes(1000) == 1000 * 31_104
    assert latent.sequences(1000) == pytest.approx(44_195_746_979.84 / 31_104_000, rel=1e-12)
    # 8 KV heads on two GPUs: half of 131,072; on 16 each holds one of them
    assert kv_pool(kind_of("meta-llama/Llama-3.1-8B", tp=2)).held_bytes(10) == 10 * 65_536
    assert kv_pool(kind_of("meta-llama/Llama-3.1-8B", tp=16)).held_bytes(10) == 10 * 16_384
    # a latent is whole on every GPU
    assert kv_pool(kind_of(LITE, tp=2)).held_bytes(10) == 10 * 31_104
    # granite-4.0-h-1b: 4 layers x 2 x 4 x 128 x 2 bytes a token; 36 states of 48 x 128 x 64 and 3 x 3,328
    # inputs, two bytes each; two GPUs halve both
    state = 36 * 2 * (48 * 128 * 64 + 3 * 3328)
    alone, shared = (kv_pool(kind_of("ibm-granite/granite-4.0-h-1b", tp=tp)) for tp in (1, 2))
    for tokens in (1, 1000, 50_000):
        assert alone.held_bytes(tokens) == tokens * 8192 + state
        assert shared.held_bytes(tokens) == tokens * 4096 + state / 2
    # gemma-4-E2B: 3 full layers of 2 x 512 x 2 bytes, 12 of 2 x 256 x 2 with a window of 512; 20 layers more
    # read these caches and have none of their own
    shares = kv_pool(kind_of("google/gemma-4-E2B-it"))
    assert shares.held_bytes(100) == 100 * (3 * 2048 + 12 * 1024)
    assert shares.held_bytes(2000) == 2000 * 3 * 2048 + 512 * 12 * 1024


def test_a_model_that_does_not_fit_says_what_is_missing() -> None:
    # Llama-3.1-70B: 141,107,412,992 and 33,554,432 of the rotary table; logits of 256 x 128,256:
    # 566,654,533.6 of activations; 268,435,456; less 76,584,635,596.8: 65,391,421,816.8
    with pytest.raises(DoesNotFitError) as caught:
        kv_pool(kind_of("meta-llama/Llama-3.1-70B"))
    message = str(caught.value)
    assert "meta-llama/Llama-3.1-70B does not fit on a100-sxm-80gb TP1: 131.45 GiB of weights" in message
    assert (
        "are 60.90 GiB (65391421817 bytes) more than the 71.33 GiB that vLLM plans with, each GPU" in message
    )
    assert "raise --tp or --pp" in message


def test_nominal_memory_stands_in_where_no_visible_one_is_known() -> None:
    # A100 PCIe 40 GB: 0.9 x 40 GiB
    pool = kv_pool(kind_of(LITE, "a100-pcie-40gb"))
    kept = LITE_WEIGHTS + LITE_ACTIVATION + 0.25 * GIB
    assert pool.pool_bytes == pytest.approx(0.9 * 40 * GIB - kept, rel=1e-12)
