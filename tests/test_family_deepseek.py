"""DeepSeek-V3.2 and Kimi-K2: the indexer, its cache, and what lies beside the main model."""

from __future__ import annotations

import pytest

from costmodel.errors import InputError
from costmodel.families import parse_config, read_model
from costmodel.inputs.model import Indexer, LatentAttention
from costmodel.inputs.parameters import block_parameters, count_parameters, weight_bytes
from costmodel.memory.kv import kv_bytes

TINY = {
    "model_type": "deepseek_v32",
    "torch_dtype": "bfloat16",
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "vocab_size": 10,
    "q_lora_rank": 4,
    "kv_lora_rank": 4,
    "qk_nope_head_dim": 2,
    "qk_rope_head_dim": 2,
    "v_head_dim": 2,
    "attention_bias": False,
    "index_n_heads": 3,
    "index_head_dim": 4,
    "index_topk": 5,
    "intermediate_size": 6,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "moe_intermediate_size": 3,
    "first_k_dense_replace": 1,
    "num_nextn_predict_layers": 1,
    "tie_word_embeddings": False,
}


def test_tiny_sparse_model_by_hand() -> None:
    # attention: q_a 8*4, norm 4, q_b 4*8, kv_a 8*6, norm 4, kv_b 4*2*4, o 2*2*8 = 32+4+32+48+4+32+32 = 184
    # indexer: wq_b 4*3*4 = 48, wk 8*4 = 32, k_norm 2*4 = 8, weights 8*3 = 24: 112
    # dense: 3*8*6 = 144; experts: router 4*8 + 4, (4 + 1) of 3*8*3: 36 + 360 = 396
    # two layers: 2*(184 + 112 + 16) + 144 + 396 = 1164; ends: 2*10*8 + 8 = 168
    # MTP: 184 + 112 + 16 + 396 + 2*64 + 3*8 = 860; its copies of embedding and head: 160
    counted = count_parameters(parse_config(TINY, "config.json", "m"))
    assert counted.total_parameters == 1164 + 168
    assert counted.extras == {"mtp": 860, "stored_mtp_embed_head": 160}


def test_every_layer_of_v32_has_an_indexer() -> None:
    model = read_model("deepseek-ai/DeepSeek-V3.2")
    ((mixer, count),) = model.mixers
    assert isinstance(mixer, LatentAttention)
    assert (mixer.indexer, mixer.top_k, count) == (Indexer(64, 128), 2048, 61)
    # 1536*64*128 + 7168*128 + 2*128 + 7168*64
    dense = LatentAttention(128, 1536, 512, 128, 64, 128)
    assert block_parameters(mixer, 7168) - block_parameters(dense, 7168) == 13_959_424


def test_scales_of_v32_are_those_of_the_published_repository() -> None:
    # llmfit 1.1.17 (PyPI): DeepSeek-V3.2-Exp has 41,591,584 elements more than V3.2, whose count omits scales.
    assert count_parameters(read_model("deepseek-ai/DeepSeek-V3.2")).extras["fp8_scales"] == 41_591_584


def test_scales_of_kimi_k2() -> None:
    # llmfit 1.1.17 (PyPI): Kimi-K2-Base, whose count has the scales, has 1,026,470,731,056 elements and
    # Kimi-K2-Instruct, whose count has none, 1,026,408,235,864.
    assert count_parameters(read_model("moonshotai/Kimi-K2-Instruct")).extras["fp8_scales"] == 62_495_192


@pytest.mark.parametrize(
    ("name", "kv", "active"),
    [
        # 61 layers of (512 + 64) * 2 bytes; V3.2 adds 61 * (128 + 4) bytes of indexer keys and their scales
        ("deepseek-ai/DeepSeek-V3.2", 78_324, 37_477_143_296),
        ("moonshotai/Kimi-K2-Instruct", 70_272, 31_687_095_808),
    ],
)
def test_cache_and_active_parameters(name: str, kv: int, active: int) -> None:
    """Active: without the input embedding; DeepSeek-V3.2 is published as 37B, Kimi-K2 as 32B."""
    model = read_model(name)
    held = kv_bytes(model, 4096, "bf16")
    assert held.kv_bytes_per_token_all_layers == held.kv_bytes_per_token == kv
    assert held.fixed_bytes_per_sequence == 0
    assert count_parameters(model).active_parameters == active


def test_kimi_k2_names_no_copies_of_embedding_and_head() -> None:
    plain = {field: value for field, value in TINY.items() if not field.startswith("index_")}
    model = parse_config({**plain, "model_type": "kimi_k2"}, "config.json", "m")
    # without indexers: 860 - 112
    assert count_parameters(model).extras == {"mtp": 748}
    assert "mtp" not in count_parameters(read_model("moonshotai/Kimi-K2-Instruct")).extras


def test_kimi_k2_bytes_are_one_a_weight_and_a_little() -> None:
    # embedding and head stay at two bytes: 2 * 163,840 * 7,168 = 2.35e9 more; scales 4 bytes per 16,384 weights
    model = read_model("moonshotai/Kimi-K2-Instruct")
    assert weight_bytes(model) == pytest.approx(1_026_408_232_448 + 2 * 163_840 * 7_168, rel=5e-4)


@pytest.mark.parametrize("field", ["index_topk", "index_n_heads", "index_head_dim"])
def test_an_indexer_must_state_its_sizes(field: str) -> None:
    with pytest.raises(InputError, match=f"{field} is missing"):
        parse_config({key: value for key, value in TINY.items() if key != field}, "config.json", "m")
