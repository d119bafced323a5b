"""GLM-4 to GLM-5.2: two names for one model, norms, first dense layers, and who has an indexer."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.families import parse_config, read_model
from costmodel.inputs.model import Attention, Dense, LatentAttention, Model
from costmodel.inputs.parameters import count_parameters
from costmodel.memory.kv import kv_bytes

GLM_9B: dict[str, Any] = {
    "model_type": "glm",
    "torch_dtype": "bfloat16",
    "hidden_size": 4096,
    "intermediate_size": 13696,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "vocab_size": 151552,
    "attention_bias": True,
    "tie_word_embeddings": False,
}
GLM_32B = {
    **GLM_9B,
    "model_type": "glm4",
    "hidden_size": 6144,
    "intermediate_size": 23040,
    "num_hidden_layers": 61,
    "num_attention_heads": 48,
    "attention_bias": False,
}
GLM_47_FLASH: dict[str, Any] = {
    "model_type": "glm4_moe_lite",
    "torch_dtype": "bfloat16",
    "hidden_size": 2048,
    "num_hidden_layers": 47,
    "num_attention_heads": 20,
    "vocab_size": 154880,
    "q_lora_rank": 768,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 192,
    "qk_rope_head_dim": 64,
    "v_head_dim": 256,
    "attention_bias": False,
    "intermediate_size": 10240,
    "n_routed_experts": 64,
    "num_experts_per_tok": 4,
    "n_shared_experts": 1,
    "moe_intermediate_size": 1536,
    "first_k_dense_replace": 1,
    "num_nextn_predict_layers": 1,
    "tie_word_embeddings": False,
}
TINY_DSA = {
    **GLM_47_FLASH,
    "model_type": "glm_moe_dsa",
    "num_hidden_layers": 8,
    "first_k_dense_replace": 3,
    "index_n_heads": 2,
    "index_head_dim": 16,
    "index_topk": 64,
}


def parse(fields: dict[str, Any], **changes: Any) -> Model:
    kept = {key: value for key, value in {**fields, **changes}.items() if value is not ...}
    return parse_config(kept, "config.json", "m")


def total(fields: dict[str, Any], **changes: Any) -> int:
    return count_parameters(parse(fields, **changes)).total_parameters


def indexers(model: Model) -> list[int]:
    """Numbers of the layers that have an indexer of their own."""
    first = [model.layers[place].mixers[0] for place in model.order]
    assert all(isinstance(mixer, LatentAttention) and mixer.top_k for mixer in first)
    return [i for i, mixer in enumerate(first) if isinstance(mixer, LatentAttention) and mixer.indexer]


@pytest.mark.parametrize(
    ("fields", "changes", "published"),
    [
        (GLM_9B, {}, 9_399_951_360),  # zai-org/glm-4-9b-hf
        (GLM_9B, {"model_type": "glm4"}, 9_400_279_040),  # zai-org/GLM-4-9B-0414: two norms more a layer
        (GLM_32B, {}, 32_566_081_536),  # zai-org/GLM-4-32B-0414
    ],
)
def test_dense_models(fields: dict[str, Any], changes: dict[str, Any], published: int) -> None:
    """Totals of the Hugging Face API, in llmfit 1.1.17 on PyPI (hf_models.json)."""
    assert total(fields, **changes) == published


def test_defaults_of_the_dense_classes_are_noted() -> None:
    absent = {"num_key_value_heads": ..., "head_dim": ..., "attention_bias": ...}
    model = parse(GLM_9B, **absent)
    assert count_parameters(model).total_parameters == 9_399_951_360
    for said in ("num_key_value_heads absent: 2", "head_dim absent: 128", "attention_bias absent: true"):
        assert any(note.startswith(said) for note in model.notes)


def test_half_of_a_head_rotates_unless_stated() -> None:
    # 100 positions, head of 128: 64 columns of sines and cosines together
    assert parse(GLM_9B, max_position_embeddings=100).rotary_elements == 6400
    assert parse(GLM_9B, max_position_embeddings=100, partial_rotary_factor=1.0).rotary_elements == 12_800
    nested = {"rope_type": "default", "partial_rotary_factor": 0.25}
    assert parse(GLM_9B, max_position_embeddings=100, rope_parameters=nested).rotary_elements == 3200


def test_chatglm_reads_the_older_names() -> None:
    model = read_model("zai-org/glm-4-9b")
    assert count_parameters(model).total_parameters == 9_399_951_360
    assert (model.max_context, model.vocab) == (8192, 151_552)
    ((mixer, count),) = model.mixers
    assert isinstance(mixer, Attention)
    assert (mixer.kv_heads, mixer.head_dim, mixer.qkv_bias, mixer.out_bias, count) == (
        2,
        128,
        True,
        False,
        40,
    )
    # 40 layers * 2 * 2 heads * 128 * 2 bytes
    assert kv_bytes(model, 1, "bf16").kv_bytes_per_token == 40_960


def test_chatglm_without_groups_layer_norms_and_last_norm() -> None:
    # h 4, 2 heads of 2, ffn 3, vocabulary 5, one layer, biases everywhere, LayerNorm (weight and bias)
    # attention 4*16 + 16; ffn 3*12 + 2*3 + 4; norms 2*2*4: 80 + 46 + 16; ends 2*5*4
    fields = {
        "model_type": "chatglm",
        "torch_dtype": "float16",
        "hidden_size": 4,
        "num_layers": 1,
        "num_attention_heads": 2,
        "kv_channels": 2,
        "padded_vocab_size": 5,
        "ffn_hidden_size": 3,
        "multi_query_attention": False,
        "multi_query_group_num": 1,
        "add_qkv_bias": False,
        "add_bias_linear": True,
        "rmsnorm": False,
        "post_layer_norm": False,
        "tie_word_embeddings": False,
    }
    assert total(fields) == 80 + 46 + 16 + 40
    with pytest.raises(InputError, match="rmsnorm is missing; expected true or false"):
        parse(fields, rmsnorm=...)


def test_glm_47_flash() -> None:
    """Published with its MTP layer and copies of embedding and head (llmfit 1.1.17, hf_models.json)."""
    counted = count_parameters(parse(GLM_47_FLASH))
    assert counted.total_parameters + sum(counted.extras.values()) == 31_221_488_576
    assert counted.total_parameters == 29_943_393_920  # mlx-community/GLM-4.7-Flash-8bit: without them


def test_glm_45_air_cache_and_norms() -> None:
    # 46 layers * 2 * 8 heads * 128 * 2 bytes
    model = read_model("zai-org/GLM-4.5-Air")
    held = kv_bytes(model, 4096, "bf16")
    assert held.kv_bytes_per_token == held.kv_bytes_per_token_all_layers == 188_416
    assert held.fixed_bytes_per_sequence == 0
    assert count_parameters(model).active_parameters == 12_803_372_672  # published as 12B
    norms = {mixer.norm_parameters for mixer, _ in model.mixers if isinstance(mixer, Attention)}
    assert norms == {0}
    larger = read_model("zai-org/GLM-4.5").mixers[0][0]
    assert isinstance(larger, Attention) and larger.norm_parameters == 256


@pytest.mark.parametrize(("name", "dense"), [("GLM-4.5-Air", 1), ("GLM-4.6", 3), ("GLM-5", 3)])
def test_first_layers_are_dense(name: str, dense: int) -> None:
    model = read_model(name)
    kinds = [isinstance(model.layers[place].feed_forwards[0], Dense) for place in model.order]
    assert kinds == [True] * dense + [False] * (model.layer_count - dense)


def test_glm_5_has_an_indexer_everywhere_and_5_2_on_21_layers() -> None:
    assert indexers(read_model("zai-org/GLM-5")) == list(range(78))
    assert indexers(read_model("zai-org/GLM-5.2")) == [0, 1, *range(2, 78, 4)]
    # 78 * 576 * 2 bytes, and 132 bytes a layer with an indexer
    assert kv_bytes(read_model("zai-org/GLM-5"), 1, "bf16").kv_bytes_per_token == 100_152
    assert kv_bytes(read_model("zai-org/GLM-5.2"), 1, "bf16").kv_bytes_per_token == 92_628
    assert count_parameters(read_model("zai-org/GLM-5")).active_parameters == 40_833_146_112


def test_mtp_layer_has_an_indexer_where_the_last_layer_has_none() -> None:
    # the same MTP layer in GLM-5 and 5.2, whose published totals both contain it: 9,952,920,576
    names = ("zai-org/GLM-5", "zai-org/GLM-5.2")
    assert [count_parameters(read_model(name)).extras["mtp"] for name in names] == [9_952_920_576] * 2


@pytest.mark.parametrize(
    ("changes", "own"),
    [
        ({}, [0, 1, 2, 3, 4, 5, 6, 7]),
        ({"index_topk_freq": 4, "index_skip_topk_offset": 3}, [0, 1, 2, 6]),
        ({"index_topk_freq": 2}, [0, 1, 3, 5, 7]),
        ({"index_topk_pattern": "FSSFSSFS", "index_topk_freq": 2}, [0, 3, 6]),
        ({"index_topk_pattern": ["full", *["shared"] * 7]}, [0]),
        ({"indexer_types": ["full", *["shared"] * 6, "full"]}, [0, 7]),
    ],
)
def test_which_layers_have_an_indexer(changes: dict[str, Any], own: list[int]) -> None:
    """Numbers worked out by hand: layer i has one where max(i - offset + 1, 0) is a multiple of the frequency."""
    assert indexers(parse(TINY_DSA, **changes)) == own


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"indexer_types": ["full"] * 8, "index_topk_freq": 2}, "indexer_types contradicts"),
        ({"indexer_types": ["full"] * 8, "index_topk_pattern": "FSFSFSFS"}, "indexer_types contradicts"),
        ({"index_topk_pattern": "FSX"}, "index_topk_pattern is 'FSX'; expected 8 letters out of F and S"),
        ({"index_topk_pattern": "SFFFFFFF"}, "the first layer has no indexer"),
        ({"indexer_types": ["full"] * 3}, "indexer_types is .*a list of 8 words"),
        ({"mlp_layer_types": ["dense"] * 8}, "mlp_layer_types contradicts first_k_dense_replace"),
        ({"first_k_dense_replace": 9}, "first_k_dense_replace is 9"),
        ({"moe_layer_freq": 2}, "moe_layer_freq is 2; only 1 is modelled for glm_moe_dsa"),
        ({"attention_bias": True}, "attention_bias is true"),
    ],
)
def test_refusals(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse(TINY_DSA, **changes)
