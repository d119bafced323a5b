"""Parameter counts against published ones, and against counts done by hand."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from costmodel.errors import InputError
from costmodel.families import packaged_models, parse_config, read_model
from costmodel.inputs.model import Attention, Dense, Experts, LatentAttention
from costmodel.inputs.parameters import (
    block_parameters,
    count_parameters,
    stored_scales,
    weight_bytes,
    weight_bytes_by_format,
)

# No count is published for OPT: by hand, V h + (P + 2) h + L (4 (h^2 + h) + 2 h f + f + h + 4 h) + 2 h.
OPT_BY_HAND = {
    "facebook/opt-13b": 50272 * 5120
    + 2050 * 5120
    + 40 * (4 * (5120**2 + 5120) + 2 * 5120 * 20480 + 20480 + 5 * 5120)
    + 2 * 5120,
    "facebook/opt-66b": 50272 * 9216
    + 2050 * 9216
    + 64 * (4 * (9216**2 + 9216) + 2 * 9216 * 36864 + 36864 + 5 * 9216)
    + 2 * 9216,
    "facebook/opt-175b": 50272 * 12288
    + 2050 * 12288
    + 96 * (4 * (12288**2 + 12288) + 2 * 12288 * 49152 + 49152 + 5 * 12288)
    + 2 * 12288,
}

QUANTISED = "a quantised repository: no total of its unpacked weights was found"

#: Packaged models without a row in published_totals.csv, and why.
NO_PUBLISHED_TOTAL = {
    "casperhansen/llama-3-70b-instruct-awq": QUANTISED,
    "facebook/opt-13b": "no total was found; counted by hand above",
    "facebook/opt-175b": "no total was found; counted by hand above",
    "facebook/opt-66b": "no total was found; counted by hand above",
    "google/gemma-4-E2B-it": "its total includes vision and audio towers, whose weights are not counted one by one",
    "google/gemma-4-E4B-it": "its total includes vision and audio towers, whose weights are not counted one by one",
    "mistralai/Mistral-Small-3.2-24B-Instruct-2506": "no total was found; Mistral-Small-3.1 has a row",
    "nvidia/DeepSeek-V3.1-NVFP4": QUANTISED,
    "nvidia/Gemma-4-26B-A4B-NVFP4": QUANTISED,
    "nvidia/Gemma-4-31B-IT-NVFP4": QUANTISED,
    "nvidia/Kimi-K2.5-NVFP4": QUANTISED,
    "nvidia/MiniMax-M2.5-NVFP4": QUANTISED,
    "nvidia/Nemotron-H-47B-Base-8K": "no total was found; Nemotron-H-8B and 56B have rows",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4": QUANTISED,
    "nvidia/Qwen3-235B-A22B-NVFP4": QUANTISED,
    "Qwen/Qwen2.5-7B-Instruct-AWQ": QUANTISED,
    "Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4": QUANTISED,
    "Qwen/Qwen3-32B-FP8-Static-PerTensor": QUANTISED,
    "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16": QUANTISED,
    "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8": QUANTISED,
    "RedHatAI/Qwen2.5-7B-Instruct-quantized.w8a8": QUANTISED,
}

# Active parameters in billions, without the input embedding / without embedding and head: counted from the
# modelling code by the survey that the totals above come from. Published: V2-Lite 2.4B, V2 21B, V3 and R1
# 36.7B (README_WEIGHTS.md), Qwen3-235B 22B, Mixtral 12.9B and 39.1B and Qwen3-30B 3.3B with the embedding.
ACTIVE = {
    "deepseek-ai/DeepSeek-V2-Lite": (2.451, 2.242),
    "deepseek-ai/DeepSeek-V2": (20.852, 20.327),
    "deepseek-ai/DeepSeek-V3": (36.626, 35.699),
    "deepseek-ai/DeepSeek-R1": (36.626, 35.699),
    "Qwen/Qwen2.5-7B": (7.071, 6.526),
    "Qwen/Qwen2.5-72B": (71.460, 70.215),
    "Qwen/Qwen3-8B": (7.568, 6.946),
    "Qwen/Qwen3-32B": (31.984, 31.206),
    "Qwen/Qwen3-30B-A3B": (3.042, 2.731),
    "Qwen/Qwen3-235B-A22B": (21.568, 20.946),
    "Qwen/Qwen3-0.6B": (0.596, 0.440),
    "meta-llama/Llama-2-7b-hf": (6.607, 6.476),
    "meta-llama/Llama-2-13b-hf": (12.852, 12.688),
    "meta-llama/Llama-2-70b-hf": (68.715, 68.452),
    "meta-llama/Llama-3.1-8B": (7.505, 6.980),
    "meta-llama/Llama-3.1-70B": (69.503, 68.452),
    "meta-llama/Llama-3.1-405B": (403.752, 401.651),
    "meta-llama/Llama-3.2-3B": (3.213, 2.819),
    "mistralai/Mistral-7B-v0.1": (7.111, 6.980),
    "mistralai/Mistral-7B-v0.3": (7.114, 6.980),
    "mistralai/Mistral-Large-Instruct-2407": (122.207, 121.805),
    "mistralai/Mixtral-8x7B-v0.1": (12.749, 12.618),
    "mistralai/Mixtral-8x22B-v0.1": (38.955, 38.759),
    "01-ai/Yi-34B": (33.930, 33.471),
}


@pytest.mark.parametrize("name", OPT_BY_HAND)
def test_opt_is_the_count_by_hand(name: str) -> None:
    assert count_parameters(read_model(name)).total_parameters == OPT_BY_HAND[name]


def test_every_packaged_model_has_a_published_total_or_a_reason() -> None:
    with (Path(__file__).parent / "published_totals.csv").open(newline="") as lines:
        published = {row["model"] for row in csv.DictReader(lines)}
    assert set(packaged_models()) == published | set(NO_PUBLISHED_TOTAL)
    assert not published & set(NO_PUBLISHED_TOTAL)
    assert all(NO_PUBLISHED_TOTAL.values())


@pytest.mark.parametrize("name", ACTIVE)
def test_active_parameters(name: str) -> None:
    counted = count_parameters(read_model(name))
    with_head, core = ACTIVE[name]
    assert counted.active_parameters / 1e9 == pytest.approx(with_head, abs=0.0006)
    assert counted.active_core / 1e9 == pytest.approx(core, abs=0.0006)


def test_active_parameters_of_opt_are_its_published_count() -> None:
    # Tied head and learned positions count, so that active is all of it: 12,853,473,280 by the same survey.
    counted = count_parameters(read_model("facebook/opt-13b"))
    positions, table = 2050 * 5120, 50272 * 5120
    assert counted.active_parameters == 12_853_473_280
    assert counted.active_core == OPT_BY_HAND["facebook/opt-13b"] - table
    assert counted.embedding_parameters == table + positions


def test_mixer_parameters_by_hand() -> None:
    # q 10x8, k and v 10x4, o 8x10; biases 8 + 2 x 4 and 10; norms 2 x 4.
    mixer = Attention(2, 1, 4, qkv_bias=True, out_bias=True, norm_parameters=8)
    assert block_parameters(mixer, 10) == 80 + 2 * 40 + 80 + 16 + 10 + 8
    # q_a 10x6 + 6, q_b 6 x 2x(3+2), kv_a 10x(5+2) + 5, kv_b 5 x 2x(3+4), o 2x4 x 10.
    latent = LatentAttention(heads=2, q_rank=6, kv_rank=5, nope_dim=3, rope_dim=2, v_dim=4)
    assert block_parameters(latent, 10) == 66 + 60 + 75 + 70 + 80
    # Without a query rank: q 10 x 2x(3+2).
    assert block_parameters(replace(latent, q_rank=None), 10) == 100 + 75 + 70 + 80


def test_feed_forward_parameters_by_hand() -> None:
    assert block_parameters(Dense(7), 10) == 3 * 70
    assert block_parameters(Dense(7, matrices=2, bias=True), 10) == 2 * 70 + 7 + 10
    assert block_parameters(Dense(7, bias=True), 10) == 3 * 70 + 2 * 7 + 10
    # Router 10x8 + 8, experts 8 x 3 x 10 x 6, shared 3 x 10 x 12, gate 10.
    experts = Experts(8, 2, 6, shared_width=12, shared_gate=True, router_bias=True)
    assert block_parameters(experts, 10) == 88 + 8 * 180 + 360 + 10
    assert block_parameters(experts, 10, active=True) == 88 + 2 * 180 + 360 + 10


def test_qwen2_moe_with_dense_layers_by_hand() -> None:
    data = {
        "model_type": "qwen2_moe",
        "hidden_size": 8,
        "num_hidden_layers": 6,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 11,
        "intermediate_size": 5,
        "moe_intermediate_size": 3,
        "shared_expert_intermediate_size": 7,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "decoder_sparse_step": 2,
        "mlp_only_layers": [3],
    }
    # Layers 1, 3, 5 miss no step; 3 is named dense: experts in 1 and 5, dense blocks in 0, 2, 3, 4.
    attention = 8 * 8 + 2 * 8 * 4 + 8 * 8 + (8 + 2 * 4)
    sparse = 4 * 8 + 4 * 3 * 8 * 3 + 3 * 8 * 7 + 8
    dense = 3 * 8 * 5
    by_hand = 6 * (attention + 16) + 2 * sparse + 4 * dense + 2 * 11 * 8 + 8
    model = parse_config(data, "by hand", "tiny")
    assert count_parameters(model).total_parameters == by_hand
    assert sorted((type(layer.feed_forwards[0]).__name__, layer.count) for layer in model.layers) == [
        ("Dense", 4),
        ("Experts", 2),
    ]


def test_fp8_scales_are_the_published_surplus_of_deepseek_v3() -> None:
    # 684,531,386,000 published for V3 (with scales) - 684,489,845,504 for R1 (same weights, without).
    model = read_model("deepseek-ai/DeepSeek-V3")
    assert dict(model.extras)["fp8_scales"] == 684_531_386_000 - 684_489_845_504
    # By hand: attention 12x56 + 192x12 + 5x56 + 256x4 + 56x128, dense block 3 x 144x56, expert 3 x 16x56.
    attention, dense, expert = 672 + 2304 + 280 + 1024 + 7168, 3 * 144 * 56, 3 * 16 * 56
    by_hand = 61 * attention + 3 * dense + 58 * 257 * expert
    assert stored_scales(model.layers, model.hidden) == by_hand


def test_weight_bytes_of_deepseek_v3_are_the_size_of_its_files() -> None:
    # The repository's safetensors files hold 688,586,727,753 bytes: the tensors and a header each (about 130
    # bytes for each of 91,991 tensors, 12 MB). Beside the main model: one layer, eh_proj, both tables.
    model = read_model("deepseek-ai/DeepSeek-V3")
    moe_layer = model.layers[-1]
    quantised = block_parameters(moe_layer.mixers[0], 7168) - 1536 - 512 + 257 * 3 * 7168 * 2048
    scales = 12 * 56 + 192 * 12 + 5 * 56 + 256 * 4 + 56 * 128 + 257 * 3 * 16 * 56
    extras = dict(model.extras)
    wide = extras["mtp"] - quantised + extras["stored_mtp_embed_head"]
    headers = 688_586_727_753 - (weight_bytes(model) + quantised + 2 * wide + 4 * scales)
    assert 0 < headers < 2e-5 * 688_586_727_753


def test_weight_bytes_by_dtype() -> None:
    model = read_model("meta-llama/Llama-3.1-8B")
    assert weight_bytes(model) == 2 * 8_030_261_248
    assert weight_bytes(model, "fp32") == 4 * 8_030_261_248
    # In fp8 two tables of 128,256 x 4,096 and 65 norms of 4,096 stay two bytes wide; no scales are known.
    wide = 2 * 128256 * 4096 + 65 * 4096
    assert weight_bytes(model, "fp8") == 8_030_261_248 + wide
    assert weight_bytes(read_model("deepseek-ai/DeepSeek-V3"), "bf16") == 2 * 671_026_419_200


def test_weight_bytes_by_format() -> None:
    # gpt-oss-20b: 24 layers of 32 experts, 2 x 2,880 + 2,880 rows of 2,880 columns at 4 bits, and a byte of
    # scale to every 32 of them; all else is bf16 (biases of the experts, too): 20,914,757,184 parameters.
    experts = 24 * 32 * 3 * 2880 * 2880
    parts = weight_bytes_by_format(read_model("openai/gpt-oss-20b"))
    assert parts == {"mxfp4": experts * 17 // 32, "16-bit floats": 2 * (20_914_757_184 - experts)}
    # As fp32 nothing stays in the formats of the checkpoint.
    whole = weight_bytes_by_format(read_model("openai/gpt-oss-20b"), "fp32")
    assert whole == {"32-bit floats": 4 * 20_914_757_184}


@pytest.mark.parametrize("name", packaged_models())
def test_weight_bytes_by_format_add_up(name: str) -> None:
    model = read_model(name)
    if model.weight_dtype is None:
        with pytest.raises(InputError, match="states no dtype"):
            weight_bytes_by_format(model)
        return
    parts = weight_bytes_by_format(model)
    assert sum(parts.values()) == pytest.approx(weight_bytes(model), abs=len(parts))
    assert all(size > 0 for size in parts.values())


def test_weight_bytes_without_a_dtype() -> None:
    model = replace(read_model("facebook/opt-13b"), weight_dtype=None)
    counted = count_parameters(model)
    assert counted.weight_bytes is None
    assert counted.weight_bytes_reason is not None and "states no dtype" in counted.weight_bytes_reason
    with pytest.raises(InputError, match="states no dtype"):
        weight_bytes(model)
    assert weight_bytes(model, "fp16") == 2 * counted.total_parameters


def test_unknown_dtype_names_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'bf16'"):
        weight_bytes(read_model("Qwen/Qwen3-8B"), "bfloat16")
