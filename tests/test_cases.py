"""Public reports with numbers: what people measured or asked, against what is answered here.

Each test has the arithmetic in a comment and the report's address. Where a log differs, the reason stands
beside it. GiB = 2**30 bytes; engines often write "GB" and mean GiB. Sizes printed with two decimals of a GiB
stand for any size within half of the last digit.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from costmodel.errors import DoesNotFitError, InputError
from costmodel.families import parse_config, read_model
from costmodel.inputs.hardware import load_gpu
from costmodel.inputs.model import Attention, LatentAttention, Model, Recurrent
from costmodel.inputs.parameters import count_parameters
from costmodel.memory.capacity import Fit, fit
from costmodel.memory.kv import kv_bytes
from costmodel.memory.parallelism import Parallelism
from costmodel.memory.settings import EngineSettings
from costmodel.questions.kv import KvAnswer, ask_kv
from costmodel.questions.tiers import kv_tiers
from costmodel.serving.handover import KvEnd

GIB, MIB = 2**30, 2**20
T = TypeVar("T", bound=Callable[..., object])

#: Reports without a test, and why.
NOT_TESTED = {
    "a15-dsv4-two-parameter": "DeepSeek-V4 has no published configuration class here: no family reads it",
    "a16-glm53-fixed-reserve": "the dimensions of GLM-5.3-Flash are not stated",
    "a26-mooncake-store-mha-fallback": "DeepSeek-V4-Flash: no family reads it (see a15)",
    "a37-inkling-fp8-pool-gain": "the widths of Inkling's windowed layers and its pool are not stated",
    "d14-inferencex-dsv4pro-static": "DeepSeek-V4-Pro: no family reads it (see a15)",
}
TESTED: dict[str, Callable[..., object]] = {}
#: Every report about KV bytes, memory or configurations.
ALL = (
    "a02-qwen3-14b-lmcache-disk", "a03-fp8kv-profile-shift", "a04-qwen3coder30b-pp-unequal",
    "a05-deepseek-v32-sglang-indexer", "a06-deepseek-r1-ik-llama-q8", "a07-gguf-parser-mla-expanded",
    "a10-unsloth-5path-table", "a11-hfmem-hybrid-reserve", "a12-gemma4-31b-tt-full-reserve",
    "a14-qwen35-vllm-log-inconsistent", "a15-dsv4-two-parameter", "a16-glm53-fixed-reserve",
    "a20-trtllm-tinyllama", "a21-trtllm-vs-vllm-a10", "a22-kaito-mistral4-119b",
    "a24-qwen38-27b-hybrid-crosscheck", "a25-gemma4-e2b-kv-shared", "a26-mooncake-store-mha-fallback",
    "a27-transformers-latent-kimi-linear", "a29-dynamo-mocker-headdim", "a30-vllm-offload-blog-blocks",
    "a32-qwen3-235b-vllm-vs-sglang", "a36-unsloth-qwen38-three-lines", "a37-inkling-fp8-pool-gain",
    "a38-vllm-13596", "b17-llmd-kv-capacity-gptoss", "d03-qwen3-30b-weights-tp4", "d04-xinfer-32b-128gib",
    "d05-gptoss120b-h100", "d08-nollama-96kb", "d09-llama31-70b-2h100", "d10-kimi-max-batched",
    "d11-llmd-planner-accuracy", "d12-llmd-planner-kimivl-mla", "d14-inferencex-dsv4pro-static",
    "e01-vllm-fit-nested", "e02-omlx-vision-toplevel", "e03-torchtune-missing-kvheads", "e05-llmfit-linear",
    "e06-ollama-mla-asym", "f10-fragmentation-rate-mismatch",
)  # fmt: skip


def case(identifier: str) -> Callable[[T], T]:
    """Mark a test as that of a report."""

    def mark(test: T) -> T:
        assert identifier not in TESTED
        TESTED[identifier] = test
        return test

    return mark


def test_every_report_has_a_test_or_a_reason() -> None:
    assert len(set(ALL)) == len(ALL) == 41
    assert sorted([*TESTED, *NOT_TESTED]) == sorted(ALL)
    assert all(len(reason) > 20 for reason in NOT_TESTED.values())


def in_pool(model: Model | str, pool: float, tokens: int, **more: Any) -> KvAnswer:
    """Ask for what a pool of so many bytes holds, under vLLM unless said otherwise."""
    names = ("engine", "version", "max_num_batched_tokens", "block_tokens")
    settings = EngineSettings(**{name: more.pop(name) for name in names if name in more}, pool_bytes=pool)
    return ask_kv(model, tokens, engine=settings, **more)


def held(answer: KvAnswer) -> Any:
    assert answer.capacity is not None
    return answer.capacity


@case("a02-qwen3-14b-lmcache-disk")
def test_qwen3_14b_in_6_51_gib() -> None:
    """https://github.com/LMCache/LMCache/issues/1739 logs 42,656 tokens and 1.30x for 32,768.

    40 layers x 8 KV heads x 128 x 2 x 2 = 163,840 bytes; 6.51 GiB / (16 x 163,840) = 2,666.5 blocks.
    """
    answer = in_pool("Qwen/Qwen3-14B", 6.51 * GIB, 32_768)
    assert answer.kv_bytes_per_token == 163_840
    found = held(answer)
    assert (found.kv_cache_blocks, found.kv_cache_tokens) == (2666, 42_656)
    assert found.log_lines == (
        "Available KV cache memory: 6.51 GiB",
        "GPU KV cache size: 42,656 tokens",
        "Maximum concurrency for 32,768 tokens per request: 1.30x",
    )


@case("a03-fp8kv-profile-shift")
def test_fp8_cache_counts_one_byte_both_ways() -> None:
    """https://github.com/vllm-project/vllm/issues/25350 (the model is not named; its rate is this one's).

    48 layers x 4 KV heads x 128 x 2 x 1 byte = 49,152. 221,000 tokens need 10.12 GiB, as logged. 10.55 GiB are
    14,404 blocks of 16, 230,464 tokens; the log says 230,528 (14,408 blocks, 10.553 GiB, which prints as
    10.55). 5.59 GiB are 7,632 blocks, 122,112 tokens; the log says 122,080 (7,630 blocks, 5.588 GiB).
    """
    answer = in_pool("Qwen/Qwen3-30B-A3B", 10.55 * GIB, 221_000, kv_dtype="fp8")
    assert answer.kv_bytes_per_token == 49_152
    assert f"{answer.kv_bytes / GIB:.2f}" == "10.12"
    assert held(answer).kv_cache_tokens == 230_464
    exact = held(in_pool("Qwen/Qwen3-30B-A3B", 14_408 * 16 * 49_152, 100_000, kv_dtype="fp8"))
    assert exact.log_lines == (
        "Available KV cache memory: 10.55 GiB",
        "GPU KV cache size: 230,528 tokens",
        "Maximum concurrency for 100,000 tokens per request: 2.31x",
    )
    assert (
        held(in_pool("Qwen/Qwen3-30B-A3B", 5.59 * GIB, 221_000, kv_dtype="fp8")).longest_held_tokens
        == 122_112
    )
    printed = held(in_pool("Qwen/Qwen3-30B-A3B", 7630 * 16 * 49_152, 221_000, kv_dtype="fp8"))
    assert printed.longest_held_tokens == 122_080
    assert printed.log_lines[0] == "Available KV cache memory: 5.59 GiB"


@case("a04-qwen3coder30b-pp-unequal")
def test_unequal_stages_need_their_own_layers_alone() -> None:
    """https://github.com/vllm-project/vllm/issues/34076: 48 layers split 16 and 32, 3.18 GiB on the smaller card.

    98,304 bytes a token in all: 262,144 tokens are 24 GiB, of which the stages need 8 and 16. The log compares
    the 24 GiB with the 3.18 of one stage and names 34,736 tokens: 3.18 GiB / (16 x 98,304) = 2,170.9 blocks
    (2,171 of them, 3.1801 GiB, print the same). By stage 3.18 GiB hold 6,512 blocks of 16 x 32,768 bytes:
    104,192 tokens.
    """
    model = "Qwen/Qwen3-Coder-30B-A3B-Instruct-FP8"
    answer = ask_kv(model, 262_144, pp=2, pp_layers=(16, 32), kv_dtype="bf16")
    assert answer.kv_bytes == 24 * GIB
    assert [stage.kv_bytes_per_gpu for stage in answer.stages] == [8 * GIB, 16 * GIB]
    assert [stage.kv_bytes_per_token_per_gpu for stage in answer.stages] == [32_768, 65_536]
    whole = held(in_pool(model, 3.18 * GIB, 262_144, kv_dtype="bf16"))
    assert whole.longest_held_tokens == 34_720
    said = held(in_pool(model, 2171 * 16 * 98_304, 262_144, kv_dtype="bf16"))
    assert said.longest_held_tokens == 34_736
    assert said.log_lines[0] == "Available KV cache memory: 3.18 GiB"
    # the other stage with room enough, so that the first decides
    split = EngineSettings(pool_bytes=(3.18 * GIB, 20 * GIB))
    staged = ask_kv(model, 262_144, pp=2, pp_layers=(16, 32), kv_dtype="bf16", engine=split)
    assert (held(staged).limiting_stage, held(staged).longest_held_tokens) == (1, 104_192)


@case("a05-deepseek-v32-sglang-indexer")
def test_indexer_of_deepseek_v3_2_is_in_the_pool() -> None:
    """https://github.com/sgl-project/sglang/pull/11309, 8 x B200 with attention in 8 groups of one.

    61 layers x (656 + 132) = 48,068 bytes a token: 975,424 tokens are 43.67 GiB, as the corrected log says;
    1,462,784 tokens are 54.515 GiB without the indexer and 65.484 with it; the old log and the report's 54.52
    and 65.49 count the page of 64 tokens, too, that SGLang allocates beside those of the pool.
    """
    more: dict[str, Any] = {"tp": 8, "dp_attention": 8, "kv_dtype": "fp8_ds_mla", "engine": "sglang"}
    answer = in_pool("deepseek-ai/DeepSeek-V3.2", 975_424 * 48_068, 163_840, **more)
    assert answer.kv_bytes_per_token == 61 * (656 + 132)
    assert "KV Cache is allocated. #tokens: 975424, KV size: 43.67 GB" in held(answer).log_lines
    model = read_model("deepseek-ai/DeepSeek-V3.2")
    old, page = (kv_bytes(model, tokens, "fp8_ds_mla").kv_bytes for tokens in (1_462_784, 64))
    indexer = 61 * 132
    assert f"{old / GIB:.3f}" == "65.484" and f"{(old + page) / GIB:.2f}" == "65.49"
    latent = old + page - indexer * (1_462_784 + 64)
    assert f"{(old - indexer * 1_462_784) / GIB:.3f}" == "54.515" and f"{latent / GIB:.2f}" == "54.52"


@case("a06-deepseek-r1-ik-llama-q8")
def test_latent_of_deepseek_r1_in_q8_0() -> None:
    """https://github.com/ikawrakow/ik_llama.cpp/pull/259 logs 1166.62 MiB for 32,768 tokens.

    61 x 576 elements in blocks of 32 of 34 bytes: 61 x 576 x 34 / 32 = 37,332 bytes a token; 1,166.625 MiB.
    """
    answer = ask_kv("deepseek-ai/DeepSeek-R1", 32_768, kv_dtype="q8_0")
    assert answer.kv_bytes / MIB == 1166.625


@case("a07-gguf-parser-mla-expanded")
def test_expanded_and_latent_cache_of_deepseek_v3() -> None:
    """https://github.com/gpustack/gguf-parser-go/issues/8: 697.66 - 376.57 = 321.09 GiB for 65,536 tokens.

    Expanded: 61 x 128 x (192 + 128) x 2 = 4,997,120 bytes, 305.0 GiB; the report's difference holds compute
    buffers, too, which grow with the context. Latent: 61 x 576 x 2 = 70,272, 4.29 GiB, 71.1 times less.
    """
    answer = ask_kv("deepseek-ai/DeepSeek-V3", 65_536, kv_dtype="bf16")
    expanded = answer.kv_bytes_per_token_expanded
    assert expanded == 4_997_120 and expanded * 65_536 == 305 * GIB
    assert f"{answer.kv_bytes / GIB:.2f}" == "4.29"
    assert f"{expanded / answer.kv_bytes_per_token:.1f}" == "71.1"
    assert expanded * 65_536 / GIB < 321.09 < 1.06 * 305


#: The report's column of right sizes, GiB, and the layers it rests on: (growing, windowed, window, bytes).
TABLE = {
    # 10 full layers and 52 of 1,024 tokens, 16 KV heads x 128 x 2 x 2 = 8,192 bytes
    "google/gemma-3-27b-it": (131_072, "10.41", 10, 52, 8192),
    "deepseek-ai/DeepSeek-V3.1": (163_840, "10.72", 61, 0, 1152),
    "moonshotai/Kimi-K2.5": (262_144, "17.16", 61, 0, 1152),
    "Qwen/Qwen3-0.6B": (40_960, "4.38", 28, 0, 4096),
}


@pytest.mark.parametrize("name", TABLE)
@case("a10-unsloth-5path-table")
def test_sizes_at_the_native_context(name: str) -> None:
    """https://github.com/unslothai/unsloth/pull/4757 ("GB" there is GiB); layers first, as packaged."""
    tokens, size, growing, windowed, each = TABLE[name]
    model = read_model(name)
    assert model.max_context == tokens
    answer = ask_kv(model, tokens, kv_dtype="bf16")
    rows = {row.window: (row.count, row.bytes_per_token) for row in answer.layers}
    assert rows == {None: (growing, each)} | ({1024: (windowed, each)} if windowed else {})
    # 4.375 is printed as 4.38
    assert f"{answer.kv_bytes / GIB + 1e-9:.2f}" == size


def test_sizes_at_the_native_context_that_differ() -> None:
    """The same table: Qwen3.5-27B 16.00 and GLM-5 17.18.

    Qwen3.5-27B: 16 of 64 layers grow, 4 x 256 x 2 x 2 x 16 = 65,536 bytes, 16 GiB at 262,144; the table leaves
    out the constant states of the other 48: 48 x (48 x 128 x 128 x 4 + 3 x 10,240 x 2) bytes.
    GLM-5: the table counts 79 layers, with the MTP layer, and no indexer: 79 x 1,152 x 202,752 = 17.18 GiB.
    Here 78 layers of 1,152 + 132 bytes.
    """
    answer = ask_kv("Qwen/Qwen3.5-27B", 262_144, kv_dtype="bf16")
    assert answer.kv_bytes_per_token * 262_144 == 16 * GIB
    assert answer.fixed_bytes_per_sequence == 48 * (48 * 128 * 128 * 4 + 3 * 10_240 * 2)
    assert answer.kv_bytes == 16 * GIB + answer.fixed_bytes_per_sequence
    glm = ask_kv("zai-org/GLM-5", 202_752, kv_dtype="bf16")
    assert glm.kv_bytes == 78 * (1152 + 132) * 202_752
    assert f"{(glm.kv_bytes - 78 * 132 * 202_752 + 1152 * 202_752) / GIB:.2f}" == "17.18"


@case("a11-hfmem-hybrid-reserve")
def test_gpt_oss_20b_with_and_without_windows() -> None:
    """https://github.com/alvarobartt/hf-mem/pull/70, 32 sequences of 8,192 tokens: 6.09 or 12.00 GiB, -49.22 %.

    12 full layers of 2,048 bytes x 8,192 and 12 of 2,048 x 128: 204,472,320 bytes; all in full 402,653,184.
    vLLM plans ceil(8192 / 16) and, with steps of 8,192 tokens, one block more for the windows.
    """
    answer = in_pool("openai/gpt-oss-20b", 10 * GIB, 8192, kv_dtype="bf16", max_num_batched_tokens=8192)
    windowed, full = 32 * answer.kv_bytes / GIB, 32 * answer.kv_bytes_unwindowed / GIB
    assert (f"{windowed:.2f}", full) == ("6.09", 12.0)
    assert f"{windowed / full - 1:.2%}" == "-49.22%"
    assert held(answer).sequence_reserved_bytes == (512 + 513) * 16 * 2048 * 12


@case("a12-gemma4-31b-tt-full-reserve")
def test_gemma_4_31b_in_full_layers() -> None:
    """https://github.com/tenstorrent/tt-xla/issues/5727: 7,584 tokens, 59.25x for 128, 0.2 of a 32 GB chip.

    The plugin reserves every layer in full. 50 windowed layers of 16 heads x 256 and 10 full ones of 4 x 512,
    x 2 x 2 bytes: 819,200 + 81,920 = 901,120; 7,584 tokens are 6.36 GiB of the 6.4 (16 heads of 256 in all 60
    layers would be 6.94). Only the 10 full layers grow: 81,920.
    """
    answer = ask_kv("google/gemma-4-31B-it", 7584, kv_dtype="bf16")
    assert answer.kv_bytes_per_token_all_layers == 819_200 + 81_920
    assert answer.kv_bytes_per_token == 81_920
    assert f"{answer.kv_bytes_unwindowed / GIB:.2f}" == "6.36"
    # with the windows kept at 1,024 tokens
    assert answer.kv_bytes == 7584 * 81_920 + 1024 * 819_200
    assert 7584 / 128 == 59.25


@case("a14-qwen35-vllm-log-inconsistent")
def test_two_figures_of_one_hybrid_log() -> None:
    """https://github.com/vllm-project/vllm/issues/40691, vLLM 0.19.0: 290,864 tokens and 33.04x for 32,768.

    Title and command name two models. 27B: 48 states of 128 x 128 x 4 bytes and 3 x 10,240 x 2, 3,207,168
    bytes; 4 x 256 x 2 x 2 = 4,096 a token: 783, in steps of 16 784 tokens a block; 290,864 = 371 x 784.
    One full group and three of states: 371 = floor(blocks / 4); a request takes ceil(32768 / 784) = 42 + 3;
    1,487 blocks give 33.04. (35B-A3B: 1,056 tokens a block, which does not divide 290,864.)
    Since 0.20.2 the tokens are int(48,726,016 / 45) = 1,082,800; the two figures agree.
    """
    pool = 1487 * 784 * 4096 * 16
    found = held(in_pool("Qwen/Qwen3.5-27B", pool, 32_768, kv_dtype="bf16", version="0.19.0"))
    assert (found.block_tokens, found.kv_cache_blocks) == (784, 1487)
    assert found.log_lines[1:] == (
        "GPU KV cache size: 290,864 tokens",
        "Maximum concurrency for 32,768 tokens per request: 33.04x",
    )
    later = held(in_pool("Qwen/Qwen3.5-27B", pool, 32_768, kv_dtype="bf16", version="0.20.2"))
    assert (later.kv_cache_tokens, f"{later.max_concurrency:.2f}") == (1_082_800, "33.04")
    small = held(in_pool("Qwen/Qwen3.5-35B-A3B", pool, 32_768, kv_dtype="bf16", version="0.19.0"))
    assert small.block_tokens == 1056 and 290_864 % 1056


@case("a20-trtllm-tinyllama")
def test_tinyllama_under_tensorrt_llm() -> None:
    """https://github.com/triton-inference-server/tutorials/pull/150: 78.30 GiB, 116,617 x 32 = 3,731,744 tokens.

    The model is not named; the rate is TinyLlama's, 22 x 4 x 64 x 2 x 2 = 22,528 bytes. 78.30 GiB to the last
    digit are seven blocks more: 84,073,984,819 / (32 x 22,528) = 116,624.3.
    """
    pool = 116_617 * 32 * 22_528
    found = held(in_pool("TinyLlama/TinyLlama-1.1B-Chat-v1.0", pool, 2048, engine="trtllm", kv_dtype="fp16"))
    assert (found.kv_cache_blocks, found.kv_cache_tokens) == (116_617, 3_731_744)
    line = "[MemUsageChange] Allocated 78.30 GiB for max tokens in paged KV cache (3731744)."
    assert found.log_lines[-1] == line
    more = in_pool("TinyLlama/TinyLlama-1.1B-Chat-v1.0", 78.30 * GIB, 2048, engine="trtllm", kv_dtype="fp16")
    assert held(more).kv_cache_tokens == 116_624 * 32


@case("a21-trtllm-vs-vllm-a10")
def test_blocks_and_tokens_are_not_the_same() -> None:
    """https://github.com/NVIDIA/TensorRT-LLM/issues/224: Llama-2-7B on a 24 GB A10, 10,718 tokens, 8,348 "blocks".

    32 x 32 x 128 x 2 x 2 = 524,288 bytes: 10,718 tokens are 5.23 GiB; 8,348 blocks of 16 would be 65.2 GiB, and
    even all 24 GiB hold but 3,072. As tokens 8,348 are 4.08 GiB.
    """
    model = read_model("meta-llama/Llama-2-7b-hf")
    for tokens, size in ((10_718, "5.23"), (8348, "4.08"), (8348 * 16, "65.22")):
        assert f"{kv_bytes(model, tokens, 'fp16').kv_bytes / GIB:.2f}" == size
    assert held(in_pool(model, 24 * GIB, 4096, kv_dtype="fp16")).kv_cache_blocks == 3072


@case("a22-kaito-mistral4-119b")
def test_longest_context_of_mistral_small_4() -> None:
    """https://github.com/kaito-project/kaito/issues/2132: 2 x H100; 22.5 GiB needed for 1,048,576, 17.39 there.

    36 layers x (256 + 64) x 2 = 23,040 bytes on every GPU (class defaults of transformers 5.24). 17.39 GiB are
    50,652 blocks of 16: 810,432 tokens; the log says 810,208 (50,638 blocks, 17.385 GiB, prints 17.39).
    """
    config: dict[str, Any] = {
        "model_type": "mistral4", "torch_dtype": "bfloat16", "hidden_size": 4096, "num_hidden_layers": 36,
        "num_attention_heads": 32, "vocab_size": 131_072, "q_lora_rank": 1024, "kv_lora_rank": 256,
        "qk_nope_head_dim": 64, "qk_rope_head_dim": 64, "v_head_dim": 128, "attention_bias": False,
        "intermediate_size": 12_288, "n_routed_experts": 128, "num_experts_per_tok": 4, "n_shared_experts": 1,
        "moe_intermediate_size": 2048, "first_k_dense_replace": 0, "tie_word_embeddings": False,
    }  # fmt: skip
    model = parse_config(config, "config.json", "mistralai/Mistral-Small-4-119B-2603")
    answer = in_pool(model, 17.39 * GIB, 1_048_576, tp=2, kv_dtype="bf16")
    assert answer.kv_bytes_per_gpu == 22.5 * GIB
    assert held(answer).longest_held_tokens == 810_432
    printed = held(in_pool(model, 50_638 * 16 * 23_040, 1_048_576, tp=2, kv_dtype="bf16"))
    assert printed.longest_held_tokens == 810_208
    assert f"{50_638 * 16 * 23_040 / GIB:.3f}" == "17.385"


@case("a24-qwen38-27b-hybrid-crosscheck")
def test_hybrid_with_fp8_cache_on_two_gpus() -> None:
    """https://github.com/mitchross/talos-argocd-proxmox/pull/1995: 302,921 tokens, 2.31x for 131,072, 2 x 4.99 GiB.

    Qwen3.8-27B has the dimensions of Qwen3.5-27B: 64 layers, 16 full, 4 x 256. 16 x 4 x 256 x 2 = 32,768 bytes
    a token; 302,921 of them are 9.24 of the 9.98 GiB. Blocks of 1,568 tokens (a state of 1,603,584 bytes at
    1,024 a token); 208 of them; a request takes ceil(131072 / 1568) = 84 and two in each of three groups of
    states: 2.3111; int(2.3111 x 131072). 262,144 tokens are 168 blocks.
    """
    answer = in_pool("Qwen/Qwen3.5-27B", 4.99 * GIB, 131_072, tp=2, kv_dtype="fp8", version="0.26.0")
    assert answer.kv_bytes_per_token == 32_768
    found = held(answer)
    assert (found.block_tokens, found.kv_cache_blocks, found.kv_cache_tokens) == (1568, 208, 302_921)
    assert f"{found.max_concurrency:.2f}" == "2.31"
    assert f"{302_921 * 32_768 / GIB:.2f}" == "9.24"
    twice = held(in_pool("Qwen/Qwen3.5-27B", 4.99 * GIB, 262_144, tp=2, kv_dtype="fp8", version="0.26.0"))
    assert twice.max_concurrency == pytest.approx(208 / (168 + 6))


@case("a25-gemma4-e2b-kv-shared")
def test_shared_layers_own_no_cache() -> None:
    """https://github.com/vllm-project/vllm-metal/pull/269: 15 caches instead of 35, 57 % less."""
    answer = ask_kv("google/gemma-4-E2B-it", 4096, kv_dtype="bf16")
    own = sum(row.count for row in answer.layers if row.kv_bytes)
    none = sum(row.count for row in answer.layers if not row.kv_bytes)
    assert (own, none, f"{none / (own + none):.0%}") == (15, 20, "57%")
    # of the owners 3 are full (1 head x 512 x 2 x 2) and 12 windowed (1 x 256 x 2 x 2, 512 tokens)
    assert answer.kv_bytes == 3 * 2048 * 4096 + 12 * 1024 * 512


@case("a27-transformers-latent-kimi-linear")
def test_kimi_linear_has_seven_latent_layers() -> None:
    """https://github.com/vllm-project/vllm/issues/28228: 120,000 tokens on two GPUs, 2.30 GiB there.

    7 x 576 x 2 = 8,064 bytes on every GPU, 0.90 GiB, and the states of 20 layers: 32 x 128 x 128 x 4 bytes and
    3 x 12,288 x 2, half of them a GPU. It fits, and the cache is not what fills the card.
    """
    answer = ask_kv("moonshotai/Kimi-Linear-48B-A3B-Instruct", 120_000, tp=2, kv_dtype="bf16")
    assert [(row.count, row.kind) for row in answer.layers if row.bytes_per_token] == [(7, "MLA")]
    assert answer.kv_bytes_per_token == 8064
    states = sum(row.count * row.state_bytes for row in answer.layers)
    assert answer.kv_bytes_per_gpu == 120_000 * 8064 + states // 2
    assert f"{120_000 * 8064 / GIB:.2f}" == "0.90" and answer.kv_bytes_per_gpu < 2.30 * GIB


@case("a29-dynamo-mocker-headdim")
def test_a_stated_head_width_wins() -> None:
    """https://github.com/ai-dynamo/dynamo/pull/14431: 8,192 bytes a layer, not the 7,168 of 3584 / 16 = 224.

    Gemma-2-9B: 8 KV heads x 256 x 2 x 2 in each of 42 layers.
    """
    answer = ask_kv("google/gemma-2-9b", 1, kv_dtype="bf16")
    assert {row.bytes_per_token for row in answer.layers} == {8192}
    assert answer.kv_bytes_per_token_all_layers == 42 * 8192


#: K of one layer and all of a block of 16 tokens, as the blog prints them (KiB, MiB).
FRAGMENTS = {
    "meta-llama/Llama-3.1-8B": (1, 32, 2.0),
    "meta-llama/Llama-3.2-1B": (1, 16, 0.5),
    "meta-llama/Llama-3.1-70B": (4, 8, 1.25),  # the blog does not say TP; 2 KV heads a GPU fit
    "mistralai/Mistral-Small-24B-Instruct-2501": (1, 32, 2.5),
    "Qwen/Qwen2.5-3B": (1, 8, 0.56),
    "Qwen/Qwen2.5-7B": (1, 16, 0.87),
    "Qwen/Qwen2.5-1.5B": (1, 8, 0.44),
    "Qwen/Qwen3-0.6B": (1, 32, 1.75),
    "Qwen/Qwen3-4B": (1, 32, 2.25),
    "Qwen/Qwen3-32B": (2, 16, 2.0),
}


@pytest.mark.parametrize("name", FRAGMENTS)
@case("a30-vllm-offload-blog-blocks")
def test_fragments_of_a_block(name: str) -> None:
    """https://blog.vllm.ai/2026/01/08/kv-offloading-connector.html"""
    tp, layer, block = FRAGMENTS[name]
    sixteen = kv_bytes(read_model(name), 16, "bf16", tp)
    assert sixteen.rows[0].kv_bytes_per_gpu / 2 == layer * 1024
    assert sixteen.kv_bytes_per_gpu / MIB == pytest.approx(block, abs=0.006)


def test_fragments_of_a_block_that_differ() -> None:
    """The same table: V2-Lite in blocks of 64 (72 KB, 1.9 MB) agrees, K and V being one.

    Qwen3-8B: 16 x 8 x 128 x 2 = 32 KiB and 36 layers, 2.25 MiB; the table has 28 KB and 1.97 MB, which no whole
    number of KV heads gives.
    """
    latent = kv_bytes(read_model("deepseek-ai/DeepSeek-V2-Lite"), 64, "bf16")
    assert latent.rows[0].kv_bytes == 72 * 1024
    assert latent.kv_bytes / MIB == pytest.approx(1.9, abs=0.006)
    eight = kv_bytes(read_model("Qwen/Qwen3-8B"), 16, "bf16")
    assert (eight.rows[0].kv_bytes / 2, eight.kv_bytes) == (32 * 1024, 2.25 * MIB)


@case("a32-qwen3-235b-vllm-vs-sglang")
def test_two_engines_two_budgets() -> None:
    """https://github.com/vllm-project/vllm/issues/21348, 4 x H100: vLLM 178,880 tokens, SGLang 367,404.

    94 layers x 1 KV head x 128 x 2 x 2 = 48,128 bytes a GPU. SGLang: K and V 8.23 GiB each, as logged. vLLM's
    8.11 GiB are 11,308 blocks, 180,928 tokens; the log has 1.1 % less, that of the smallest rank, whose line
    of memory is not the one quoted (178,880 tokens are 8.02 GiB).
    """
    model = "Qwen/Qwen3-235B-A22B-FP8"
    sglang = in_pool(model, 367_404 * 48_128, 32_768, tp=4, kv_dtype="bf16", engine="sglang")
    assert held(sglang).kv_cache_tokens == 367_404
    assert (
        "KV Cache is allocated. #tokens: 367404, K size: 8.23 GB, V size: 8.23 GB" in held(sglang).log_lines
    )
    vllm = held(in_pool(model, 8.11 * GIB, 32_768, tp=4, kv_dtype="bf16"))
    assert vllm.kv_cache_tokens == 180_928
    assert vllm.kv_cache_tokens / 178_880 - 1 == pytest.approx(0.0114, abs=1e-3)


@case("a36-unsloth-qwen38-three-lines")
def test_slope_and_constant_of_a_hybrid_model() -> None:
    """https://github.com/unslothai/unsloth/pull/9525: 0.40, 2.61, 16.15 GiB at 4,096, 40,223 and 262,144 tokens.

    16 x 4 x 256 x 2 x 2 = 65,536 bytes a token and 0.14 GiB of states (see a24 for the dimensions). The report's
    constant is 0.15 GiB: llama.cpp keeps the inputs of convolutions in fp32, 48 x 3 x 10,240 x 4 bytes; and its
    context of 40,223 tokens is rounded up. Uniform q4_0 would take 18 / 64 of the bytes, 4.5 GiB; the report's
    10.40 GiB is not that.
    """
    for tokens, ours, report in ((4096, "0.39", 0.40), (40_223, "2.60", 2.61), (262_144, "16.14", 16.15)):
        answer = ask_kv("Qwen/Qwen3.5-27B", tokens, kv_dtype="bf16")
        assert answer.kv_bytes == tokens * 65_536 + answer.fixed_bytes_per_sequence
        assert f"{answer.kv_bytes / GIB:.2f}" == ours
        in_fp32 = answer.kv_bytes + 48 * 3 * 10_240 * 2
        assert in_fp32 / GIB == pytest.approx(report, abs=0.011)
    narrow = ask_kv("Qwen/Qwen3.5-27B", 262_144, kv_dtype="q4_0")
    assert narrow.kv_bytes_per_token * 262_144 == 4.5 * GIB


@case("a38-vllm-13596")
def test_one_number_in_blocks_and_tokens() -> None:
    """https://github.com/vllm-project/vllm/pull/13596: 127,626 blocks of 16; 2,042,016 tokens; 997.08x for 2,048.

    The model is not named, nor does it matter: 127,626 x 16 / 2,048. Here Qwen2.5-0.5B, 24 x 2 x 64 x 2 x 2.
    """
    found = held(in_pool("Qwen/Qwen2.5-0.5B", 127_626 * 16 * 24 * 512, 2048, kv_dtype="bf16"))
    assert found.kv_cache_blocks == 127_626
    assert found.log_lines[1:] == (
        "GPU KV cache size: 2,042,016 tokens",
        "Maximum concurrency for 2,048 tokens per request: 997.08x",
    )


@case("b17-llmd-kv-capacity-gptoss")
def test_windows_in_the_capacity_of_gpt_oss_120b() -> None:
    """https://github.com/llm-d/llm-d, guides/p2p-kv-cache-sharing: about 1.22M tokens in about 48.9 GiB of an H200.

    max_model_len 65,536, steps of 8,192: 4,096 blocks and ceil((127 + 8192) / 16) + 1 = 521 of 16 x 18 x 2,048
    bytes: 89,021 blocks, 19.28 requests, 1.26M tokens. Counting all 36 layers in full gives 0.71M.
    """
    found = held(in_pool("openai/gpt-oss-120b", 48.9 * GIB, 65_536, kv_dtype="bf16", version="0.20.2",
                         max_num_batched_tokens=8192))  # fmt: skip
    blocks = int(48.9 * GIB / (16 * 18 * 2048))
    assert (found.kv_cache_blocks, found.max_concurrency) == (blocks, pytest.approx(blocks / (4096 + 521)))
    assert found.kv_cache_tokens == pytest.approx(1.22e6, rel=0.04)
    assert f"{48.9 * GIB / (36 * 2048) / 1e6:.2f}" == "0.71"


def fitted(model: str, gpu: str, layout: Parallelism, tokens: int, **settings: Any) -> Fit:
    dtype, kv_dtype = settings.pop("dtype", None), settings.pop("kv_dtype", "bf16")
    return fit(
        read_model(model), load_gpu(gpu), layout, kv_dtype=kv_dtype, dtype=dtype, max_model_len=tokens,
        settings=EngineSettings(**settings),
    )  # fmt: skip


@case("d03-qwen3-30b-weights-tp4")
def test_weights_of_qwen3_30b_on_four_gpus() -> None:
    """https://github.com/vllm-project/vllm/issues/17469 logs 14.2474 GiB a GPU (the model is not named).

    30,532,122,624 parameters x 2 / 4 = 14.217 GiB, and what every GPU has whole: norms, routers (48 x 128 x
    2,048), 40,960 x 128 sines and cosines. Here 14.245: 0.02 % less.
    """
    found = fitted("Qwen/Qwen3-30B-A3B", "h100-sxm", Parallelism(4), 8192).worst.pool.weights.total_bytes
    assert found / GIB == pytest.approx(14.2474, rel=3e-4)
    assert found > 30_532_122_624 * 2 / 4 + 48 * 128 * 2048 * 2 * 3 / 4


@case("d04-xinfer-32b-128gib")
def test_two_sequences_of_a_32b() -> None:
    """https://github.com/guoqingbao/xinfer/issues/195: 131,072 MiB for 2 x 262,144 tokens.

    64 layers x 8 x 128 x 2 x 2 = 262,144 bytes a token.
    """
    answer = ask_kv("Qwen/Qwen3-VL-32B-Instruct", 262_144, kv_dtype="bf16")
    assert 2 * answer.kv_bytes == 131_072 * MIB


@case("d05-gptoss120b-h100")
def test_gpt_oss_120b_has_no_room_for_131072_tokens() -> None:
    """https://github.com/vllm-project/vllm/issues/27508: 1.71 GiB left at 0.95 with steps of 1,024; refused.

    Blocks of 16 x 18 x 2,048 bytes: 3,112. Full layers 8,192 blocks for 131,072 tokens, the windows
    ceil((127 + 1024) / 16) + 1 = 73: 4.54 GiB. The longest takes 3,112 - 73 = 3,039 blocks of 16.
    """
    answer = in_pool("openai/gpt-oss-120b", 1.71 * GIB, 131_072, kv_dtype="bf16", max_num_batched_tokens=1024)
    found = held(answer)
    assert (found.kv_cache_blocks, found.longest_held_tokens) == (3112, 3039 * 16)
    assert found.sequence_reserved_bytes == (8192 + 73) * 16 * 18 * 2048 > 1.71 * GIB
    assert found.max_concurrency < 1 and any("does not fit" in said for said in answer.about.warnings)


@case("d08-nollama-96kb")
def test_qwen3_coder_30b_in_2_and_16_gib() -> None:
    """https://github.com/aweussom/NoLlama/issues/21: 96 KB a token; about 21k tokens in 2 GB, 175k in 16 GB.

    48 x 4 x 128 x 2 x 2 = 98,304; 2 GiB hold 1,365 blocks of 16, 16 GiB 10,922.
    """
    for pool, tokens in ((2, 21_840), (16, 174_752)):
        answer = in_pool("Qwen/Qwen3-Coder-30B-A3B-Instruct", pool * GIB, 4096, kv_dtype="bf16")
        assert (answer.kv_bytes_per_token, held(answer).kv_cache_tokens) == (96 * 1024, tokens)


@case("d09-llama31-70b-2h100")
def test_llama_70b_on_two_and_four_gpus() -> None:
    """https://github.com/vllm-project/vllm/issues/10517 asks for 131,072 tokens on 2 x H100; no log is given.

    70,553,706,496 x 2 / 2 = 65.7 GiB of weights in 0.9 x 79.19 = 71.27: less than 5.6 GiB, 36,000 tokens of
    163,840 bytes a GPU, before activations. Two more GPUs halve the weights and the cache.
    """
    two = fitted(
        "meta-llama/Llama-3.1-70B", "h100-sxm", Parallelism(2), 131_072, dtype="fp16", memory_share=0.9
    )
    assert 0 < two.longest < 5.6 * GIB / 163_840 and two.concurrency < 1
    four = fitted(
        "meta-llama/Llama-3.1-70B", "h100-sxm", Parallelism(4), 131_072, dtype="fp16", memory_share=0.9
    )
    assert four.longest >= 131_072 and four.concurrency >= 1


@case("d10-kimi-max-batched")
def test_activations_grow_with_the_tokens_of_a_step() -> None:
    """https://github.com/ROCm/vllm/issues/539: Llama-4-Scout with steps of a million tokens crashes, 8,192 fit.

    One tensor of hidden states of 1,048,576 x 5,120 x 2 bytes is 10 GiB; a step holds several. (Here on H100,
    not on MI300X, whose overheads are not known.)
    """
    scout = "meta-llama/Llama-4-Scout-17B-16E-Instruct"
    short = fitted(scout, "h100-sxm", Parallelism(8), 1_048_576, max_num_batched_tokens=8192)
    assert short.longest > 1_048_576
    with pytest.raises(DoesNotFitError):
        fitted(scout, "h100-sxm", Parallelism(8), 1_048_576, max_num_batched_tokens=1_048_576)
    wider = fitted(scout, "h200-sxm", Parallelism(8), 1_048_576, max_num_batched_tokens=1_048_576)
    narrow = fitted(scout, "h200-sxm", Parallelism(8), 1_048_576, max_num_batched_tokens=8192)
    grown = wider.worst.pool.overheads.activation_bytes - narrow.worst.pool.overheads.activation_bytes
    assert grown > 1_000_000 * 5120 * 2


#: llm-d-planner's accuracy report: weights and activation and non-torch, GiB; KV GiB; tokens.
PLANNER = [
    ("meta-llama/Llama-3.1-8B-Instruct", 1, None, "bf16", 14.99, 1.89, 0.25, 58.11, 476_016),
    ("meta-llama/Llama-3.1-8B-Instruct", 1, None, "fp8", 14.99, 1.89, 0.25, 58.11, 952_032),
    ("meta-llama/Llama-3.1-8B-Instruct", 1, "fp8", "bf16", 8.49, 1.89, 0.25, 64.61, 529_248),
    ("meta-llama/Llama-3.1-8B-Instruct", 2, None, "bf16", 7.51, 1.89, 2.07, 63.76, 1_044_688),
    ("meta-llama/Llama-3.1-8B-Instruct", 4, None, "bf16", 3.77, 1.89, 2.13, 67.44, 2_209_792),
    ("Qwen/Qwen2.5-7B-Instruct", 1, None, "bf16", 14.25, 2.21, 0.24, 58.53, 1_096_000),
    ("Qwen/Qwen2.5-7B-Instruct", 1, None, "fp8", 14.25, 2.21, 0.24, 58.53, 2_192_000),
    ("Qwen/Qwen3-8B", 1, None, "bf16", 15.27, 2.21, 0.25, None, None),
]


@pytest.mark.parametrize(
    ("model", "tp", "dtype", "kv", "weights", "activation", "other", "pool", "tokens"), PLANNER
)
@case("d11-llmd-planner-accuracy")
def test_planner_report(
    model: str, tp: int, dtype: str | None, kv: str, weights: float, activation: float, other: float,
    pool: float | None, tokens: int | None,
) -> None:  # fmt: skip
    """https://github.com/llm-d-incubation/llm-d-planner, docs/accuracy/vllm-v0.19.0-accuracy-report.md.

    H100, 79.19 GiB, 0.95: 0.95 x 79.19 - 14.99 - 1.89 - 0.25 = 58.10 for the first row. No graphs: 0.19.0.
    """
    found = fitted(model, "h100-sxm", Parallelism(tp), 8192, dtype=dtype, kv_dtype=kv, version="0.19.0",
                   memory_share=0.95)  # fmt: skip
    held = found.worst.pool
    assert held.weights.total_bytes / GIB == pytest.approx(weights, abs=0.01)
    assert held.overheads.activation_bytes / GIB == pytest.approx(activation, abs=0.01)
    assert held.overheads.non_torch_bytes / GIB == pytest.approx(other, abs=0.015)
    assert not held.graphs_subtracted
    if pool is not None and tokens is not None:
        assert held.pool_bytes / GIB == pytest.approx(pool, abs=0.02)
        assert found.tokens == pytest.approx(tokens, rel=1e-3)


@case("d12-llmd-planner-kimivl-mla")
def test_nested_latent_of_kimi_vl() -> None:
    """https://github.com/llm-d-incubation/llm-d-planner, the same report: Kimi-VL's concurrency 87 % too low.

    Its text_config has latent attention: 27 x 576 x 2 bytes. The planner took 2 x 16 heads x 128 elements a
    layer for it, 7.11 times as much, and (1 - 0.8731) / (1 - 0.0976) = 1 / 7.11.
    """
    answer = ask_kv("moonshotai/Kimi-VL-A3B-Instruct", 8192, kv_dtype="bf16")
    assert answer.kv_bytes_per_token == 27 * 576 * 2
    assert f"{27 * 2 * 16 * 128 * 2 / answer.kv_bytes_per_token:.2f}" == "7.11"
    assert f"{(1 - 0.0976) / (1 - 0.8731):.2f}" == "7.11"


LLAMA: dict[str, Any] = {
    "model_type": "llama", "torch_dtype": "float16", "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "intermediate_size": 11_008, "vocab_size": 32_000,
    "max_position_embeddings": 2048, "tie_word_embeddings": False,
}  # fmt: skip


@case("e01-vllm-fit-nested")
def test_nested_fields_are_found_and_missing_ones_refused() -> None:
    """https://github.com/jranaraki/vllm-fit/issues/31: nested fields gave a default model's 17 GB, not 60.

    Qwen3.5-27B has its fields in text_config: 27 billion parameters, 54 GB in bf16.
    """
    assert count_parameters(read_model("Qwen/Qwen3.5-27B")).total_parameters == pytest.approx(27e9, rel=0.01)
    names = ("text_config", "llm_config", "language_config")
    for key in names:
        nested = {"model_type": "llava", "torch_dtype": "float16", key: LLAMA}
        model = parse_config(nested, "config.json", "m")
        assert (model.layer_count, model.hidden) == (32, 4096)
    for missing in ("num_hidden_layers", "hidden_size", "vocab_size"):
        less = {key: value for key, value in LLAMA.items() if key != missing}
        with pytest.raises(InputError, match=missing):
            parse_config({"model_type": "llava", "text_config": less}, "config.json", "m")


@case("e02-omlx-vision-toplevel")
def test_layers_are_those_of_the_language_model() -> None:
    """https://github.com/jundot/omlx/pull/1448: 33 layers at the top were the tower's, 40 the model's (-17.5 %).

    Either 40 layers are counted, or a configuration that contradicts itself is refused: never 33.
    """
    config = {
        "model_type": "llava",
        "num_hidden_layers": 33,
        "text_config": {**LLAMA, "num_hidden_layers": 40},
    }
    try:
        model = parse_config(config, "config.json", "m")
    except InputError as error:
        assert "num_hidden_layers" in str(error)
    else:
        assert model.layer_count == 40
        assert kv_bytes(model, 1, "bf16").kv_bytes_per_token == 40 * 32 * 128 * 2 * 2
    inner = {**config, "vision_config": {"num_hidden_layers": 33}}
    del inner["num_hidden_layers"]
    assert parse_config(inner, "config.json", "m").layer_count == 40


@case("e03-torchtune-missing-kvheads")
def test_without_kv_heads_every_head_has_its_own(tmp_path: Path) -> None:
    """https://github.com/meta-pytorch/torchtune/issues/946: open_llama_7b_v2 states no num_key_value_heads.

    The class default of llama is one a query head: 32 x 32 x 128 x 2 x 2 = 524,288 bytes, and the output says so.
    """
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA), encoding="utf-8")
    answer = ask_kv(str(path), 1)
    assert answer.kv_bytes_per_token == 524_288
    assert [row.kind for row in answer.layers] == ["MHA"]
    assert any("num_key_value_heads" in said for said in answer.about.assumptions)


@case("e05-llmfit-linear")
def test_size_does_not_follow_the_parameters() -> None:
    """https://github.com/AlexsJones/llmfit/issues/418: 8e-6 x billions x tokens GB; 8,192 tokens.

    Llama-3.1-8B 131,072 x 8,192 = 1.07 GB, Llama-2-7B 524,288 x 8,192 = 4.29 GB; the rule says 0.53 and 0.44.
    """
    eight = ask_kv("meta-llama/Llama-3.1-8B", 8192).kv_bytes
    seven = ask_kv("meta-llama/Llama-2-7b-hf", 8192).kv_bytes
    assert (f"{eight / 1e9:.2f}", f"{seven / 1e9:.2f}") == ("1.07", "4.29")
    assert eight / 1e9 > 2 * 8e-6 * 8.03 * 8192 and seven / 1e9 > 9 * 8e-6 * 6.74 * 8192


@case("e06-ollama-mla-asym")
def test_keys_and_values_of_unlike_width() -> None:
    """https://github.com/ollama/ollama/pull/17201: DeepSeek-V2-Lite, keys of 192 and values of 128, 32,768 tokens.

    Expanded 27 x 16 x (192 + 128) x 2 = 276,480 bytes, 8.44 GiB; latent 31,104, 0.95 GiB.
    """
    answer = ask_kv("deepseek-ai/DeepSeek-V2-Lite", 32_768)
    assert answer.kv_bytes_per_token_expanded == 276_480
    assert f"{276_480 * 32_768 / GIB:.2f}" == "8.44"
    assert f"{answer.kv_bytes / GIB:.2f}" == "0.95"


def test_dimensions_the_reports_rest_on() -> None:
    """Entries whose dimensions were inferred: as the packaged configurations have them."""
    qwen = read_model("Qwen/Qwen3.5-27B")
    states, full = (next(m for m, _ in qwen.mixers if isinstance(m, kind)) for kind in (Recurrent, Attention))
    assert dict(qwen.mixers) == {states: 48, full: 16}
    assert isinstance(full, Attention) and (full.kv_heads, full.head_dim) == (4, 256)
    ((kimi, count),) = read_model("moonshotai/Kimi-VL-A3B-Instruct").mixers
    assert isinstance(kimi, LatentAttention)
    assert (count, kimi.kv_rank, kimi.rope_dim, kimi.heads) == (27, 512, 64, 16)
    ((tiny, count),) = read_model("TinyLlama/TinyLlama-1.1B-Chat-v1.0").mixers
    assert isinstance(tiny, Attention) and (count, tiny.kv_heads, tiny.head_dim) == (22, 4, 64)


@case("f10-fragmentation-rate-mismatch")
def test_a_host_tier_of_another_dtype_holds_what_its_own_bytes_say() -> None:
    # 36,808 tokens took 4.93 GB of host memory: 133.9 kB each, where the GPU keeps 18.9 kB. The model is not named.
    text = "dram-pcie4,capacity=4.93GB,bytes_per_token=133938B"
    (tier,) = kv_tiers([text], KvEnd(read_model("Qwen/Qwen3-32B"), 1, "fp8"))
    assert tier.capacity_tokens == pytest.approx(36808, rel=1e-4)
    assert tier.bytes_per_token / 18.9e3 == pytest.approx(7.1, abs=0.05)
