"""Mixtures of experts close to DeepSeek's (Ling, dots.llm1, DeepSeekMoE), OLMoE and MiniMax-M1, sizes as published.

Totals: safetensors.total of the Hugging Face API, in llmfit 1.1.17 (hf_models.json).
"""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.families import parse_config
from costmodel.inputs.model import Model
from costmodel.inputs.parameters import count_parameters
from costmodel.memory.kv import kv_bytes


def sizes(
    family: str, hidden: int, layers: int, heads: tuple[int, int], ffn: int, vocab: int
) -> dict[str, Any]:
    return {
        "model_type": family,
        "torch_dtype": "bfloat16",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "intermediate_size": ffn,
        "vocab_size": vocab,
        "tie_word_embeddings": False,
    }


def mixture(count: int, top_k: int, width: int, shared: int, first: int) -> dict[str, Any]:
    return {
        "n_routed_experts": count,
        "num_experts_per_tok": top_k,
        "moe_intermediate_size": width,
        "n_shared_experts": shared,
        "first_k_dense_replace": first,
    }


NO_BIASES = {"use_bias": False, "use_qkv_bias": False}
LING_LITE = {
    **sizes("bailing_moe", 2048, 28, (16, 4), 1408, 126464),
    **mixture(64, 6, 1408, 2, 0),
    **NO_BIASES,
}
#: What the files of Ling 2.0 add, under either model_type.
LING_2 = {"use_qk_norm": True, "moe_router_enable_expert_bias": True, "head_dim": 128, **NO_BIASES}
LING_MINI = {**sizes("bailing_moe", 2048, 20, (16, 4), 5120, 157184), **mixture(256, 8, 512, 1, 1), **LING_2}
LING_1T = {
    **sizes("bailing_moe_v2", 8192, 80, (64, 8), 18432, 157184),
    **mixture(256, 8, 2048, 1, 4),
    **LING_2,
}
DOTS = {**sizes("dots1", 4096, 62, (32, 32), 10944, 152064), **mixture(128, 6, 1408, 2, 1)}
DEEPSEEK = {**sizes("deepseek", 2048, 28, (16, 16), 10944, 102400), **mixture(64, 6, 1408, 2, 1)}
OLMOE = {**sizes("olmoe", 2048, 16, (16, 16), 1024, 50304), "num_experts": 64, "num_experts_per_tok": 8}
MINIMAX_M1 = {
    **sizes("minimax_m1", 6144, 80, (64, 8), 9216, 200064),
    "head_dim": 128,
    "num_local_experts": 32,
    "num_experts_per_tok": 2,
    "attn_type_list": ([0] * 7 + [1]) * 10,
}
PUBLISHED = [
    pytest.param(LING_LITE, 16_801_974_272, id="inclusionAI/Ling-lite"),
    pytest.param(LING_MINI, 16_255_643_392, id="inclusionAI/Ling-mini-2.0"),
    pytest.param(LING_1T, 999_705_328_640, id="inclusionAI/Ling-1T"),
    pytest.param(DOTS, 142_774_381_696, id="rednote-hilab/dots.llm1.inst"),
    pytest.param(DEEPSEEK, 16_375_728_128, id="deepseek-ai/deepseek-moe-16b-chat"),
    pytest.param(OLMOE, 6_919_161_856, id="allenai/OLMoE-1B-7B-0924"),
    pytest.param(MINIMAX_M1, 456_089_655_296, id="MiniMaxAI/MiniMax-M1-80k"),
]
#: The language model of DeepSeek-VL2-tiny: model_type deepseek_v2 without latent attention.
VL2_TINY = {
    **sizes("deepseek_v2", 1280, 12, (10, 10), 6848, 129280),
    **mixture(64, 6, 896, 2, 1),
    "kv_lora_rank": None,
    "q_lora_rank": None,
    "qk_nope_head_dim": 0,
    "qk_rope_head_dim": 0,
    "v_head_dim": 0,
    "topk_method": "greedy",
    "use_mla": False,
}


def parse(data: dict[str, Any], **changes: Any) -> Model:
    return parse_config({**data, **changes}, "config.json", "m")


@pytest.mark.parametrize(("data", "published"), PUBLISHED)
def test_published_totals(data: dict[str, Any], published: int) -> None:
    assert count_parameters(parse(data)).total_parameters == published


def test_names_of_the_published_files() -> None:
    other = {
        key: value for key, value in LING_LITE.items() if key not in ("n_routed_experts", "n_shared_experts")
    }
    model = parse(other, num_experts=64, num_shared_experts=2)
    assert count_parameters(model).total_parameters == 16_801_974_272


def test_deepseek_v2_without_latent_attention_caches_every_head() -> None:
    model = parse(VL2_TINY)
    # 12 layers * 2 * 10 heads * 128 * 2 B
    assert kv_bytes(model, 1, "bf16").kv_bytes_per_token == 61_440
    # embedding and head 330,956,800; attention 6,553,600 and norms 2,560 a layer; dense 26,296,320;
    # router 81,920 and 66 experts 227,082,240 in eleven layers; last norm 1,280
    layers = 12 * (6_553_600 + 2_560) + 26_296_320 + 11 * (81_920 + 227_082_240)
    assert count_parameters(model).total_parameters == 330_956_800 + layers + 1_280


def test_deepseek_vl2_with_its_tower_is_the_published_total() -> None:
    tower = {"model_name": "siglip_so400m_patch14_384", "width": 1152, "layers": 27}
    wrapper = {"model_type": "deepseek_vl_v2", "language_config": VL2_TINY, "vision_config": tower}
    counted = count_parameters(parse(wrapper))
    # deepseek-ai/deepseek-vl2-tiny
    assert counted.total_parameters + sum(counted.extras.values()) == 3_370_501_440
    assert set(counted.extras) == {"vision_tower", "vision_head", "projector"}


def test_a_tower_of_another_name_is_not_counted() -> None:
    wrapper = {
        "model_type": "deepseek_vl_v2",
        "language_config": VL2_TINY,
        "vision_config": {"model_name": "x"},
    }
    model = parse(wrapper)
    assert count_parameters(model).extras == {}
    assert any("model_name" in note and "not counted" in note for note in (*model.notes, *model.warnings))


def test_minimax_m1_caches_in_every_eighth_layer() -> None:
    # 10 layers * 2 * 8 heads * 128 * 2 B; 70 states of 64 * 128 * 128 in bf16
    found = kv_bytes(parse(MINIMAX_M1), 1, "bf16")
    assert found.kv_bytes_per_token == 40_960
    assert found.fixed_bytes_per_sequence == 70 * 64 * 128 * 128 * 2


def test_an_mtp_layer_of_ling_is_named() -> None:
    extras = count_parameters(parse(LING_MINI, num_nextn_predict_layers=1)).extras
    # attention 10,485,760 + 256, norms 4,096, router 524,544, experts 808,452,096; projection 2 * 2048^2, 3 norms
    assert extras == {"mtp": 10_486_016 + 4_096 + 524_544 + 808_452_096 + 8_388_608 + 6_144}


@pytest.mark.parametrize(
    ("data", "changes", "said"),
    [
        (VL2_TINY, {"use_mla": True}, "use_mla is true, but its head sizes are 0"),
        (VL2_TINY, {"qk_nope_head_dim": 128}, "use_mla is false, but qk_nope_head_dim is given"),
        (LING_LITE, {"use_bias": True}, "use_bias is true; biases of the experts are not modelled"),
    ],
)
def test_refusals(data: dict[str, Any], changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse(data, **changes)
