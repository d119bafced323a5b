"""KV pools: what the weights leave on a GPU, by hand."""

from __future__ import annotations

import pytest

from costmodel.errors import NoAnswerError
from costmodel.families import read_model
from costmodel.inputs.hardware import load_gpu
from costmodel.memory.parallelism import Parallelism
from costmodel.serving.instance import InstanceKind, make_instance
from costmodel.serving.memory import kv_pool

GIB = 1024**3


def kind_of(model: str, gpu: str = "a100-sxm-80gb", tp: int = 1, dtype: str | None = None) -> InstanceKind:
    return make_instance(read_model(model), load_gpu(gpu), Parallelism(tp), dtype=dtype)


def test_pool_is_what_weights_and_reserve_leave() -> None:
    # 0.9 x 79.25 GiB = 76,584,635,596.8; 15,706,484,224 weights of two bytes; 3 GiB = 3,221,225,472
    pool = kv_pool(kind_of("deepseek-ai/DeepSeek-V2-Lite"))
    assert pool.weights_bytes == 31_412_968_448
    assert pool.pool_bytes == pytest.approx(41_950_441_676.8, rel=1e-12)
    assert pool.pool_bytes == pytest.approx(0.9 * 79.25 * GIB - 31_412_968_448 - 3 * GIB, rel=1e-12)
    assert pool.reserve_bytes == 3 * GIB and pool.memory_share == 0.9


def test_share_and_reserve_are_the_callers() -> None:
    kind = kind_of("deepseek-ai/DeepSeek-V2-Lite")
    pool = kv_pool(kind, memory_share=0.5, reserve_bytes=GIB)
    assert pool.pool_bytes == pytest.approx(0.5 * 79.25 * GIB - 31_412_968_448 - GIB, rel=1e-12)


def test_weights_are_spread_over_the_gpus() -> None:
    # Llama-3.1-70B: 70,553,706,496 weights of two bytes over four GPUs
    pool = kv_pool(kind_of("meta-llama/Llama-3.1-70B", tp=4))
    assert pool.weights_bytes == 70_553_706_496 * 2 / 4
    assert pool.pool_bytes == pytest.approx(0.9 * 79.25 * GIB - 35_276_853_248 - 3 * GIB, rel=1e-12)


def test_eight_bit_weights_halve_the_matrices_alone() -> None:
    # Llama-3.1-8B: 32 x 218,103,808 in matrices at one byte; 2 x 525,336,576 in tables and 65 x 4096 norms
    # at two
    pool = kv_pool(kind_of("meta-llama/Llama-3.1-8B", "h100-sxm", dtype="fp8"))
    assert pool.weights_bytes == 32 * 218_103_808 + 2 * (2 * 525_336_576 + 65 * 4096)


def test_held_bytes_grow_by_a_slope_or_stop_at_the_window() -> None:
    latent = kv_pool(kind_of("deepseek-ai/DeepSeek-V2-Lite"))
    assert latent.held_bytes(1000) == 1000 * 31_104
    assert latent.sequences(1000) == pytest.approx(41_950_441_676.8 / 31_104_000, rel=1e-12)
    # 8 KV heads on two GPUs: half of 131,072; on 16 each holds one of them
    assert kv_pool(kind_of("meta-llama/Llama-3.1-8B", tp=2)).held_bytes(10) == 10 * 65_536
    assert kv_pool(kind_of("meta-llama/Llama-3.1-8B", tp=16)).held_bytes(10) == 10 * 16_384
    # a latent is whole on every GPU
    assert kv_pool(kind_of("deepseek-ai/DeepSeek-V2-Lite", tp=2)).held_bytes(10) == 10 * 31_104
    window = kv_pool(kind_of("mistralai/Mistral-7B-v0.1"))
    assert window.held_bytes(512) == 512 * 131_072
    assert window.held_bytes(4096) == window.held_bytes(9000) == 4096 * 131_072


def test_a_model_that_does_not_fit_says_what_is_missing() -> None:
    # 141,107,412,992 of weights and 3,221,225,472 reserved less 76,584,635,596.8: 67,744,002,867.2
    with pytest.raises(NoAnswerError) as caught:
        kv_pool(kind_of("meta-llama/Llama-3.1-70B"))
    message = str(caught.value)
    assert "meta-llama/Llama-3.1-70B does not fit on a100-sxm-80gb: 131.4 GiB of bf16 weights" in message
    assert "by 63.1 GiB (67744002867 bytes) a GPU" in message and "--tp" in message


def test_nominal_memory_stands_in_where_no_visible_one_is_known() -> None:
    # A100 PCIe 40 GB: 0.9 x 40 GiB less weights and reserve
    pool = kv_pool(kind_of("deepseek-ai/DeepSeek-V2-Lite", "a100-pcie-40gb"))
    assert pool.pool_bytes == pytest.approx(0.9 * 40 * GIB - 31_412_968_448 - 3 * GIB, rel=1e-12)
